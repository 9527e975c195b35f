"""A job that tunes tensor programs into kernels: from its rounds in the database, if it has any, to
a zip for each program."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from backend.jobs.kernel_options import KernelOptions, KernelProgram
from backend.jobs.schemas import JobProgress, JobSpec
from workers import devices
from workers.devices.base import DeviceError, DeviceFacts
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelSource
from workers.measure.measurement import Failure, Measurement
from workers.measure.parallel.calibrator import CalibratorForm
from workers.measure.parallel.hosts import HostsPool, Orders
from workers.measure.parallel.pool import MeasuringPool
from workers.measure.parallel.react import ReactForm
from workers.measure.profile_index import ProfileIndex, ProfileKey
from workers.runner.importing import import_graph
from workers.runner.kernel_archive import archive_name, write_kernel_archive
from workers.runner.quiet import NoisePolicy, Watch
from workers.runner.reporting import Reporter
from workers.runner.store import JobStore
from workers.runner.tuning_store import Tuned, TuningStore, Uncovered, Undertaking
from workers.tuning.extraction import extract
from workers.tuning.program import ProgramError, TensorProgram, TensorSpec
from workers.tuning.programs import catalog
from workers.tuning.records import KernelRecord, RoundRecord
from workers.tuning.session import (
    MeasurerKind,
    MeasurerOptions,
    TuningError,
    TuningOptions,
    TuningTask,
    open_session,
)
from workers.tuning.targets import KernelTarget, named_target, target

PROVIDER = "tvm"
"""Of kernels in the ProfileIndex."""

_MOST_SEED = 2**31 - 1
_GONE = frozenset({Failure.LAUNCH, Failure.CRASH, Failure.TIMEOUT})
"""How candidates end on a device that is not there any more."""

Discover = Callable[[], Iterable[DeviceFacts]]


@dataclass(frozen=True, slots=True)
class TuningPlace:
    """What a job for kernels works with. ``discover`` says which devices there are now, and
    ``orders`` how others than the job's own, of which it is given the facts, are reached."""

    store: JobStore
    index: ProfileIndex
    workdir: Path
    limits: SandboxLimits
    noise: NoisePolicy
    discover: Discover = devices.discover
    orders: Callable[[DeviceFacts], Orders] | None = None


def run_tuning(spec: JobSpec, source: ModelSource | None, place: TuningPlace) -> None:
    """Tune the programs that the job names, or those of its model, ``source``.

    What an earlier attempt recorded is neither searched nor measured again, and the time that it
    took is a part of the budget. Raises ProgramError, TuningError, DeviceError, BuildError,
    ImportFailure or NoisyMachineError when the job cannot succeed, and LeaseLostError.
    """
    kernels = _required(spec)
    facts = _device(spec.device, place.discover)
    reporter = Reporter(place.store, spec.batch_sizes[0])
    records = TuningStore(place.store)
    compiled_for = _target(facts)
    found = records.undertaking()
    if found is None:
        found = _undertaking(spec, kernels, source, place, reporter)
        records.begin(found, compiled_for)
    options = _options(spec, kernels, found, compiled_for)
    measurer = MeasurerOptions(
        MeasurerKind(kernels.measurer.kind),
        kernels.measurer.degree,
        ReactForm(kernels.measurer.form),
        CalibratorForm(kernels.measurer.calibrator),
    )
    earlier = records.earlier()
    told = _Told(records, place, reporter, found, options, facts, earlier)
    Watch.over(facts, place.noise, reporter).wait()
    spread = _spread(kernels, facts, place, reporter)
    with open_session(options, measurer, [spec.device], place.workdir, spread=spread) as session:
        place.store.enter_tuning()
        spent_s = earlier[-1].ended_s if earlier else 0.0
        deadline = time.monotonic() + spec.budget_seconds - spent_s
        told.begin(earlier, deadline)
        complete = session.tune(told, earlier, lambda: time.monotonic() >= deadline)
        place.store.enter_verifying()
        reporter.step("verifying", 0, 0, "building the best again and measuring them in isolation")
        session.rank(told)
    told.end(complete, spec.budget_seconds)
    place.store.succeed([])


def _spread(
    kernels: KernelOptions, facts: DeviceFacts, place: TuningPlace, reporter: Reporter
) -> Callable[[MeasuringPool], MeasuringPool]:
    """What makes of the pool of the job's own device the one that it asks for."""

    def over_hosts(local: MeasuringPool) -> MeasuringPool:
        if kernels.hosts == "own" or place.orders is None:
            return local
        pool = HostsPool(local, place.orders(facts))
        others = pool.devices[len(local.devices) :]
        reporter.log(
            f"measures also on {', '.join(others)}"
            if others
            else "no other host measures for a device like this one now; one may come later"
        )
        return pool

    return over_hosts


def _required(spec: JobSpec) -> KernelOptions:
    if spec.kernels is None:
        raise TuningError("the job does not say which kernels to tune")
    return spec.kernels


def _device(name: str, discover: Discover) -> DeviceFacts:
    if name.startswith("sim:"):
        raise DeviceError("a simulated GPU runs no kernels, so none are tuned on it; take another")
    known = {facts.name: facts for facts in discover()}
    if name not in known:
        raise DeviceError(f"no device {name!r} here; known: {', '.join(known)}")
    return known[name]


def _target(facts: DeviceFacts) -> KernelTarget:
    """What kernels for the device are compiled for. Raises TuningError where TVM is missing."""
    try:
        if facts.gpu is None:
            return named_target("llvm")
        major, minor = facts.gpu.compute_capability
        return target({"kind": "cuda", "arch": f"sm_{major}{minor}"})
    except ImportError as error:
        raise TuningError(str(error)) from error


def _options(
    spec: JobSpec, kernels: KernelOptions, found: Undertaking, compiled_for: KernelTarget
) -> TuningOptions:
    return TuningOptions(
        tasks=tuple(
            TuningTask(catalog.from_key(one.program), one.weight) for one in found.programs
        ),
        target=compiled_for,
        trials=kernels.trials,
        tuner=kernels.tuner,
        batch_size=kernels.batch_size,
        seed=1 + spec.seed % (_MOST_SEED - len(found.programs)),
        cold=kernels.cold,
    )


def _undertaking(
    spec: JobSpec,
    kernels: KernelOptions,
    source: ModelSource | None,
    place: TuningPlace,
    reporter: Reporter,
) -> Undertaking:
    if source is None:
        return named_programs(kernels.programs)
    graph, _ = import_graph(spec, source, reporter, place.workdir, place.limits)
    extracted = extract(graph)
    uncovered = tuple(
        Uncovered(one.reason, one.operators, one.flops / 1e9) for one in extracted.uncovered
    )
    for one in uncovered:
        reporter.log(
            f"not covered by tensor programs, {one.gflops:.3g} GFLOPs: {one.reason}"
            f" ({len(one.operators)} operators, such as {one.operators[0]})"
        )
    if not extracted.programs:
        raise ProgramError("the model has no operator that a tensor program computes")
    reporter.log(
        f"{len(extracted.programs)} tensor programs compute {extracted.covered:.1%} of the"
        " model's FLOPs"
    )
    names = names_of([one.program for one in extracted.programs])
    programs = tuple(
        Tuned(
            one.program.key,
            names[one.program],
            float(len(one.occurrences)),
            one.flops / 1e9,
            tuple(
                {"unit": occurrence.unit, "operators": list(occurrence.operators)}
                for occurrence in one.occurrences
            ),
        )
        for one in extracted.programs
    )
    return Undertaking(programs, uncovered, extracted.covered)


def named_programs(wanted: Iterable[KernelProgram]) -> Undertaking:
    """The programs that a job names; one that is there twice has the sum of its weights. Raises
    ProgramError, naming what was meant perhaps."""
    weights: dict[TensorProgram, float] = {}
    for one in wanted:
        program = _program(one)
        weights[program] = weights.get(program, 0.0) + one.weight
    names = names_of(weights)
    return Undertaking(
        tuple(
            Tuned(program.key, names[program], weight, catalog.flops(program) / 1e9)
            for program, weight in weights.items()
        )
    )


def _program(wanted: KernelProgram) -> TensorProgram:
    if wanted.workload is None:
        return catalog.program(wanted.family or "", wanted.sizes)
    known = catalog.workloads()
    if wanted.workload not in known:
        close = get_close_matches(wanted.workload, known)
        there = (
            f"perhaps {' or '.join(close)} is meant" if close else f"there are {', '.join(known)}"
        )
        raise ProgramError(f"no workload is called {wanted.workload!r}; {there}")
    return known[wanted.workload]


def names_of(programs: Iterable[TensorProgram]) -> dict[TensorProgram, str]:
    """A name for each that people can read: its workload's, or its family with the shapes that it
    computes from and to, and a number where two have the same."""
    known = {program: name for name, program in catalog.workloads().items()}
    names: dict[TensorProgram, str] = {}
    seen: Counter[str] = Counter()
    for program in programs:
        name = known.get(program) or _shapes(program)
        seen[name] += 1
        names[program] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return names


def _shapes(program: TensorProgram) -> str:
    def shapes(specs: Iterable[TensorSpec]) -> str:
        return ", ".join("x".join(map(str, spec.shape)) for spec in specs if len(spec.shape) > 1)

    read, written = shapes(catalog.inputs(program)), shapes(catalog.outputs(program))
    return f"{program.family} {read} to {written}"


class _Told:
    """Hears of the session: every round is durable before the next one begins."""

    def __init__(
        self,
        records: TuningStore,
        place: TuningPlace,
        reporter: Reporter,
        found: Undertaking,
        options: TuningOptions,
        facts: DeviceFacts,
        earlier: Iterable[RoundRecord],
    ) -> None:
        self._records, self._place, self._reporter = records, place, reporter
        self._options, self._facts = options, facts
        self._names: Mapping[str, str] = {one.program: one.name for one in found.programs}
        self._trials = sum(len(record.trials) for record in earlier)
        self._began, self._before = time.monotonic(), self._trials
        self._deadline = math.inf
        self._kernels = 0

    def begin(self, earlier: list[RoundRecord], deadline: float) -> None:
        """Before the first round of this attempt, which ends at ``deadline`` at the latest."""
        self._deadline = deadline
        if earlier:
            self._reporter.log(
                f"goes on after {self._trials} trials in {len(earlier)} rounds, which are kept"
            )

    def round(self, record: RoundRecord) -> None:
        if record.trials and all(trial.failure in _GONE for trial in record.trials):
            _device(self._facts.name, self._place.discover)  # or nothing would ever succeed again
        self._trials += len(record.trials)
        self._records.round(record, self._progress(record))

    def kernel(self, record: KernelRecord) -> None:
        name = self._names[record.program]
        program = catalog.from_key(record.program)
        path = self._place.workdir / archive_name(name)
        write_kernel_archive(path, record, program, name, self._options.target)
        self._records.kernel(record, path)
        path.unlink()
        self._place.index.record({self._profile_key(record): _measurement(record)})
        self._kernels += 1
        self._reporter.log(f"{name}: {record.latency_ms:.4g} ms in isolation, trial {record.trial}")

    def note(self, text: str) -> None:
        self._reporter.warn(text)

    def end(self, complete: bool, budget_s: float) -> None:
        """After ranking. Raises TuningError if there is no kernel."""
        wanted = self._options.trials
        if not self._trials:
            raise TuningError(
                f"the budget of {budget_s:g} s was used up before a round was over; allow more"
            )
        if not self._kernels:
            raise TuningError(
                f"no kernel came of {self._trials} trials, as each of them failed; why, is told"
                " with the job's trials"
            )
        if not complete:
            self._reporter.warn(
                f"the budget of {budget_s:g} s was used up after {self._trials} of {wanted} trials"
            )
            self._records.ended("budget")
        else:
            self._records.ended("complete" if self._trials >= wanted else "exhausted")

    def _progress(self, record: RoundRecord) -> JobProgress:
        done, wanted = self._trials, self._options.trials
        fresh = done - self._before
        now = time.monotonic()
        pace = (now - self._began) / fresh if fresh else None
        left_s = max(0.0, self._deadline - now)
        return JobProgress(
            stage="tuning",
            step=done,
            steps=wanted,
            message=f"{self._names[record.program]}: {record.degree_of_parallelism} at once",
            eta_seconds=None if pace is None else min(pace * (wanted - done), left_s),
        )

    def _profile_key(self, record: KernelRecord) -> ProfileKey:
        return ProfileKey(
            device_fingerprint=self._facts.fingerprint,
            provider=PROVIDER,
            context=f"kernel threads=1 candidate={record.candidate}",
            signature=record.program,
        )


def _measurement(record: KernelRecord) -> Measurement:
    """By the device's clock, in isolation, as the kernel was chosen."""
    chosen = next(one for one in record.ranked if one.candidate == record.candidate)
    return Measurement(
        latency_ms=record.latency_ms,
        low_ms=chosen.low_ms if chosen.low_ms is not None else record.latency_ms,
        high_ms=chosen.high_ms if chosen.high_ms is not None else record.latency_ms,
        samples=chosen.samples,
    )
