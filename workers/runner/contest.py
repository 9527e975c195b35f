"""Who competes for a batch size, made ready: our candidates and the user's own alternatives."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from workers.alternatives.catalog import KINDS, AlternativeError, Kind, names
from workers.alternatives.opening import open_alternative, open_delivered
from workers.alternatives.separate import SeparateModel
from workers.devices.base import CancelledError, DeviceError, Executable
from workers.graph.importers.source import ModelSource
from workers.measure.noise import Quiet
from workers.measure.serial import Timed
from workers.measure.standings import Rung, TournamentResult, settled_by_starts
from workers.measure.starts import over_starts
from workers.measure.tolerance import compare_outputs
from workers.measure.tournament import TournamentCare, tournament
from workers.measure.verify import Case
from workers.runner.memory import enough_memory
from workers.runner.packing import pack
from workers.runner.problems import VerificationError
from workers.runner.quiet import Watch
from workers.runner.ranking import Ranking, rank
from workers.runner.reporting import Reporter
from workers.runner.workplace import BASELINE, Candidate, Prepared, Skipped, Workplace

if TYPE_CHECKING:
    from torch import Tensor

SECONDS_EACH = 6.0
MOST_SECONDS = 60.0
"""Real time for a tournament: so much for each contender, and no more than that."""

LIFE_S = 3600.0
"""How long an alternative's process may be there, for a whole batch size."""

LEAST_TO_COMPILE_S = 5.0
"""Seconds below which a compiler is not even started."""

CLOSE = 1.15
"""Starts of a process differ by some per cent: what is further apart than this needs no more."""

LEAST_TO_OPEN_S = 60.0
"""What compiles nothing has so many seconds in any case: more than a large model takes to load."""


@dataclass
class Contest:
    """Contenders by name, ready to run until ``stack`` is closed."""

    model: Prepared
    place: Workplace
    reporter: Reporter
    stack: ExitStack
    candidates: dict[str, Candidate] = field(default_factory=dict)
    alternatives: dict[str, SeparateModel] = field(default_factory=dict)
    executables: dict[str, Executable] = field(default_factory=dict)
    delivered: dict[str, SeparateModel] = field(default_factory=dict)
    """Of our candidates, those that run as whoever downloads them would run them."""
    openers: dict[str, Callable[[], AbstractContextManager[SeparateModel]]] = field(
        default_factory=dict
    )
    """Who can be started again in a process of its own, without compiling."""
    starts: Mapping[str, str] = field(default_factory=dict)
    """What several starts said, by the names of the two that they were of."""
    errors: dict[str, float] = field(default_factory=dict)
    """The largest absolute error of each alternative."""
    skipped: list[Skipped] = field(default_factory=list)

    def enter(self, candidates: Iterable[Candidate]) -> None:
        """Make our candidates ready. One that cannot be is skipped, but for the baseline, whose
        DeviceError is raised."""
        for candidate in candidates:
            try:
                self.executables[candidate.scheduler] = self._prepare(candidate)
            except CancelledError:
                raise
            except DeviceError as error:
                if candidate.scheduler == BASELINE:
                    raise
                self.skip(candidate.scheduler, str(error))
            else:
                self.candidates[candidate.scheduler] = candidate

    def enter_alternatives(
        self,
        source: ModelSource,
        case: Case,
        cores: Sequence[int],
        deadline: float,
        assured_s: float = 0.0,
    ) -> None:
        """Make the user's alternatives ready, each until ``deadline`` (of ``time.monotonic``), and
        hold their outputs against the original's. ``torch.compile`` as it comes has ``assured_s``
        in any case. One that cannot be had, or computes something else, is skipped.

        Of our candidates, those that are one session of ONNX Runtime compete from now on as they
        are delivered: among all that is in this process a session was seen to take twice as long as
        in one of its own.
        """
        device = self.place.device.facts
        for name in names(source, device):
            self.reporter.step("verifying", 0, 0, f"making {name} ready")
            seconds = self._seconds(KINDS[name], deadline - time.monotonic(), assured_s)
            if seconds < LEAST_TO_COMPILE_S:
                self.skip(name, "no time of the budget was left to compile it; allow more")
                continue
            opener = partial(
                open_alternative,
                name,
                source,
                self.model.graph,
                self.model.key.batch_size,
                self._folder(name),
                replace(self.place.limits, seconds=LIFE_S),
                cores,
                self.model.sequence_length,
                device.name,
                seconds,
            )
            try:
                opened = self.stack.enter_context(opener())
                self._check(name, opened, case)
            except AlternativeError as error:
                self.skip(name, str(error).removeprefix(f"{name}: "))
            else:
                self.alternatives[name] = opened
                if not KINDS[name].compiles:
                    self.openers[name] = opener
        for name in [one for one in self.candidates if self._is_session(one)]:
            self._deliverable(name, case, cores)

    @staticmethod
    def _seconds(kind: Kind, left: float, assured_s: float) -> float:
        if not kind.compiles:
            return max(left, LEAST_TO_OPEN_S)
        return max(left, assured_s) if kind.mode == "default" else left

    def run(
        self, case: Case, cores: Sequence[int], watch: Watch, seed: int
    ) -> tuple[Ranking, Quiet]:
        """Find the fastest of ours, and compare that with the alternatives: on a CPU as it is
        delivered. Raises NoisyMachineError if the machine was too busy to tell, and
        VerificationError if what is delivered of the baseline computes something else."""

        def both() -> Ranking:
            entered: dict[str, Timed] = {
                name: self.delivered[name]
                if self._is_session(name) and name in self.delivered
                else executable
                for name, executable in self.executables.items()
            }
            ours = self._tournament(entered, case, seed, proof=False)
            if not self.alternatives:
                return rank(ours, None, BASELINE)
            # What runs as delivered anyway can be the best of what is delivered.
            delivered = (name for name in self.delivered if name in self.executables)
            names = list(dict.fromkeys([BASELINE, ours.winner, *delivered]))
            if not all(self._deliverable(name, case, cores) for name in names):
                return both()
            self.reporter.step("verifying", 0, 0, f"measuring {ours.winner} and what you have")
            contenders: dict[str, Timed] = {
                name: self.delivered.get(name, self.executables[name]) for name in names
            }
            contenders |= self.alternatives
            beside = self._tournament(contenders, case, seed, proof=True)
            best = rank(ours, beside, BASELINE).best
            return rank(ours, self._over_starts(beside, best, case, seed), BASELINE)

        return watch.measure(both)

    def _over_starts(
        self, beside: TournamentResult, own: str, case: Case, seed: int
    ) -> TournamentResult:
        """``beside``, where our winner and the fastest alternative are so close that what differs
        from one start of a process to the next could be all that there is between them: compared
        again over several starts of both."""
        speedups = {
            standing.name: standing.comparison.speedup
            for standing in beside.standings
            if standing.comparison is not None
        }
        others = [name for name in speedups if name in self.alternatives]
        other = max(others, key=speedups.__getitem__, default=own)
        told_apart = {own, other} - {beside.winner, *beside.tied_with}
        if not {own, other} <= speedups.keys() & self.openers.keys():
            return beside
        if beside.winner not in (own, other) or not told_apart:
            return beside
        if abs(math.log(speedups[own] / speedups[other])) > math.log(CLOSE):
            return beside
        self.reporter.step("verifying", 0, 0, f"starting {own} and {other} again, several times")
        try:
            found = over_starts(self.openers[own], self.openers[other], case.inputs, seed)
        except AlternativeError as error:
            self.reporter.warn(
                f"{own} and {other} could not be compared over several starts: {error}"
            )
            return beside
        words = f"{own} is {found} as {other}"
        self.starts = dict.fromkeys((own, other), f"both started anew several times, {words}")
        self.reporter.log(self.starts[own])
        return settled_by_starts(beside, own, other, found.verdict, words)

    def _is_session(self, name: str) -> bool:
        """Whether a candidate is one session of ONNX Runtime and nothing else."""
        candidate = self.candidates[name]
        providers = list(candidate.plan.providers(candidate.provider).values())
        return providers == ["onnxruntime"]

    def _tournament(
        self, contenders: Mapping[str, Timed], case: Case, seed: int, proof: bool
    ) -> TournamentResult:
        # What an earlier tournament has prepared afresh takes part in the next one.
        names = list(contenders)

        def again(name: str) -> Timed:
            """What has a process of its own stays: starting it again could mean to compile it."""
            kept = contenders[name]
            return self._prepare_again(name) if kept is self.executables.get(name) else kept

        return tournament(
            contenders,
            case.inputs,
            BASELINE,
            again,
            preference=names,
            care=TournamentCare(min(SECONDS_EACH * len(names), MOST_SECONDS), proof=proof),
            seed=seed,
            simulated=self.place.device.facts.simulated,
            told=self._told,
        )

    def _deliverable(self, name: str, case: Case, cores: Sequence[int]) -> bool:
        """Start what would be delivered of a candidate; False if that computes something else, and
        the candidate is out. One that cannot be started takes part as it is in this process."""
        facts, candidate = self.place.device.facts, self.candidates[name]
        if facts.kind != "cpu" or name in self.delivered:
            return True
        self.reporter.step("verifying", 0, 0, f"making the artifact of {name} ready")
        folder = self._folder(f"delivered {name}")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "artifact.zip"
        # What has arrays is called with arrays, and what has tensors with tensors.
        arrays = all(KINDS[one].runtime == "onnxruntime" for one in self.alternatives)
        opener = partial(
            open_delivered,
            name,
            path,
            candidate.merged.graph,
            folder,
            replace(self.place.limits, seconds=LIFE_S),
            cores,
            arrays,
        )
        try:
            pack(path, candidate, facts, {})
            opened = self.stack.enter_context(opener())
            outputs = opened.run(case.inputs)
        except (AlternativeError, OSError) as error:
            words = str(error).removeprefix(f"{name}: ")
            self.reporter.warn(
                f"{name} is timed in this process: its artifact does not run: {words}"
            )
            return True
        _, words = self._difference(outputs, case)
        if not words:
            self.delivered[name] = opened
            if "inductor" not in candidate.plan.providers(candidate.provider).values():
                self.openers[name] = opener
            return True
        opened.close()
        if name == BASELINE:
            raise VerificationError(
                f"the artifact does not compute what the original does: {words}"
            )
        self.skip(name, f"its artifact computes something else: {words}")
        self.executables.pop(name).close()
        del self.candidates[name]
        return False

    def skip(self, name: str, reason: str) -> None:
        self.skipped.append(Skipped(name, reason))
        self.reporter.warn(f"{name} is skipped: {reason}")

    def _told(self, rung: Rung) -> None:
        left = len(rung.contenders) - len(rung.dropped)
        gone = f", {', '.join(rung.dropped)} out" if rung.dropped else ""
        self.reporter.log(f"rung {rung.number}, {rung.rounds} rounds: {left} left{gone}")

    def _prepare(self, candidate: Candidate) -> Executable:
        merged = candidate.merged
        with enough_memory(candidate.scheduler):
            return self.stack.enter_context(
                self.place.device.prepare(
                    merged.graph, merged.weights, candidate.plan, candidate.provider
                )
            )

    def _prepare_again(self, name: str) -> Timed:
        """A Plan lies elsewhere in memory then, as what was there before goes only afterwards; at
        once, where there is no room for both."""
        earlier = self.executables[name]
        try:
            self.executables[name] = self._prepare(self.candidates[name])
        except CancelledError:
            raise
        except (MemoryError, RuntimeError):  # such as a DeviceError
            earlier.close()
            self.executables[name] = self._prepare(self.candidates[name])
        earlier.close()
        return self.executables[name]

    def _check(self, name: str, opened: SeparateModel, case: Case) -> None:
        self.errors[name], words = self._difference(opened.run(case.inputs), case)
        if words:
            opened.close()  # or it would hold its memory until all are done
            raise AlternativeError(words)

    def _difference(self, outputs: Mapping[str, Tensor], case: Case) -> tuple[float, str]:
        """The largest absolute error, and in words what differs from the original's outputs by
        more than it may."""
        largest = 0.0
        for output, expected in zip(self.model.graph.outputs, case.expected, strict=True):
            error, words = compare_outputs(outputs[output], expected)
            if words:
                return largest, f"its output {output!r} is not the original's: {words}"
            largest = max(largest, error)
        return largest, ""

    def _folder(self, name: str) -> Path:
        place = f"{name.replace(' ', '-')}-{self.model.key.batch_size}"
        return self.place.workdir / "alternatives" / place
