"""What is expected of whole schedules, calibrated with what the Units were measured at: estimates
for searches that ask for thousands. Nothing of this is reported as a latency."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from workers.devices.sim.calibrated import CalibratedGpu, Profiles
from workers.graph.graph import Graph
from workers.hardware.gpu import GpuFacts
from workers.measure.cpu_model import Work, expected_ms
from workers.measure.layouts import Layout
from workers.schedules.arrangement import arrange
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import Schedule

Placed = tuple[str, int, str | None]
"""A Unit, the threads that it runs on, and whose kernels it has; None for the job's own."""


def laid_out_alike(provider: str | None) -> Mapping[str, Layout]:
    """The layouts of values where all providers leave them as they are."""
    return {}


class CpuExpectation:
    """Of a CPU with ``cores`` cores: ``workers.measure.cpu_model`` with the latencies of single
    Units in ms, each on the threads that its stream has and with its kernels, which ``ask``
    measures or knows; infinite where it does not.

    The memory's bandwidth is ``bytes_per_s``; of it a Unit takes what it moves in its time. Where
    a Unit reads what another provider's kernels made, and ``layouts`` says that these leave it in
    another layout than its own provider's would, it is expected to copy the value first.
    """

    def __init__(
        self,
        graph: Graph,
        cores: int,
        ask: Callable[[Sequence[Placed]], Sequence[float]],
        bytes_per_s: float,
        layouts: Callable[[str | None], Mapping[str, Layout]] = laid_out_alike,
    ) -> None:
        self._graph, self._cores, self._ask, self._bytes_per_s = graph, cores, ask, bytes_per_s
        self._layouts = layouts
        self._maker = {name: unit.name for unit in graph.units for name in unit.outputs}
        self._work: dict[Placed, Work] = {}
        self._failed: set[Placed] = set()

    def __call__(self, schedules: Sequence[Schedule]) -> list[float]:
        """The expected latencies in ms; infinite where a Unit cannot be run on that many threads,
        or was not measured because no time is left. Raises ScheduleError."""
        plans = [lower(schedule, self._graph, self._cores) for schedule in schedules]
        self._learn(plans)
        return [self._expected(plan) for plan in plans]

    def _expected(self, plan: Plan) -> float:
        placed = _needed(plan)
        if self._failed and not self._failed.isdisjoint(placed):
            return math.inf
        provider = {unit: name for unit, _, name in placed}
        mixed = len(set(provider.values())) > 1
        work = {
            (one[0], one[1]): self._rearranging(one, provider) if mixed else self._work[one]
            for one in placed
        }
        return expected_ms(arrange(plan, self._graph, self._cores), work, self._cores)

    def _rearranging(self, placed: Placed, provider: Mapping[str, str | None]) -> Work:
        """The Unit's work with the copies of what it reads in a layout that is not its own."""
        unit, _, own = placed
        alone = self._work[placed]
        copied = 0
        for name in self._graph.unit(unit).inputs:
            theirs = provider.get(self._maker.get(name, unit), own)
            if theirs != own and self._layouts(theirs).get(name) != self._layouts(own).get(name):
                copied += 2 * self._graph.values[name].nbytes
        if not copied:
            return alone
        copying_ms = copied / self._bytes_per_s * 1e3
        latency_ms = alone.latency_ms + copying_ms
        moving_ms = alone.memory * alone.latency_ms + copying_ms
        return Work(latency_ms, min(1.0, moving_ms / latency_ms))

    def _learn(self, plans: Sequence[Plan]) -> None:
        needed = dict.fromkeys(one for plan in plans for one in _needed(plan))
        new = [one for one in needed if one not in self._work and one not in self._failed]
        for one, latency_ms in zip(new, self._ask(new), strict=True):
            if math.isfinite(latency_ms):
                moved = self._graph.unit(one[0]).bytes_moved
                share = moved / self._bytes_per_s * 1e3 / latency_ms
                self._work[one] = Work(latency_ms, min(1.0, share))
            else:
                self._failed.add(one)


def _needed(plan: Plan) -> list[Placed]:
    """The Units with the threads that they run on, and their kernels."""
    return [
        (launch.unit, plan.streams[launch.stream].threads, launch.provider)
        for launch in plan.launches
    ]


class GpuExpectation:
    """Of a GPU: the simulator calibrated with the Units' kernels, as they were profiled with each
    provider; None is the job's own. Values are taken to lie as each kernel found them."""

    def __init__(
        self, gpu: GpuFacts, graph: Graph, profiles: Mapping[str | None, Profiles]
    ) -> None:
        self._graph, self._gpu = graph, CalibratedGpu(gpu, graph, profiles)

    def __call__(self, schedules: Sequence[Schedule]) -> list[float]:
        """The expected latencies in ms. Raises ScheduleError."""
        return self._gpu.latencies_ms([lower(schedule, self._graph, 1) for schedule in schedules])
