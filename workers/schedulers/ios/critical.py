"""The critical path: how fast any schedule of a whole graph can be at best, searched or not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workers.graph.graph import Graph
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.paths import Latencies


class CriticalPath:
    """A bound that needs no search space: neither pruned endings nor divided blocks weaken it.

    The Units of a path run one after the other, whatever the schedule. Those in one stage are in
    one group of it, as what lies between two Units of a stage is in the stage, too; and no two of
    them are merged. By the assumptions of ``floors`` such a stage takes at least Σ (L(u) - c) + c
    over its Units on the path, with c the latency of the graph's fastest Unit, which no fixed cost
    of a measurement exceeds. A schedule has at least one stage, so that

        c + max over all paths of Σ (L(u) - c)

    is a bound. Both c and L(u) are of Units alone in the fastest way that was measured. A Unit that
    failed, or that may yet be faster in a way that was not measured, counts as c.
    """

    def __init__(self, graph: Graph, parts: Sequence[Knowledge]) -> None:
        self._graph, self._parts = graph, parts
        self._alone = [_alone(known) for known in parts]

    def bound_ms(self) -> float | None:
        """The bound as of now; None until every way to run a Unit alone has an answer."""
        latencies = np.full(len(self._graph.units), math.inf)
        for known, (options, unit) in zip(self._parts, self._alone, strict=True):
            measured = known.latencies[options]
            if np.isnan(measured).any():
                return None
            fastest = np.full(known.part.space.units, math.inf)
            np.minimum.at(fastest, unit, measured)
            for positions in known.part.occurrences:
                latencies[list(positions)] = fastest
        return critical_path_ms(self._graph.successors, latencies)


def critical_path_ms(successors: Sequence[Sequence[int]], latencies: Latencies) -> float | None:
    """The bound of a DAG in topological order, from its Units' ``latencies`` alone; infinite ones
    count as the least. None if all are infinite."""
    common = float(latencies.min())
    if not math.isfinite(common):
        return None
    beyond = np.where(np.isfinite(latencies), latencies - common, 0.0).tolist()
    longest = [0.0] * len(successors)
    for unit in reversed(range(len(successors))):
        longest[unit] = beyond[unit] + max(
            (longest[after] for after in successors[unit]), default=0.0
        )
    return common + max(longest)


def _alone(known: Knowledge) -> tuple[NDArray[np.intp], NDArray[np.uint8]]:
    """The options that run a Unit alone, and which."""
    masks = known.part.space.stages[known.options.stage]
    options = np.flatnonzero(np.bitwise_count(masks) == 1)
    return options, np.bitwise_count(masks[options] - np.uint64(1))
