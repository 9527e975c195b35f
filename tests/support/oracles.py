"""Latency oracles that need no device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b

from workers.graph.graph import Graph
from workers.graph.signature import signature
from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel
from workers.hardware.roofline import Roofline
from workers.schedulers.base import StageLatency
from workers.schedules.schedule import Schedule, Stage, StageSchedule


class FakeClockOracle:
    """Answers from ``latency_of``, remembers what it was asked, and after ``budget`` stages
    answers only that its budget is used up."""

    def __init__(
        self,
        latency_of: Callable[[Stage], float],
        budget: float = math.inf,
        parallelism: int = 1,
        profiles: Mapping[str, tuple[Kernel, ...]] | None = None,
        gpu: GpuFacts | None = None,
    ) -> None:
        self._latency_of, self._budget = latency_of, budget
        self._profiles = profiles
        self.parallelism, self.gpu = parallelism, gpu
        self.providers: tuple[str | None, ...] = (None,)
        self.asked: list[Stage] = []
        self.batches: list[int] = []

    def stage_latencies(self, stages: Sequence[Stage]) -> list[StageLatency]:
        self.batches.append(len(stages))
        answers = []
        for stage in stages:
            self.asked.append(stage)
            if len(self.asked) > self._budget:
                answers.append(StageLatency(math.inf, "budget"))
                continue
            latency = self._latency_of(stage)
            answers.append(StageLatency(latency, None if math.isfinite(latency) else "it broke"))
        return answers

    def recheck(self, stages: Sequence[Stage]) -> list[StageLatency]:
        """Nothing is noisy here: the answers as before, and not counted as asked."""
        return [StageLatency(self._latency_of(stage)) for stage in stages]

    def roofline(self) -> Roofline:
        return Roofline(flops_per_s=1e12, bytes_per_s=1e11)

    def unit_profiles(self) -> Mapping[str, tuple[Kernel, ...]]:
        """What it was made with; any Unit has one kernel of 1 ms where that is nothing."""
        return self._profiles if self._profiles is not None else _OneKernelEach()

    def schedule_latencies(self, schedules: Sequence[Schedule]) -> list[StageLatency]:
        """The sum of the stages' latencies; one stage per stream for a StreamSchedule, so that
        fewer streams are not always better."""
        return [StageLatency(self._whole(schedule)) for schedule in schedules]

    def expected_latencies(self, schedules: Sequence[Schedule]) -> list[float]:
        return [self._whole(schedule) for schedule in schedules]

    def _whole(self, schedule: Schedule) -> float:
        if isinstance(schedule, StageSchedule):
            return math.fsum(self._latency_of(stage) for stage in schedule.stages)
        streams: dict[int, list[str]] = {}
        for placement in schedule.placements:
            streams.setdefault(placement.stream, []).append(placement.unit)
        return max(self._latency_of(Stage((tuple(units),))) for units in streams.values())


class _OneKernelEach(Mapping[str, tuple[Kernel, ...]]):
    """Of any Unit: one kernel of 1 ms and one warp."""

    def __getitem__(self, unit: str) -> tuple[Kernel, ...]:
        return (Kernel(unit, unit, 1.0, (1, 1, 1), (32, 1, 1), 32, 0),)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def random_latency(seed: int, graph: Graph) -> Callable[[Stage], float]:
    """A random latency that is the same for stages of the same structure, as on a device. In whole
    ms, so that no order of additions makes two equal sums differ."""

    def latency_of(stage: Stage) -> float:
        positions = sorted(graph.index[name] for name in stage.units)
        text = f"{seed}:{signature(graph, positions)}"
        return float(int.from_bytes(blake2b(text.encode(), digest_size=2).digest()) % 997 + 1)

    return latency_of


def longest_group(stage: Stage) -> float:
    """An ideal device: groups run side by side, every Unit takes 1 ms."""
    return float(max(len(group) for group in stage.groups))
