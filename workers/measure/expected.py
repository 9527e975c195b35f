"""What is expected of whole schedules, calibrated with what the Units were measured at: estimates
for searches that ask for thousands. Nothing of this is reported as a latency."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from workers.devices.sim.calibrated import CalibratedGpu
from workers.graph.graph import Graph
from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel
from workers.measure.cpu_model import Work, expected_ms
from workers.schedulers.base import StageLatency
from workers.schedules.arrangement import arrange
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import Schedule, Stage


class CpuExpectation:
    """Of a CPU with ``cores`` cores: ``workers.measure.cpu_model`` with the latencies of single
    Units, each on the threads that its stream has, which ``ask`` measures or knows.

    The memory's bandwidth is ``bytes_per_s``; of it a Unit takes what it moves in its time.
    """

    def __init__(
        self,
        graph: Graph,
        cores: int,
        ask: Callable[[Sequence[Stage]], Sequence[StageLatency]],
        bytes_per_s: float,
    ) -> None:
        self._graph, self._cores, self._ask, self._bytes_per_s = graph, cores, ask, bytes_per_s
        self._work: dict[tuple[str, int], Work] = {}
        self._failed: set[tuple[str, int]] = set()

    def __call__(self, schedules: Sequence[Schedule]) -> list[float]:
        """The expected latencies in ms; infinite where a Unit cannot be run on that many threads,
        or was not measured because no time is left. Raises ScheduleError."""
        plans = [lower(schedule, self._graph, self._cores) for schedule in schedules]
        self._learn(plans)
        return [self._expected(plan) for plan in plans]

    def _expected(self, plan: Plan) -> float:
        if self._failed and not self._failed.isdisjoint(_needed(plan)):
            return math.inf
        return expected_ms(arrange(plan, self._graph, self._cores), self._work, self._cores)

    def _learn(self, plans: Sequence[Plan]) -> None:
        needed = dict.fromkeys(pair for plan in plans for pair in _needed(plan))
        new = [pair for pair in needed if pair not in self._work and pair not in self._failed]
        answers = self._ask([Stage(((unit,),), threads=(threads,)) for unit, threads in new])
        for pair, answer in zip(new, answers, strict=True):
            if math.isfinite(answer.latency_ms):
                moved = self._graph.unit(pair[0]).bytes_moved
                share = moved / self._bytes_per_s * 1e3 / answer.latency_ms
                self._work[pair] = Work(answer.latency_ms, min(1.0, share))
            else:
                self._failed.add(pair)


def _needed(plan: Plan) -> list[tuple[str, int]]:
    """The Units with the threads that they run on."""
    return [(launch.unit, plan.streams[launch.stream].threads) for launch in plan.launches]


class GpuExpectation:
    """Of a GPU: the simulator calibrated with the Units' profiled kernels."""

    def __init__(
        self, gpu: GpuFacts, graph: Graph, profiles: Mapping[str, tuple[Kernel, ...]]
    ) -> None:
        self._graph, self._gpu = graph, CalibratedGpu(gpu, graph, profiles)

    def __call__(self, schedules: Sequence[Schedule]) -> list[float]:
        """The expected latencies in ms. Raises ScheduleError."""
        return self._gpu.latencies_ms([lower(schedule, self._graph, 1) for schedule in schedules])
