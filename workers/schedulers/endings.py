"""Endings and the search space that they span (IOS, Sections 4.1 and 4.3).

A set of Units is a bit mask: bit ``i`` stands for the ``i``-th Unit of a part of the graph, in
topological order. A state ``S`` is what remains to be scheduled; an ending ``S'`` of ``S`` is a
non-empty subset with no edge from ``S'`` to ``S - S'``, and a transition is a pair ``(S, S')``.

The groups of an ending are its connected components. Two disjoint endings share no edge, so the
endings of a state are exactly the unions of pairwise disjoint *connected* endings, each ending
once. Enumerating connected endings first makes both bounds of the pruning P(r, s) cuts of the
enumeration: r bounds a connected ending, s the number of them in a union.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Convention = Literal["paper", "published"]
"""``paper``: every ending by the definition above. ``published``: only unions of principal
filters (one Unit with all its successors in ``S``), which is what the authors' code enumerates
and what the counts of the paper's Table 1 are; it misses groups with two sources."""


class SpaceTooLargeError(Exception):
    """The search space has more transitions than the caller allows."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """P(r, s): at most ``max_groups`` groups of at most ``max_units`` Units; None is unbounded."""

    max_units: int | None = None
    max_groups: int | None = None


@dataclass(frozen=True)
class SearchSpace:
    """Every state that the pruned search can reach, and its endings.

    ``endings`` maps each state to its endings and iterates over the states in ascending size,
    the order in which a dynamic program fills them; the empty set is its one terminal state and
    is counted in ``states`` as in the paper's Figure 5.
    """

    units: int
    endings: Mapping[int, Sequence[int]]

    @property
    def everything(self) -> int:
        """The state that holds every Unit."""
        return (1 << self.units) - 1

    @property
    def states(self) -> int:
        return len(self.endings) + 1

    @cached_property
    def transitions(self) -> int:
        """#(S, S') of the paper's Table 1."""
        return sum(len(endings) for endings in self.endings.values())

    @cached_property
    def stages(self) -> tuple[int, ...]:
        """The distinct endings, small ones first, equal sizes in ascending order."""
        distinct = {ending for endings in self.endings.values() for ending in endings}
        return tuple(sorted(distinct, key=lambda stage: (stage.bit_count(), stage)))

    @cached_property
    def schedules(self) -> int:
        """#Schedules of the paper's Table 1: the paths from everything to the empty set."""
        paths = {0: 1}
        for state, endings in self.endings.items():
            paths[state] = sum(paths[state ^ ending] for ending in endings)
        return paths[self.everything]


def bits(mask: int) -> Iterator[int]:
    """Positions of the set bits, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def descendants(successors: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """For each Unit the mask of itself and of all that is reachable from it."""
    masks = [0] * len(successors)
    for unit in reversed(range(len(successors))):
        masks[unit] = 1 << unit
        for successor in successors[unit]:
            masks[unit] |= masks[successor]
    return tuple(masks)


def components(stage: int, successors: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The groups of a stage: its connected components, by their first Unit."""
    groups: list[int] = []
    for unit in bits(stage):
        group = 1 << unit
        for successor in successors[unit]:
            group |= 1 << successor
        group &= stage
        apart = []
        for other in groups:
            if other & group:
                group |= other
            else:
                apart.append(other)
        groups = [*apart, group]
    return tuple(sorted(groups, key=lambda group: group & -group))


def search_space(
    successors: Sequence[Sequence[int]],
    pruning: Pruning,
    convention: Convention = "paper",
    max_transitions: int | None = None,
) -> SearchSpace:
    """Enumerate the states and transitions of a DAG given in topological order.

    Every state is a set closed under predecessors: removing single Units already reaches all of
    them, so pruning removes transitions, never states. Raises SpaceTooLargeError as soon as there
    are more than ``max_transitions``.
    """
    below = descendants(successors)
    unit_count = len(successors)
    by_size: list[dict[int, tuple[int, ...]]] = [{} for _ in range(unit_count + 1)]
    if unit_count:
        by_size[unit_count][(1 << unit_count) - 1] = ()
    left = math.inf if max_transitions is None else max_transitions
    for size in range(unit_count, 0, -1):
        for state in by_size[size]:
            groups = _connected_endings(state, below, pruning, convention, left)
            endings = _unions(groups, pruning, left)
            left -= len(endings)
            by_size[size][state] = tuple(endings)
            for ending in endings:
                by_size[size - ending.bit_count()].setdefault(state ^ ending, ())
    return SearchSpace(
        units=unit_count,
        endings={state: ending for states in by_size[1:] for state, ending in states.items()},
    )


def _connected_endings(
    state: int, below: Sequence[int], pruning: Pruning, convention: Convention, most: float
) -> list[int]:
    """The connected endings of ``state`` within r, ascending; SpaceTooLargeError past ``most``.

    Both ends of an edge lie in one principal filter, so a connected ending is a union of filters
    that overlap one another in a chain: it grows from a filter by joining overlapping ones.
    """
    limit = pruning.max_units if pruning.max_units is not None else len(below)
    filters = [
        ending for unit in bits(state) if (ending := below[unit] & state).bit_count() <= limit
    ]
    if convention == "published":
        return sorted(filters)
    found = set(filters)
    frontier = filters.copy()
    while frontier:
        if len(found) > most:
            raise SpaceTooLargeError
        group = frontier.pop()
        for ending in filters:
            joined = group | ending
            if group & ending and joined not in found and joined.bit_count() <= limit:
                found.add(joined)
                frontier.append(joined)
    return sorted(found)


def _unions(groups: list[int], pruning: Pruning, most: float) -> list[int]:
    """Every union of one to s pairwise disjoint groups; SpaceTooLargeError past ``most``."""
    limit = pruning.max_groups if pruning.max_groups is not None else len(groups)
    unions: list[int] = []
    frontier = [(0, groups, limit)]
    while frontier:
        if len(unions) + len(frontier[-1][1]) > most:
            raise SpaceTooLargeError
        union, candidates, left = frontier.pop()
        for position, group in enumerate(candidates):
            unions.append(union | group)
            if left > 1:
                disjoint = [other for other in candidates[position + 1 :] if not other & group]
                if disjoint:
                    frontier.append((union | group, disjoint, left - 1))
    return unions
