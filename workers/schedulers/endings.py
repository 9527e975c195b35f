"""Endings and the search space that they span (IOS, Sections 4.1 and 4.3).

A set of Units is a bit mask: bit ``i`` stands for the ``i``-th Unit of a part of the graph, in
topological order. A state ``S`` is what remains to be scheduled; an ending ``S'`` of ``S`` is a
non-empty subset with no edge from ``S'`` to ``S - S'``, and a transition is a pair ``(S, S')``.

The groups of an ending are its connected components. The pruning P(r, s) admits the endings of at
most s groups of at most r Units each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from workers.graph.bitsets import ancestors, bits, descendants, predecessors
from workers.graph.width import width

Convention = Literal["paper", "published"]
"""``paper``: every ending by the definition above. ``published``: only endings whose groups have
one source each (a group is then one Unit with all that is reachable from it in ``S``), which is
what the authors' code enumerates and what the counts of the paper's Table 1 are."""


class SpaceTooLargeError(Exception):
    """The search space has more than ``more_than`` transitions, or more endings to look at than
    the caller allows."""

    def __init__(self, more_than: int) -> None:
        super().__init__(f"more than {more_than} transitions")
        self.more_than = more_than


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
    """The states and transitions of a DAG given in topological order.

    Raises SpaceTooLargeError as ``states`` does.
    """
    by_size: list[dict[int, tuple[int, ...]]] = [{} for _ in range(len(successors) + 1)]
    for state in states(successors, pruning, convention, max_transitions):
        by_size[state.units.bit_count()][state.units] = tuple(state.endings)
    return SearchSpace(
        units=len(successors),
        endings={units: endings for size in by_size for units, endings in size.items()},
    )


class State(NamedTuple):
    """A non-empty state, those of its Units without a successor in it, and its endings."""

    units: int
    sinks: int
    endings: list[int]


def states(
    successors: Sequence[Sequence[int]],
    pruning: Pruning,
    convention: Convention = "paper",
    max_transitions: int | None = None,
) -> Iterator[State]:
    """Every non-empty state of a DAG given in topological order, after all states it contains.

    The states are the sets closed under predecessors, pruned or not: removing single Units reaches
    all of them. With ``v`` the last Unit of a state ``S``, ``T = S - v`` is a state too, and the
    endings of ``S`` are

    - those of ``T`` that hold no ancestor of ``v``, and
    - those of ``T``, and the empty set, with ``v`` added.

    Bounds and convention cut the second kind as soon as no ending that grows from it can be
    admitted. Memory is that of the endings of one state and of the states it was derived from.

    Raises SpaceTooLargeError as soon as more than ``max_transitions`` endings were looked at. That
    is as soon as there are as many transitions, but for ``paper`` with r above 2 and s below the
    width of the DAG: a Unit may connect groups, so that endings with too many are looked at too.
    """
    admitted = _Admitted(successors, pruning, convention)
    before, above = predecessors(successors), ancestors(successors)
    most = math.inf if max_transitions is None else max_transitions
    looked_at = found = 0
    sources = sum(1 << unit for unit, mask in enumerate(before) if not mask)
    pending = [(unit, 0, 0, sources, [0]) for unit in bits(sources)]
    while pending:
        unit, rest, sinks, ready, smaller = pending.pop()
        added = 1 << unit
        units, sinks = rest | added, sinks & ~before[unit] | added
        endings = [ending for ending in smaller if not ending & above[unit]]
        endings += admitted.extended(smaller, unit)
        looked_at += len(endings) - 1
        state = State(units, sinks, admitted.transitions(endings[1:]))
        found += len(state.endings)
        if looked_at > most:
            raise SpaceTooLargeError(int(min(most, found - 1)))
        yield state
        ready &= -added << 1
        for after in successors[unit]:
            if not before[after] & ~units:
                ready |= 1 << after
        pending.extend((after, units, sinks, ready, endings) for after in bits(ready))


class _Admitted:
    """Which endings of a state are transitions, decided while they grow Unit by Unit.

    Whether an ending is admitted depends on its Units alone, not on the state that it ends. As
    Units without a successor in it are added, its groups only grow, join and multiply. Neither a
    group above r nor, as published, one with a second source (a Unit without a predecessor in the
    ending) ever recovers. The number of groups may fall again, that of the sources may not; every
    group has one source as published, and otherwise at most r - 1, or one if r is 1. This bounds
    the sources of whatever may still come down to s groups.
    """

    def __init__(
        self, successors: Sequence[Sequence[int]], pruning: Pruning, convention: Convention
    ) -> None:
        count = len(successors)
        self._before = predecessors(successors)
        self._neighbours = [
            before | sum(1 << after for after in set(successors[unit]))
            for unit, before in enumerate(self._before)
        ]
        self._below = tuple(mask | 1 << u for u, mask in enumerate(descendants(successors)))
        self._max_units = count if pruning.max_units is None else pruning.max_units
        self._single_source = convention == "published"
        self._max_groups = self._max_sources = count
        if pruning.max_groups is not None and pruning.max_groups < width(successors):
            sources_per_group = 1 if self._single_source else max(1, self._max_units - 1)
            self._max_groups = pruning.max_groups
            self._max_sources = pruning.max_groups * sources_per_group
        self._counts_sources = self._max_sources < count
        self._all_may_grow = not (
            self._counts_sources or self._single_source or self._max_units < count
        )
        self._may_grow = _Memo(self._is_within_bounds)
        self._is_transition = _Memo(self._has_few_groups)

    def extended(self, endings: list[int], unit: int) -> list[int]:
        """``endings`` with ``unit`` added, without those of which none can become admitted."""
        added = 1 << unit
        if self._all_may_grow:
            return [ending | added for ending in endings]
        may_grow = self._may_grow
        # A Unit that touches no other is a group of its own: only its being a source can matter.
        watched = -1 if self._counts_sources else self._before[unit]
        return [
            larger
            for ending in endings
            if not (larger := ending | added) & watched or may_grow[larger]
        ]

    def transitions(self, endings: list[int]) -> list[int]:
        """Those of ``endings`` that have at most s groups."""
        if self._max_groups == self._max_sources:
            return endings
        is_transition = self._is_transition
        return [ending for ending in endings if is_transition[ending]]

    def _is_within_bounds(self, ending: int) -> bool:
        """Whether an ending may grow, given that it may without its last Unit."""
        if self._counts_sources and self._sources(ending) > self._max_sources:
            return False
        group = self._last_group(ending)
        if group.bit_count() > self._max_units:
            return False
        first = (group & -group).bit_length() - 1
        return not self._single_source or not group & ~self._below[first]

    def _sources(self, ending: int) -> int:
        return sum(not self._before[unit] & ending for unit in bits(ending))

    def _last_group(self, ending: int) -> int:
        """The group of the last Unit, or more than r Units of it."""
        last = ending.bit_length() - 1
        group = 1 << last
        fresh = self._before[last] & ending
        while fresh:
            group |= fresh
            if group.bit_count() > self._max_units:
                break
            beside = 0
            for unit in bits(fresh):
                beside |= self._neighbours[unit]
            fresh = beside & ending & ~group
        return group

    def _has_few_groups(self, ending: int) -> bool:
        """Whether there are at most s groups: whatever the sources reach, joined where it meets.

        What is reachable from a Unit without leaving the ending is what is reachable at all. The
        first Unit that no earlier source reaches is a source.
        """
        groups: list[int] = []
        left = ending
        while left:
            group = self._below[(left & -left).bit_length() - 1] & ending
            left &= ~group
            apart = []
            for other in groups:
                if other & group:
                    group |= other
                else:
                    apart.append(other)
            groups = [*apart, group]
        return len(groups) <= self._max_groups


class _Memo(dict[int, bool]):
    """A function of an ending, called once for each."""

    def __init__(self, function: Callable[[int], bool]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, ending: int) -> bool:
        value = self[ending] = self._function(ending)
        return value
