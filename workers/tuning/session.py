"""A tuning session: propose, build, measure, tell the tuner, record; until the trials are used up.

Building overlaps measuring: a round is measured as soon as its candidates are built, while others
are built. Where a candidate is measured in isolation the building processes are paused.
"""

from __future__ import annotations

import math
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from workers.measure.effort import BRISK, Effort, never
from workers.measure.parallel.calibrator import (
    RANKED_SHARE,
    CalibratorForm,
    contending_within,
    select_ranked,
)
from workers.measure.parallel.doppler import DopplerMeasurer
from workers.measure.parallel.evidence import Evidence
from workers.measure.parallel.fixed import FixedMeasurer
from workers.measure.parallel.pool import MeasuringPool, WorkerPool
from workers.measure.parallel.ranking import measured_in_turns
from workers.measure.parallel.react import ReactForm, ReactPolicy, ReactState
from workers.measure.parallel.rounds import ParallelRound, SubjectMeasurer, Taken
from workers.measure.statistics import median_interval
from workers.tuning.kernels.arguments import ProgramArguments, write_reference
from workers.tuning.kernels.build import BuildOrder
from workers.tuning.kernels.pool import MEMORY_BYTES, TIMEOUT_S, BuildPool, Built
from workers.tuning.kernels.source import Source, TracedSource
from workers.tuning.kernels.subject import KernelSubject
from workers.tuning.program import TensorProgram
from workers.tuning.programs.catalog import family_of
from workers.tuning.recording import RoundClock, learned, record_round, usable_cores
from workers.tuning.records import KernelRecord, RankedRecord, RoundRecord, Told
from workers.tuning.targets import KernelTarget
from workers.tuning.task_scheduler import Standing, choose
from workers.tuning.tuner import Candidate, Tuner
from workers.tuning.tuners.catalog import TUNERS, UnknownTunerError, open_tuner

if TYPE_CHECKING:
    from workers.tuning.space import DesignSpace

BATCH_SIZE = 64
"""As TVM's and the paper's (Section 5.1)."""


class TuningError(ValueError):
    """A session that cannot begin, or go on; the message says why and what to do."""


class MeasurerKind(StrEnum):
    """How candidates are measured."""

    DOPPLER = "doppler"
    NAIVE = "naive"
    SERIAL = "serial"


@dataclass(frozen=True, slots=True)
class MeasurerOptions:
    """``degree`` is how many candidates are in flight at once on each device: of ``naive`` always,
    of ``doppler`` at most; 0 stands for the cores of this machine, or 64 on a GPU. ``form`` and
    ``calibrator`` say whose REACT and whose Calibrator; only ``doppler`` has them."""

    kind: MeasurerKind = MeasurerKind.DOPPLER
    degree: int = 0
    form: ReactForm = ReactForm.PAPER
    calibrator: CalibratorForm = CalibratorForm.POOLED
    effort: Effort = BRISK


@dataclass(frozen=True, slots=True)
class TuningTask:
    """``weight`` is how often the program occurs in what is tuned."""

    program: TensorProgram
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """What decides a session: it is resumed with the same ones, but for ``trials``, which may have
    grown. ``cold`` flushes the caches before every run, ``kernel_memory_bytes`` is how much address
    space a candidate may use, ``ranked_share`` which of all are measured again at the end."""

    tasks: tuple[TuningTask, ...]
    target: KernelTarget
    trials: int
    tuner: str = "evolutionary"
    batch_size: int = BATCH_SIZE
    seed: int = 1
    cold: bool = False
    kernel_memory_bytes: int = 4 << 30
    ranked_share: float = RANKED_SHARE

    def __post_init__(self) -> None:
        if not self.tasks:
            raise TuningError("there is no tensor program to tune")
        if len({task.program for task in self.tasks}) < len(self.tasks):
            raise TuningError("a program is there twice; give it once, with the sum of its weights")
        if self.tuner not in TUNERS:
            raise UnknownTunerError(
                f"no tuner {self.tuner!r}; there are: {', '.join(sorted(TUNERS))}"
            )
        if self.trials < len(self.tasks):
            raise TuningError(
                f"{self.trials} trials for {len(self.tasks)} programs: each needs at least one"
            )
        if self.batch_size < 1:
            raise TuningError(f"the batch size is {self.batch_size}, it must be at least 1")
        if not all(0 < task.weight < math.inf for task in self.tasks):
            raise TuningError("a program's weight must be positive and finite")


@contextmanager
def open_session(
    options: TuningOptions,
    measurer: MeasurerOptions,
    devices: Sequence[str],
    folder: Path,
    builders: int = 0,
    build_timeout_s: float = TIMEOUT_S,
    build_memory_bytes: int = MEMORY_BYTES,
    spread: Callable[[MeasuringPool], MeasuringPool] = lambda local: local,
) -> Iterator[TuningSession]:
    """A session with processes of its own, which end with it. ``devices`` are ``cpu`` or
    ``cuda:N``; ``builders`` is how many processes build, 0 one for each core. Files are left in
    ``folder``. ``spread`` makes of the pool of these devices the one that is measured on."""
    cuda = options.target.kind == "cuda"
    load = "load_cuda" if cuda else "load_cpu"
    with (
        closing(
            BuildPool(builders or usable_cores(), build_timeout_s, build_memory_bytes)
        ) as build,
        closing(WorkerPool(devices, f"workers.tuning.kernels.runtime:{load}")) as local,
    ):
        pool = spread(local)
        most = measurer.degree or (64 if cuda else usable_cores())
        made = make_measurer(measurer, pool, build, most, options)
        yield TuningSession(options, made, pool, build, folder)


def make_measurer(
    measurer: MeasurerOptions,
    pool: MeasuringPool,
    builds: BuildPool,
    most: int,
    options: TuningOptions,
) -> DopplerMeasurer | FixedMeasurer:
    """The measurer of these options on ``pool``, with at most ``most`` candidates at once on a
    device."""
    if measurer.kind is MeasurerKind.DOPPLER:
        return DopplerMeasurer(
            pool,
            measurer.effort,
            ReactPolicy(measurer.form, max_dp=most),
            calibrator=measurer.calibrator,
            seed=options.seed,
            alone=builds.paused,
        )
    degree = 1 if measurer.kind is MeasurerKind.SERIAL else most
    return FixedMeasurer(pool, degree, measurer.effort, alone=builds.paused)


@dataclass
class _Search:
    """One program's tuning so far. Its design space and reference are made when first needed."""

    task: TuningTask
    open_tuner: Callable[[], Tuner]
    open_arguments: Callable[[], ProgramArguments]
    standing: Standing
    latencies: dict[str, float] = field(default_factory=dict)
    """By candidate, in the order of trials; infinite what failed."""
    traces: dict[str, str] = field(default_factory=dict)
    trials: dict[str, int] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)

    @cached_property
    def tuner(self) -> Tuner:
        """Which hears of all its candidates."""
        return self.open_tuner()

    @cached_property
    def arguments(self) -> ProgramArguments:
        """What every kernel is called with."""
        return self.open_arguments()

    def add(self, record: RoundRecord) -> None:
        for trial in record.trials:
            told = math.inf if trial.latency_ms is None else trial.latency_ms
            self.latencies[trial.candidate] = told
            self.traces[trial.candidate] = trial.trace
            self.trials[trial.candidate] = trial.trial
        self.evidence = learned(self.evidence, record)

    def tell(self, proposed: Sequence[Candidate], measured: Sequence[str]) -> None:
        """The tuner all that it proposed: what was never measured has failed. ``measured`` is what
        the batch measured, by key."""
        told = [self.latencies.get(candidate.key, math.inf) for candidate in proposed]
        self.tuner.update(proposed, told)
        if measured:
            done = (self.standing.trials or (0,))[-1] + len(measured)
            bests = [*self.standing.bests[-1:], *(self.latencies[key] for key in measured)]
            self.standing = replace(
                self.standing,
                trials=(*self.standing.trials, done),
                bests=(*self.standing.bests, min(bests)),
            )

    def close(self) -> None:
        """Its space is used up."""
        self.standing = replace(self.standing, open=False)


@dataclass(frozen=True)
class _Batch:
    number: int
    asked: int
    candidates: tuple[Candidate, ...]


class TuningSession:
    """One session. ``pool`` is the measurer's; ``folder`` takes references, libraries while they
    are needed, and the best kernels. Raises TuningError where TVM is missing."""

    def __init__(
        self,
        options: TuningOptions,
        measurer: SubjectMeasurer,
        pool: MeasuringPool,
        builds: BuildPool,
        folder: Path,
    ) -> None:
        try:
            import_module("workers.tuning.space")  # and TVM with it
        except ImportError as error:
            raise TuningError(str(error)) from error
        self._options, self._measurer = options, measurer
        self._builds, self._folder = builds, folder
        shutil.rmtree(folder / "building", ignore_errors=True)
        for name in ("building", "references", "kernels"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._searches = [self._search(number, task) for number, task in enumerate(options.tasks)]
        self._clock = RoundClock(pool.made_s)
        self._batches = self._rounds = self._trials = 0

    def run(
        self, told: Told, earlier: Sequence[RoundRecord] = (), expired: Callable[[], bool] = never
    ) -> bool:
        """``tune``, and where that is complete ``rank``; whether it was."""
        complete = self.tune(told, earlier, expired)
        if complete:
            self.rank(told)
        return complete

    def tune(
        self, told: Told, earlier: Sequence[RoundRecord] = (), expired: Callable[[], bool] = never
    ) -> bool:
        """Measure until the trials are used up or no space has more; whether it got so far before
        ``expired`` became true, which is asked between rounds.

        ``earlier`` are the records of the rounds that were told, in order, of a session with the
        same options that was stopped or killed: nothing of them is built or measured again.
        """
        complete = self._resume(earlier, told, expired)
        while complete and self._trials < self._options.trials:
            if expired():
                return False
            place = choose([search.standing for search in self._searches])
            if place is None:
                told.note("no program's design space has more candidates")
                break
            search = self._searches[place]
            complete = self._batch(search, self._asked(search), told, expired)
        return complete

    def rank(self, told: Told) -> None:
        """Measure the best candidates of each program again, in isolation: its kernel is the
        fastest of them. Also where time was up, as what was measured until then has a best."""
        for search in self._searches:
            self._rank(search, told)

    def _search(self, number: int, task: TuningTask) -> _Search:
        seed = self._options.seed + number
        digest = blake2b(f"{task.program.key} {seed}".encode(), digest_size=12).hexdigest()
        file = self._folder / "references" / f"{digest}.npz"
        return _Search(
            task,
            lambda: open_tuner(self._options.tuner, self._space(task.program), seed),
            lambda: write_reference(task.program, seed, file),
            Standing(task.weight),
        )

    def _space(self, program: TensorProgram) -> DesignSpace:
        from workers.tuning.space import DesignSpace  # noqa: PLC0415  # loads TVM

        prim_func = family_of(program).prim_func(dict(program.sizes))
        return DesignSpace(prim_func, self._options.target.tvm())

    def _asked(self, search: _Search) -> int:
        """How many candidates the next batch has. In the first one of every program, at most its
        part of the trials, so that none is left out."""
        left = self._options.trials - self._trials
        most = min(self._options.batch_size, left)
        if search.standing.bests:
            return most
        return min(most, max(1, self._options.trials // len(self._searches)))

    def _batch(self, search: _Search, asked: int, told: Told, expired: Callable[[], bool]) -> bool:
        """Propose and measure; whether all of it was measured before ``expired``."""
        proposed = search.tuner.propose(asked)
        if not proposed:
            search.close()
            return True
        self._batches += 1
        fresh = [candidate for candidate in proposed if candidate.key not in search.latencies]
        batch = _Batch(self._batches, asked, tuple(fresh))
        if not self._measure(search, batch, told, expired):
            return False
        search.tell(proposed, [candidate.key for candidate in fresh])
        return True

    def _resume(
        self, earlier: Sequence[RoundRecord], told: Told, expired: Callable[[], bool]
    ) -> bool:
        """Bring everything to where it was after the ``earlier`` rounds, and finish their last
        batch."""
        searches = {search.task.program.key: search for search in self._searches}
        for record in earlier:
            if record.program not in searches:
                raise TuningError(f"a record is of {record.program}, which is not tuned here")
            searches[record.program].add(record)
            self._take_state(record)
        batches = [list(group) for _, group in groupby(earlier, lambda record: record.batch)]
        for place, group in enumerate(batches):
            search, asked = searches[group[0].program], group[0].asked
            recorded = [trial.candidate for record in group for trial in record.trials]
            proposed = search.tuner.propose(asked)
            keys = [candidate.key for candidate in proposed]
            if keys[: len(recorded)] != recorded:
                told.note(
                    f"batch {group[0].batch}: the tuner now proposes other candidates than those"
                    " that were measured; the records are kept"
                )
            left = [candidate for candidate in proposed if candidate.key not in search.latencies]
            # Only the last batch can have been interrupted.
            left = left[: asked - len(recorded)] if place == len(batches) - 1 else []
            batch = _Batch(self._batches, asked, tuple(left))
            if not self._measure(search, batch, told, expired):
                return False
            search.tell(proposed, [*recorded, *(candidate.key for candidate in left)])
        return True

    def _take_state(self, record: RoundRecord) -> None:
        self._rounds, self._batches = record.number, record.batch
        self._trials += len(record.trials)
        self._clock.go_on_from(record.ended_s)
        if record.degree_of_parallelism and isinstance(
            self._measurer, DopplerMeasurer | FixedMeasurer
        ):
            self._measurer.done += 1
        if record.react is not None and isinstance(self._measurer, DopplerMeasurer):
            self._measurer.state = ReactState(record.react.d_p, record.react.adaptive_max)

    def _measure(
        self, search: _Search, batch: _Batch, told: Told, expired: Callable[[], bool]
    ) -> bool:
        """Build and measure a batch in rounds; whether all of it was before ``expired``."""
        folder = self._folder / "building" / str(batch.number)
        sources = [self._source(search, candidate) for candidate in batch.candidates]
        orders = [
            self._order(source, folder / str(number)) for number, source in enumerate(sources)
        ]
        futures = self._builds.build(orders)
        waiting = deque(zip(batch.candidates, futures, strict=True))
        try:
            while waiting:
                if expired() or not self._round(search, batch, waiting, told, expired):
                    return False
            return True
        finally:
            for future in futures:
                future.cancel()
            for future in futures:
                # Whoever still builds would write into the folder.
                if not future.cancelled():
                    future.exception()
            shutil.rmtree(folder, ignore_errors=True)

    def _round(
        self,
        search: _Search,
        batch: _Batch,
        waiting: deque[tuple[Candidate, Future[Built]]],
        told: Told,
        expired: Callable[[], bool],
    ) -> bool:
        """The next candidates in their order, as many as the measurer takes of what can be built;
        whether it measured all of them."""
        self._clock.begin()
        size = self._measurer.round_size(len(waiting))
        taken: list[tuple[Candidate, Built]] = []
        subjects: list[KernelSubject] = []
        while waiting and len(subjects) < size:
            candidate, future = waiting.popleft()
            built = future.result()
            taken.append((candidate, built))
            if built.library is not None:
                subjects.append(self._subject(search, built.library))
        rounds: list[ParallelRound] = []
        if isinstance(self._measurer, DopplerMeasurer):
            self._measurer.evidence = search.evidence
        found = self._measurer.measure(subjects, rounds.append, expired) if subjects else []
        measured = iter(found)
        decided: list[tuple[Candidate, Built, Taken]] = []
        for candidate, built in taken:
            one = _unbuilt(built) if built.library is None else next(measured)
            if one is None:
                break
            decided.append((candidate, built, one))
        if decided:
            self._record(search, batch, decided, rounds[0] if rounds else None, told)
        return len(decided) == len(taken)

    def _record(
        self,
        search: _Search,
        batch: _Batch,
        decided: Sequence[tuple[Candidate, Built, Taken]],
        found: ParallelRound | None,
        told: Told,
    ) -> None:
        policy = self._measurer.policy if isinstance(self._measurer, DopplerMeasurer) else None
        record = record_round(
            number=self._rounds + 1,
            batch=batch.number,
            asked=batch.asked,
            program=search.task.program.key,
            first_trial=self._trials + 1,
            decided=decided,
            found=found,
            policy=policy,
            clock=self._clock,
        )
        self._rounds += 1
        self._trials += len(record.trials)
        search.add(record)
        told.round(record)

    def _rank(self, search: _Search, told: Told) -> None:
        """Rank selection (Section 4.3): the best are built again and measured in isolation."""
        keys = list(search.latencies)
        latencies = [search.latencies[key] for key in keys]
        ranked: list[RankedRecord] = []
        while all(one.failure is not None for one in ranked):
            within = contending_within(search.evidence.doubt)
            best = select_ranked(latencies, self._options.ranked_share, within)
            if not best:
                break
            ranked += self._measured_alone(search, [keys[place] for place in best])
            for place in best:
                latencies[place] = math.inf
        chosen = min(ranked, key=lambda one: one.device_ms or math.inf, default=None)
        for other in ranked:
            if other is not chosen or other.failure is not None:
                shutil.rmtree(self._kept(other.candidate), ignore_errors=True)
        if chosen is None or chosen.failure is not None:
            name = search.task.program.key
            told.note(f"no candidate of {name} could be measured: there is no kernel of it")
        else:
            told.kernel(self._kernel(search, chosen, tuple(ranked)))

    def _measured_alone(self, search: _Search, keys: Sequence[str]) -> list[RankedRecord]:
        orders = [
            self._order(
                self._source(search, Candidate(search.traces[key])), self._kept(key), keep=True
            )
            for key in keys
        ]
        built = [future.result() for future in self._builds.build(orders)]
        libraries = [one.library for one in built if one.library is not None]
        subjects = [self._subject(search, path) for path in libraries]
        within = contending_within(search.evidence.doubt)
        taken = iter(measured_in_turns(self._measurer.isolated, subjects, contending=within))
        found = []
        for key, one in zip(keys, built, strict=True):
            got = next(taken) if one.library is not None else _unbuilt(one)
            low, high = median_interval(got.runs_ms) if got.runs_ms else (None, None)
            found.append(
                RankedRecord(
                    trial=search.trials[key],
                    candidate=key,
                    told_ms=search.latencies[key],
                    device_ms=got.device_ms if got.failure is None else None,
                    wall_ms=got.wall_ms if got.failure is None else None,
                    low_ms=low,
                    high_ms=high,
                    samples=len(got.runs_ms),
                    failure=got.failure,
                    reason=got.reason,
                )
            )
        return found

    def _kernel(
        self, search: _Search, chosen: RankedRecord, ranked: tuple[RankedRecord, ...]
    ) -> KernelRecord:
        library = self._kept(chosen.candidate) / "kernel.so"
        suffix = ".cu" if self._options.target.kind == "cuda" else ".ll"
        return KernelRecord(
            program=search.task.program.key,
            weight=search.task.weight,
            trials=len(search.latencies),
            trial=chosen.trial,
            candidate=chosen.candidate,
            trace=search.traces[chosen.candidate],
            latency_ms=chosen.device_ms or math.inf,
            wall_ms=chosen.wall_ms or math.inf,
            tir=library.with_suffix(".tir.py").read_text(),
            source=library.with_suffix(suffix).read_text(),
            library=str(library),
            ranked=ranked,
        )

    def _kept(self, key: str) -> Path:
        return self._folder / "kernels" / key

    def _order(self, source: Source, folder: Path, keep: bool = False) -> BuildOrder:
        folder.mkdir(parents=True, exist_ok=True)
        return BuildOrder(source, self._options.target, folder / "kernel.so", keep)

    def _subject(self, search: _Search, library: Path) -> KernelSubject:
        options = self._options
        return KernelSubject(library, search.arguments, options.cold, options.kernel_memory_bytes)

    def _source(self, search: _Search, candidate: Candidate) -> Source:
        """What a candidate's kernel is built from."""
        return TracedSource(search.task.program, candidate)


def _unbuilt(built: Built) -> Taken:
    return Taken(math.inf, failure=built.failure, reason=built.reason)
