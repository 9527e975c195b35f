"""The noise guard: refuses to report figures from a machine that others keep busy.

It looks at two things for a moment. How much CPU time went to processes that are not this one's
family, on the cores that this process may use; and how evenly a short loop of fixed work runs,
which also shows what ``/proc`` cannot: a neighbour on the same physical machine, a clock that is
throttled. ``decide`` says what is too much.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from workers.devices.base import DeviceFacts
from workers.measure.processes import CpuSample, sample_cpu

_CHUNK_MS = 1.0
"""A piece of the calibrated loop: short against a scheduler's time slice of some milliseconds."""

_PAUSE_S = 0.5
"""Between two looks at a machine that is waited for."""


@dataclass(frozen=True, slots=True)
class NoiseLimits:
    """What is still quiet.

    ``busy_share``: the others' CPU time over that of all watched cores. ``busy_cores``: the same in
    cores, as one busy core of 64 also slows a Plan that uses all of them. ``unevenness``: by how
    much the loop's mean piece may take longer than its quick ones; a core that is shared with
    another process half of the time has 1.0.
    """

    busy_share: float = 0.10
    busy_cores: float = 0.50
    unevenness: float = 0.25


@dataclass(frozen=True, slots=True)
class Other:
    """A process that is not of this one's family, and how many cores it kept busy."""

    pid: int
    name: str
    cores: float


@dataclass(frozen=True, slots=True)
class Quiet:
    """How quiet the machine was for ``seconds``. ``complaint`` says why it was too busy; None if
    it was quiet. ``unevenness`` is 0 where no loop was run."""

    busy_share: float
    busy_cores: float
    unevenness: float
    seconds: float
    others: tuple[Other, ...] = ()
    complaint: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


SILENCE = Quiet(0.0, 0.0, 0.0, 0.0)
"""What a guard reports where nothing can disturb."""


class NoisyMachineError(RuntimeError):
    """The machine is too busy to measure on; ``found`` has the numbers."""

    def __init__(self, found: Quiet) -> None:
        super().__init__(
            f"the machine is too busy to measure on: {found.complaint}; stop what runs beside, or"
            " allow noise (allow_noise) and take the figures for what they are"
        )
        self.found = found

    def __reduce__(self) -> tuple[type[NoisyMachineError], tuple[Quiet]]:
        return NoisyMachineError, (self.found,)


class Guard(Protocol):
    """Watches over a measurement: ``check`` or ``wait_until_quiet`` before it, ``start`` and
    ``finish`` around it."""

    def check(self) -> Quiet:
        """Look at the machine for a moment. Raises NoisyMachineError if it is too busy."""
        ...

    def wait_until_quiet(self, seconds: float) -> Quiet:
        """``check`` again and again for up to ``seconds``. Raises NoisyMachineError if it stays
        too busy."""
        ...

    def start(self) -> CpuSample | None:
        """Begin to watch."""
        ...

    def finish(self, started: CpuSample | None) -> Quiet:
        """What the others did since ``start``. Raises NoisyMachineError if that was too much."""
        ...


def guard_for(facts: DeviceFacts, allow_noise: bool = False) -> Guard:
    """The guard of a device: none is needed where time is simulated."""
    return NoGuard() if facts.simulated else NoiseGuard(allow_noise=allow_noise)


def decide(found: Quiet, limits: NoiseLimits) -> str | None:
    """Why the machine is too busy, in words; None if it is quiet."""
    complaints = []
    if found.busy_share > limits.busy_share or found.busy_cores > limits.busy_cores:
        complaints.append(
            f"other processes take {found.busy_share:.0%} of its CPU time"
            f" ({found.busy_cores:.2f} cores; up to {limits.busy_share:.0%} and"
            f" {limits.busy_cores:.2f} cores are quiet){_named(found.others)}"
        )
    if found.unevenness > limits.unevenness:
        complaints.append(
            f"a loop of fixed work takes {found.unevenness:.0%} longer than it can (up to"
            f" {limits.unevenness:.0%} is quiet), because it shares its core or the clock changes"
        )
    return " and ".join(complaints) or None


def _named(others: Sequence[Other]) -> str:
    if not others:
        return ""
    return f": {', '.join(f'{o.name} (pid {o.pid}) {o.cores:.2f}' for o in others[:3])}"


@dataclass(frozen=True, slots=True)
class NoiseGuard:
    """Watches the cores that this process may use when it is asked; with ``allow_noise`` it reports
    what it finds and never refuses. Where ``/proc`` cannot be read only the loop is judged."""

    limits: NoiseLimits = field(default_factory=NoiseLimits)
    allow_noise: bool = False
    seconds: float = 0.3

    def check(self) -> Quiet:
        before = self.start()
        unevenness = measure_unevenness(self.seconds)
        return self._judged(before, unevenness)

    def wait_until_quiet(self, seconds: float) -> Quiet:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.check()
            except NoisyMachineError:
                if time.monotonic() + _PAUSE_S + self.seconds > deadline:
                    raise
            time.sleep(_PAUSE_S)

    def start(self) -> CpuSample | None:
        try:
            return sample_cpu(os.sched_getaffinity(0))
        except OSError:
            return None

    def finish(self, started: CpuSample | None) -> Quiet:
        return self._judged(started, unevenness=0.0)

    def _judged(self, before: CpuSample | None, unevenness: float) -> Quiet:
        after = self.start()
        cores = len(os.sched_getaffinity(0))
        found = compare_samples(before, after, cores, unevenness)
        complaint = decide(found, self.limits)
        if complaint is None:
            return found
        judged = replace(found, complaint=complaint)
        if self.allow_noise:
            return judged
        raise NoisyMachineError(judged)


class NoGuard:
    """The null guard: always content."""

    def check(self) -> Quiet:
        return SILENCE

    def wait_until_quiet(self, seconds: float) -> Quiet:
        return SILENCE

    def start(self) -> CpuSample | None:
        return None

    def finish(self, started: CpuSample | None) -> Quiet:
        return SILENCE


def compare_samples(
    before: CpuSample | None, after: CpuSample | None, cores: int, unevenness: float = 0.0
) -> Quiet:
    """What the others did on ``cores`` cores between two samples; nothing if one is missing.

    The family's time is taken away from everybody's, so that what runs in the kernel for nobody
    (interrupts, and the time stolen by other virtual machines) counts as the others'.
    """
    if before is None or after is None:
        return Quiet(0.0, 0.0, unevenness, 0.0)
    seconds = max(after.taken_s - before.taken_s, 1e-3)
    others = max(0.0, (after.busy_s - before.busy_s) - (after.own_s - before.own_s)) / seconds
    return Quiet(
        busy_share=others / cores,
        busy_cores=others,
        unevenness=unevenness,
        seconds=seconds,
        others=_busiest(before, after, seconds),
    )


def _busiest(before: CpuSample, after: CpuSample, seconds: float) -> tuple[Other, ...]:
    """The other processes that used a tenth of a core at least, the busiest ten first."""
    found = []
    for process in after.processes.values():
        if process.pid in after.own:
            continue
        earlier = before.processes.get(process.pid)
        used = process.cpu_s - (earlier.cpu_s if earlier else 0.0)
        if used / seconds >= 0.1:
            found.append(Other(process.pid, process.name, used / seconds))
    return tuple(sorted(found, key=lambda other: (-other.cores, other.pid))[:10])


def measure_unevenness(seconds: float) -> float:
    """Run a calibrated loop for ``seconds``: by how much its mean piece took longer than its quick
    ones (the tenth percentile), 0 for a machine without any noise."""
    work = _calibrated()
    pieces: list[float] = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        _spin(work)
        pieces.append(time.perf_counter() - start)
    quick = sorted(pieces)[len(pieces) // 10]
    return max(0.0, math.fsum(pieces) / len(pieces) / quick - 1)


def _calibrated() -> int:
    """How many turns of the loop take about ``_CHUNK_MS``, from the quickest of some tries, which
    also wake up a sleeping clock."""
    turns = 20_000
    quickest = math.inf
    for _ in range(10):
        start = time.perf_counter()
        _spin(turns)
        quickest = min(quickest, time.perf_counter() - start)
    return max(100, int(turns * _CHUNK_MS / 1e3 / quickest))


def _spin(turns: int) -> None:
    for _ in range(turns):
        pass
