"""Latency oracles that need no device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b

from workers.graph.graph import Graph
from workers.graph.signature import signature
from workers.schedulers.base import StageLatency
from workers.schedules.schedule import Stage


class FakeClockOracle:
    """Answers from ``latency_of``, remembers what it was asked, and after ``budget`` stages
    answers only that its budget is used up."""

    def __init__(
        self,
        latency_of: Callable[[Stage], float],
        budget: float = math.inf,
        parallelism: int = 1,
    ) -> None:
        self._latency_of, self._budget = latency_of, budget
        self.parallelism = parallelism
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
