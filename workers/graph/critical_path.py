"""The path through a graph that no number of streams makes shorter."""

from __future__ import annotations

from collections.abc import Sequence


def heaviest_path(successors: Sequence[Sequence[int]], weights: Sequence[int]) -> tuple[int, ...]:
    """The Units of the path with the largest sum of ``weights``, which are not negative, in a DAG
    given in topological order.

    Of equally heavy paths the one with the most Units is taken, and of those the one that is least
    position by position.
    """
    best = [(0, 0)] * len(weights)
    following = [-1] * len(weights)
    for unit in reversed(range(len(weights))):
        weight, length = 0, 0
        if successors[unit]:
            following[unit] = max(successors[unit], key=lambda after: (best[after], -after))
            weight, length = best[following[unit]]
        best[unit] = weight + weights[unit], length + 1
    path = []
    unit = max(range(len(weights)), key=lambda start: (best[start], -start), default=-1)
    while unit >= 0:
        path.append(unit)
        unit = following[unit]
    return tuple(path)
