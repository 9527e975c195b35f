"""Opara's Algorithm 2 (Section 3.3): the order in which Units are launched."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

Demand = tuple[int, ...]
"""What a Unit requires of the GPU; the first number that differs decides."""


def launch_order(
    predecessors: Sequence[Sequence[int]],
    successors: Sequence[Sequence[int]],
    compute_bound: Sequence[bool],
    demands: Sequence[Demand],
) -> list[int]:
    """The Units in launch order, which is topological.

    Two lists hold the Units that are ready, memory-intensive and compute-intensive ones. What the
    paper leaves open is read so: "alternately choose a non-empty list" begins with the
    memory-intensive list, which it names first, and turns to the other list after each choice; if
    that one is empty, the same list is chosen again. Of Units with equal demands, the one that
    stands first in the graph is launched first.
    """
    missing = [len(before) for before in predecessors]
    ready: tuple[list[tuple[Demand, int]], list[tuple[Demand, int]]] = ([], [])
    for unit, count in enumerate(missing):
        if not count:
            heappush(ready[compute_bound[unit]], (demands[unit], unit))
    order: list[int] = []
    turn = False
    while ready[0] or ready[1]:
        chosen = turn if ready[turn] else not turn
        unit = heappop(ready[chosen])[1]
        order.append(unit)
        turn = not chosen
        for after in successors[unit]:
            missing[after] -= 1
            if not missing[after]:
                heappush(ready[compute_bound[after]], (demands[after], after))
    return order
