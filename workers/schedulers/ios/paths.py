"""Schedules are the paths from the empty state to the one that holds every Unit; a transition is as
long as its stage's latency. The passes of Algorithm 1, lines 16-25, over all states of one size at
a time.

Wherever latencies stand for stages, infinity is a stage that must not be taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.schedulers.ios.space import Space

Latencies = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Solution:
    """The stages of a best schedule as indices into the space, first to last."""

    latency_ms: float
    stages: tuple[int, ...]


def costs(space: Space, latencies: Latencies) -> Latencies:
    """cost[S] of Algorithm 1 for every state: the least latency of all schedules of ``S``."""
    cost = np.full(len(space.states), math.inf)
    cost[0] = 0.0
    for first, last in zip(space.layers, space.layers[1:], strict=False):
        if first == last:
            continue
        through = cost[space.rest[first:last]] + latencies[space.ending[first:last]]
        state = space.state[first:last]
        lowest, highest = int(state[0]), int(state[-1])
        cost[lowest : highest + 1] = np.minimum.reduceat(
            through, space.starts[lowest : highest + 1] - first
        )
    return cost


def costs_to_go(space: Space, latencies: Latencies) -> Latencies:
    """For every state ``S``, the least latency of all that may follow once ``S`` is done."""
    to_go = np.full(len(space.states), math.inf)
    to_go[-1] = 0.0
    for first, last in reversed(list(zip(space.layers, space.layers[1:], strict=False))):
        through = to_go[space.state[first:last]] + latencies[space.ending[first:last]]
        np.minimum.at(to_go, space.rest[first:last], through)
    return to_go


def around_stages(space: Space, cost: Latencies, to_go: Latencies) -> Latencies:
    """For every stage, the least latency of all that schedules with it have besides it."""
    best = np.full(len(space.stages), math.inf)
    np.minimum.at(best, space.ending, cost[space.rest] + to_go[space.state])
    return best


def solve(space: Space, latencies: Latencies, cost: Latencies | None = None) -> Solution:
    """A best schedule; ``cost`` is that of all states, if it is known. Equal latencies go to the
    schedule with fewer stages, then to the last stage whose mask is larger (its Units come later in
    the graph's order), so that the answer is always the same. Without a schedule of finite latency,
    the Units one by one.
    """
    if cost is None:
        cost = costs(space, latencies)
    if cost[-1] == math.inf:
        return Solution(math.inf, one_by_one(space))
    optimal = _optimal_transitions(space, latencies, cost)
    fewest = {0: 0}
    for state in sorted(optimal):
        fewest[state] = 1 + min(fewest[rest] for _, rest in optimal[state])
    stages: list[int] = []
    state = len(space.states) - 1
    while state:
        stage, state = max(
            (stage, rest) for stage, rest in optimal[state] if fewest[rest] + 1 == fewest[state]
        )
        stages.append(stage)
    return Solution(float(cost[-1]), tuple(reversed(stages)))


def one_by_one(space: Space) -> tuple[int, ...]:
    """The stages of the Units alone, in the graph's order."""
    alone = np.uint64(1) << np.arange(space.units, dtype=np.uint64)
    return tuple(int(stage) for stage in np.searchsorted(space.stages, alone))


def _optimal_transitions(
    space: Space, latencies: Latencies, cost: Latencies
) -> dict[int, list[tuple[int, int]]]:
    """For every state on a best schedule of the whole part, the stages that may be its last and
    what is left without them."""
    optimal: dict[int, list[tuple[int, int]]] = {}
    pending = [len(space.states) - 1]
    while pending:
        state = pending.pop()
        if state == 0 or state in optimal:
            continue
        chosen = slice(space.starts[state], space.starts[state + 1])
        ending, rest = space.ending[chosen], space.rest[chosen]
        best = cost[rest] + latencies[ending] == cost[state]
        optimal[state] = list(zip(ending[best].tolist(), rest[best].tolist(), strict=True))
        pending.extend(rest for _, rest in optimal[state])
    return optimal
