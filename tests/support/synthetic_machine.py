"""A machine with known latencies and known interference, to measure on in simulated time.

A host of some cores and one GPU that switches between processes. A candidate is prepared by a core,
passes the driver, which serves one process at a time, and then runs on the GPU, which divides its
time among all that are there. The clock of the GPU counts a candidate's own time only, as CUPTI's
records do, but what ran before leaves the caches: where the working sets of those on the GPU exceed
what it has room for, each is slower by ``crowding`` for every time that they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from workers.measure.effort import USUAL, Effort, never
from workers.measure.measurement import Failure
from workers.measure.parallel.subject import Outcome, Reading, Run
from workers.measure.parallel.timeouts import DEFAULT_TIMEOUT

PREPARING, DRIVER, GPU = range(3)


@dataclass(frozen=True)
class SyntheticCandidate:
    """``latency_ms`` is the truth, ``room`` the share of the GPU's caches that it fills, and
    ``memory`` of its memory, of which there is no more than all."""

    latency_ms: float
    room: float
    memory: float = 0.0

    def open(self, device: str) -> None:
        raise AssertionError("it runs in simulated time only")


@dataclass(frozen=True, slots=True)
class SyntheticProgram:
    """The latency of its best candidate, and what each candidate fills."""

    latency_ms: float
    room: float


PROGRAMS = {
    "small": SyntheticProgram(0.02, 0.005),
    "medium": SyntheticProgram(1.5, 0.08),
    "large": SyntheticProgram(5.0, 0.5),
}


def program(of: SyntheticProgram, count: int, seed: int) -> list[SyntheticCandidate]:
    """Candidates of one tensor program: up to five times as slow as the best, and alike in what
    they fill."""
    random = Random(seed)
    return [
        SyntheticCandidate(
            of.latency_ms * math.exp(random.uniform(0, math.log(5))),
            of.room * random.uniform(0.9, 1.1),
        )
        for _ in range(count)
    ]


@dataclass(frozen=True, slots=True)
class Host:
    """What it takes to measure a candidate, besides its runs: s of a core, and s of the driver."""

    cores: int = 16
    preparing_s: float = 0.5
    driver_s: float = 0.1
    runs: int = 60
    crowding: float = 0.1


@dataclass
class _Flying:
    position: int
    candidate: SyntheticCandidate
    started_s: float
    phase: int
    left_s: float
    slowed_s: float = 0.0
    on_gpu_s: float = 0.0


@dataclass
class SyntheticPool:
    """Stands for a ``WorkerPool`` on one GPU of ``host``. ``now_s`` is the simulated time."""

    host: Host = field(default_factory=Host)
    now_s: float = 0.0
    devices: tuple[str, ...] = ("synthetic",)

    def measure(
        self,
        subjects: Sequence[SyntheticCandidate],
        degree: int,
        timeout_s: float,
        effort: Effort,
        told: Callable[[Outcome], None] = lambda outcome: None,
        expired: Callable[[], bool] = never,
        places: Sequence[str] | None = None,
    ) -> list[Outcome | None]:
        """As the real one does; a candidate for whose memory there is no room fails at once."""
        outcomes: list[Outcome | None] = [None] * len(subjects)
        waiting = list(enumerate(subjects))
        flying: list[_Flying] = []
        while waiting or flying:
            while waiting and len(flying) < degree:
                position, candidate = waiting.pop(0)
                if candidate.memory + sum(one.candidate.memory for one in flying) > 1:
                    outcomes[position] = Outcome(
                        position, self.devices[0], position, self.now_s, self.now_s,
                        failure=Failure.OUT_OF_MEMORY, reason="no room in the GPU's memory",
                    )  # fmt: skip
                    continue
                flying.append(
                    _Flying(position, candidate, self.now_s, PREPARING, self.host.preparing_s)
                )
            if flying:
                self._step(flying, outcomes, timeout_s)
        return outcomes

    def _step(
        self, flying: list[_Flying], outcomes: list[Outcome | None], timeout_s: float
    ) -> None:
        """To the next moment at which a phase ends or a timeout is reached."""
        rates = self._rates(flying)
        ends = min(
            (one.left_s / rate for one, rate in zip(flying, rates, strict=True) if rate),
            default=math.inf,
        )
        late = min(one.started_s for one in flying) + timeout_s - self.now_s
        step = max(0.0, min(ends, late))
        on_gpu = [one for one in flying if one.phase == GPU]
        crowd = self.host.crowding * max(0.0, sum(one.candidate.room for one in on_gpu) - 1)
        self.now_s += step
        for one, rate in zip(list(flying), rates, strict=True):
            one.left_s -= step * rate
            if one.phase == GPU:
                one.on_gpu_s += step
                one.slowed_s += step * crowd
            if one.left_s <= 1e-12:
                self._next(one, flying, outcomes)
            elif self.now_s - one.started_s >= timeout_s - 1e-12:
                flying.remove(one)
                outcomes[one.position] = self._outcome(one, Failure.TIMEOUT)

    def _rates(self, flying: Sequence[_Flying]) -> list[float]:
        preparing = sum(one.phase == PREPARING for one in flying)
        on_gpu = sum(one.phase == GPU for one in flying)
        first = next((one for one in flying if one.phase == DRIVER), None)
        rate = {
            PREPARING: min(1.0, self.host.cores / preparing) if preparing else 0.0,
            GPU: 1.0 / on_gpu if on_gpu else 0.0,
        }
        return [float(one is first) if one.phase == DRIVER else rate[one.phase] for one in flying]

    def _next(self, one: _Flying, flying: list[_Flying], outcomes: list[Outcome | None]) -> None:
        one.phase += 1
        if one.phase == DRIVER:
            one.left_s = self.host.driver_s
        elif one.phase == GPU:
            one.left_s = self.host.runs * one.candidate.latency_ms / 1e3
        else:
            flying.remove(one)
            outcomes[one.position] = self._outcome(one, None)

    def _outcome(self, one: _Flying, failure: Failure | None) -> Outcome:
        reading = None
        if failure is None:
            slowed = one.slowed_s / one.on_gpu_s if one.on_gpu_s else 0.0
            device_ms = one.candidate.latency_ms * (1 + slowed)
            wall_ms = one.on_gpu_s * 1e3 / self.host.runs
            runs = (Run(max(wall_ms, device_ms), device_ms),) * self.host.runs
            reading = Reading(runs, self.now_s - one.started_s)
        return Outcome(
            one.position, self.devices[0], one.position, one.started_s, self.now_s, reading,
            failure, "took too long" if failure else "",
        )  # fmt: skip


def right_degree(of: SyntheticProgram, most: int = 64, tau: float = 0.05) -> int:
    """The largest degree of parallelism at which the GPU's clock is off by no more than ``tau`` on
    average, and no more candidates than that fail: by trying each, with the timeout it has."""
    right = 1
    for degree in range(1, most + 1):
        candidates = program(of, 4 * degree, seed=degree)
        pool = SyntheticPool()
        off: list[float] = []
        for start in range(0, len(candidates), degree):
            part = candidates[start : start + degree]
            outcomes = pool.measure(part, degree, DEFAULT_TIMEOUT.seconds(degree), USUAL)
            off += [
                outcome.reading.runs[0].device_ms / candidate.latency_ms - 1
                for outcome, candidate in zip(outcomes, part, strict=True)
                if outcome is not None and outcome.reading is not None
            ]
        failed = 1 - len(off) / len(candidates)
        if off and sum(off) / len(off) <= tau and failed <= tau:
            right = degree
    return right
