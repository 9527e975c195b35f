"""What a search knows of one part: what was measured, the best schedule of that, and a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.graph.graph import Graph
from workers.schedulers.base import StageLatency
from workers.schedulers.ios.floors import Floors
from workers.schedulers.ios.options import Options, stage_of
from workers.schedulers.ios.parts import Part
from workers.schedulers.ios.paths import (
    Latencies,
    Solution,
    around_stages,
    costs,
    costs_to_go,
    one_by_one,
    solve,
)
from workers.schedules.schedule import Stage


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the search of a part stands. Times in ms for one occurrence of the part.

    ``best`` is made of measured stages only and no schedule is faster than ``bound_ms``, provided
    that the floors hold. Once they were contradicted, ``bound_ms`` follows from those that doubt
    what was not measured as much, and ``bound_holds`` says whether groups alone prove ``best``
    optimal. Of ``visited`` states the fastest schedule is known, provided the same; through
    ``pruned`` states and stages no schedule is faster than the best.
    """

    best: Solution
    bound_ms: float
    visited: int
    states_pruned: int
    stages_pruned: int
    bound_holds: bool = True


class Knowledge:
    """Grows by ``record``; everything else only looks.

    ``latencies`` of options are NaN until they are known, and infinite where they failed. With all
    unmeasured stages at their floors, ``around`` is the least latency of what schedules with a
    stage have besides it, and ``promising`` are the unmeasured options that may be part of a
    schedule that is faster than the best; both as of the last ``refresh``.
    """

    def __init__(self, graph: Graph, part: Part, options: Options) -> None:
        self.graph, self.part, self.options = graph, part, options
        self.latencies: Latencies = np.full(len(options), math.nan)
        self.floors = Floors(graph, part, options)
        self.failures: dict[int, str] = {}
        self.standing = Standing(Solution(math.inf, one_by_one(part.space)), 0.0, 1, 0, 0)
        self.around: Latencies = np.zeros(len(part.space.stages))
        self.promising: NDArray[np.bool_] = np.ones(len(options), dtype=bool)
        self._changed, self._expected = True, False

    def stage(self, option: int) -> Stage:
        """The option as a Stage, at the part's first occurrence."""
        return self.stage_at(option, self.part.occurrences[0])

    def stage_at(self, option: int, positions: Sequence[int]) -> Stage:
        return stage_of(self.graph, self.part, self.options, option, positions)

    def record(self, option: int, answer: StageLatency) -> None:
        """An oracle's answer. That the budget is used up is no answer."""
        self.latencies[option] = answer.latency_ms
        if not math.isfinite(answer.latency_ms):
            self.failures[option] = answer.reason or "no reason given"
        self.floors.learn(option, answer.latency_ms)
        self._changed = True

    def expect(self, latencies: Latencies) -> None:
        """Take other latencies of the measured options than their answers. The floors stay, and
        what is known of states."""
        self.latencies = latencies
        self._changed = self._expected = True

    def unmeasured(self) -> NDArray[np.bool_]:
        """Which options are not known yet."""
        return np.isnan(self.latencies)

    def measured_stages(self) -> Latencies:
        """The latency of every stage: the best of its measured options, infinite without one."""
        latency = np.full(len(self.part.space.stages), math.inf)
        known = ~self.unmeasured()
        np.minimum.at(latency, self.options.stage[known], self.latencies[known])
        return latency

    def best_option(self, stage: int) -> int:
        """The fastest measured option of a stage; the plain one if none was measured."""
        first, last = np.searchsorted(self.options.stage, [stage, stage + 1])
        known = np.where(np.isnan(self.latencies[first:last]), math.inf, self.latencies[first:last])
        return int(first + np.argmin(known))

    def refresh(self) -> None:
        """Bring ``standing``, ``around`` and ``promising`` up to date."""
        if not self._changed:
            return
        self._changed = False
        space, measured, floor = self.part.space, self.measured_stages(), self.floors.of_stages()
        reached = costs(space, measured)
        best = solve(space, measured, reached)
        cost, to_go = costs(space, floor), costs_to_go(space, floor)
        self.around = around_stages(space, cost, to_go)
        through = self.around[self.options.stage] + self.floors.of_options()
        unmeasured = self.unmeasured()
        self.promising = unmeasured & (through < best.latency_ms)
        # A state's fastest schedule is known where what was measured is as fast as any could be.
        visited = int((np.isfinite(reached) & (reached <= cost)).sum())
        bound, holds = self._bound(float(cost[-1]), best.latency_ms)
        self.standing = Standing(
            best=best,
            bound_ms=min(bound, best.latency_ms),
            bound_holds=holds,
            visited=self.standing.visited if self._expected else visited,
            states_pruned=int((cost + to_go >= best.latency_ms).sum()),
            stages_pruned=int((unmeasured & ~self.promising).sum()),
        )

    def _bound(self, bound_ms: float, best_ms: float) -> tuple[float, bool]:
        """What is left of a bound once measurements contradict it, and whether it holds."""
        if not self.floors.violations:
            return bound_ms, True
        space, floors = self.part.space, self.floors
        doubted_ms = float(costs(space, floors.doubted())[-1])
        if doubted_ms < best_ms:  # groups alone prove no more
            return doubted_ms, not self.unmeasured().any()
        proven_ms = float(costs(space, floors.of_longest_groups())[-1])
        return best_ms, (floors.groups_hold and proven_ms >= best_ms)
