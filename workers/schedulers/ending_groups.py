"""The groups that the endings of a state are made of.

The groups of an ending are endings themselves, connected and without a Unit in common. Endings with
no Unit in common have no edge between them either, because nothing outside an ending follows it. So
the endings of a state are the sets of connected ones that do not overlap.

Sets of Units are bit masks of at most 64 Units in topological order, as in ``endings``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workers.graph.bitsets import ancestors, bits, descendants, predecessors

Masks = NDArray[np.uint64]


class SpaceTooLargeError(Exception):
    """The search space has more than ``more_than`` transitions."""

    def __init__(self, more_than: int) -> None:
        super().__init__(f"more than {more_than} transitions")
        self.more_than = more_than


class Groups(Protocol):
    """Which groups a search admits."""

    def with_last(self, unit: int, state: np.uint64) -> Masks:
        """The admitted groups of ``state`` that hold ``unit``, which is its last Unit."""
        ...


class ConnectedGroups:
    """By the paper's definition: connected endings of at most ``max_units`` Units."""

    def __init__(
        self, successors: Sequence[Sequence[int]], max_units: int, limit: int | None = None
    ) -> None:
        found = connected_convex_sets(successors, max_units, limit)
        after = _masks([sum(1 << other for other in set(others)) for others in successors])
        followed = found.copy()
        for unit, bit in enumerate(_single_units(len(successors))):
            followed[found & bit != 0] |= after[unit]
        order = np.argsort(found)
        firsts = np.searchsorted(found[order], _single_units(len(successors)))
        self._groups = np.split(found[order], firsts[1:])
        self._with_successors = np.split(followed[order], firsts[1:])

    def with_last(self, unit: int, state: np.uint64) -> Masks:
        """A set of Units of the state is an ending if the state has nothing else that follows."""
        groups: Masks = self._groups[unit]
        chosen: Masks = groups[self._with_successors[unit] & state == groups]
        return chosen


class PrincipalGroups:
    """As published: a Unit with all that is reachable from it, at most ``max_units`` Units."""

    def __init__(self, successors: Sequence[Sequence[int]], max_units: int) -> None:
        reachable = [mask | 1 << unit for unit, mask in enumerate(descendants(successors))]
        self._max_units = max_units
        self._reachable = [
            _masks([reachable[source] for source in bits(mask | 1 << unit)])
            for unit, mask in enumerate(ancestors(successors))
        ]

    def with_last(self, unit: int, state: np.uint64) -> Masks:
        groups: Masks = self._reachable[unit] & state
        small: Masks = groups[np.bitwise_count(groups) <= self._max_units]
        return small


def connected_convex_sets(
    successors: Sequence[Sequence[int]], max_units: int, limit: int | None = None
) -> Masks:
    """Every connected set of at most ``max_units`` Units that no path leaves and enters again: the
    connected endings of all states, as such a set ends the state of it and its ancestors.

    A set grows by a Unit beside it and by all that lies on paths between the two, which keeps it
    connected and convex. Of the sets that a set grows to, those with the first Unit beside it come
    first and all others exclude that Unit, and so on, so that each is found once.

    Raises SpaceTooLargeError as soon as there are more than ``limit``.
    """
    count = len(successors)
    alone = _single_units(count)
    below, above = _masks(descendants(successors)), _masks(ancestors(successors))
    beside = _masks(predecessors(successors))
    for unit, others in enumerate(successors):
        for other in others:
            beside[unit] |= alone[other]
    # Sets, what they exclude, and what is below and above any Unit of them.
    sets, excluded = alone.copy(), alone - np.uint64(1)
    under, over = below.copy(), above.copy()
    found, total = [sets], count
    while len(sets):
        grown: list[tuple[Masks, Masks, Masks, Masks]] = []
        for unit in range(count):
            may_join = ((sets | excluded) & alone[unit] == 0) & (sets & beside[unit] != 0)
            chosen = np.flatnonzero(may_join)
            lower, upper = under[chosen] | below[unit], over[chosen] | above[unit]
            larger = sets[chosen] | alone[unit] | lower & upper
            fits = (larger & excluded[chosen] == 0) & (np.bitwise_count(larger) <= max_units)
            grown.append((larger[fits], excluded[chosen[fits]], lower[fits], upper[fits]))
            excluded[chosen] |= alone[unit]
            total += len(grown[-1][0])
            if limit is not None and total > limit:
                raise SpaceTooLargeError(limit)
        sets, excluded, under, over = (np.concatenate(parts) for parts in zip(*grown, strict=True))
        found.append(sets)
    return np.concatenate(found)


def _single_units(count: int) -> Masks:
    return np.uint64(1) << np.arange(count, dtype=np.uint64)


def _masks(masks: Sequence[int]) -> Masks:
    return np.array(masks, dtype=np.uint64)
