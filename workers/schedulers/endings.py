"""Endings and the search space that they span (IOS, Sections 4.1 and 4.3).

A set of Units is a bit mask: bit ``i`` stands for the ``i``-th Unit of a part of the graph, in
topological order. A state ``S`` is what remains to be scheduled; an ending ``S'`` of ``S`` is a
non-empty subset with no edge from ``S'`` to ``S - S'``, and a transition is a pair ``(S, S')``.

The groups of an ending are its connected components. The pruning P(r, s) admits the endings of at
most s groups of at most r Units each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from workers.graph.bitsets import ancestors, bits, predecessors
from workers.graph.width import width
from workers.schedulers.ending_groups import (
    ConnectedGroups,
    Groups,
    Masks,
    PrincipalGroups,
    SpaceTooLargeError,
)

MAX_UNITS = 64
"""As many Units as a mask has bits."""

Convention = Literal["paper", "published"]
"""``paper``: every ending by the definition above. ``published``: only endings whose groups have
one source each (a group is then one Unit with all that is reachable from it in ``S``), which is
what the authors' code enumerates and what the counts of the paper's Table 1 are."""


class TooManyUnitsError(ValueError):
    """There are more Units than a mask has bits."""

    def __init__(self, units: int) -> None:
        super().__init__(
            f"the graph has {units} Units and at most {MAX_UNITS} are searched or counted at once;"
            " divide it at its cut points"
        )


@dataclass(frozen=True, slots=True)
class Pruning:
    """P(r, s): at most ``max_groups`` groups of at most ``max_units`` Units; None is unbounded."""

    max_units: int | None = None
    max_groups: int | None = None


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


class State(NamedTuple):
    """A non-empty state, those of its Units without a successor in it, and its endings."""

    units: int
    sinks: int
    endings: Masks

    @property
    def stages(self) -> Masks:
        """The endings that hold every sink: this is the smallest state that they end. Every stage
        is among those of one state."""
        sinks = np.uint64(self.sinks)
        stages: Masks = self.endings[self.endings & sinks == sinks]
        return stages


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
    - those, and the empty set, joined with a group of ``S`` that holds ``v``.

    Whatever is enumerated on the way is a transition, so that time and memory are theirs. Raises
    TooManyUnitsError, and SpaceTooLargeError as soon as there are more than ``max_transitions``.
    """
    if len(successors) > MAX_UNITS:
        raise TooManyUnitsError(len(successors))
    growth = _growth(successors, pruning, convention, max_transitions)
    before = predecessors(successors)
    found = 0
    sources = sum(1 << unit for unit, mask in enumerate(before) if not mask)
    nothing = _Endings(np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint8))
    pending = [(unit, 0, 0, sources, nothing) for unit in bits(sources)]
    while pending:
        unit, rest, sinks, ready, smaller = pending.pop()
        added = 1 << unit
        units, sinks = rest | added, sinks & ~before[unit] | added
        pieces = []
        found -= 1  # the empty set
        for piece in growth.with_last(unit, np.uint64(units), smaller):
            found += len(piece.masks)
            if max_transitions is not None and found > max_transitions:
                raise SpaceTooLargeError(max_transitions)
            pieces.append(piece)
        masks, groups = zip(*pieces, strict=True)
        endings = _Endings(np.concatenate(masks), np.concatenate(groups))
        yield State(units, sinks, endings.masks[1:])
        ready &= -added << 1
        for after in successors[unit]:
            if not before[after] & ~units:
                ready |= 1 << after
        pending.extend((after, units, sinks, ready, endings) for after in bits(ready))


def least_transitions(successors: Sequence[Sequence[int]], pruning: Pruning, enough: int) -> int:
    """No fewer transitions has the search space, whatever r is; given up above ``enough``.

    Any s Units of a state without a successor in it are an ending. This only looks at states, all
    of one size at a time, which is much quicker than to enumerate their endings.
    """
    count = len(successors)
    most = count if pruning.max_groups is None else pruning.max_groups
    endings = np.array(
        [
            min(sum(math.comb(sinks, groups) for groups in range(1, min(sinks, most) + 1)), 1 << 40)
            for sinks in range(count + 1)
        ]
    )
    before = np.array(predecessors(successors), dtype=np.uint64)
    states, sinks = np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    found = 0
    while len(states):
        larger: list[tuple[Masks, Masks]] = []
        for unit in range(count):
            bit = np.uint64(1 << unit)
            chosen = (states < bit) & (states & before[unit] == before[unit])
            larger.append((states[chosen] | bit, sinks[chosen] & ~before[unit] | bit))
            found += int(endings[np.bitwise_count(larger[-1][1])].sum())
            if found > enough:
                return found
        states, sinks = (np.concatenate(masks) for masks in zip(*larger, strict=True))
    return found


class _Endings(NamedTuple):
    """The endings of a state, the empty set first, and of how many groups each is."""

    masks: Masks
    groups: NDArray[np.uint8]


class _Growth(Protocol):
    def with_last(self, unit: int, units: np.uint64, smaller: _Endings) -> Iterator[_Endings]:
        """The endings of the state ``units`` from those of the state without its last Unit, in
        pieces, the empty set first."""
        ...


def _growth(
    successors: Sequence[Sequence[int]],
    pruning: Pruning,
    convention: Convention,
    limit: int | None,
) -> _Growth:
    count = len(successors)
    max_units = count if pruning.max_units is None else pruning.max_units
    max_groups = count if pruning.max_groups is None else pruning.max_groups
    above = np.array(ancestors(successors), dtype=np.uint64)
    if convention == "published":
        return _OfGroups(above, PrincipalGroups(successors, max_units), max_groups)
    if max_units >= count and max_groups >= width(successors):
        return _Unpruned(above)
    return _OfGroups(above, ConnectedGroups(successors, max_units, limit), max_groups)


_PAIRS = 1 << 21
"""So many pairs of a group and an ending are tried at once, which bounds the memory."""


class _OfGroups:
    """Endings of at most ``max_groups`` of the admitted groups."""

    def __init__(self, above: Masks, groups: Groups, max_groups: int) -> None:
        self._above, self._groups, self._max_groups = above, groups, max_groups

    def with_last(self, unit: int, units: np.uint64, smaller: _Endings) -> Iterator[_Endings]:
        chosen = smaller.masks & self._above[unit] == 0
        kept = _Endings(smaller.masks[chosen], smaller.groups[chosen])
        yield kept
        groups = self._groups.with_last(unit, units)
        at_once = max(1, _PAIRS // len(kept.masks))
        for first in range(0, len(groups), at_once):
            some = groups[first : first + at_once]
            fits = (some[:, np.newaxis] & kept.masks == 0) & (kept.groups < self._max_groups)
            group, other = fits.nonzero()
            yield _Endings(some[group] | kept.masks[other], kept.groups[other] + np.uint8(1))


class _Unpruned:
    """All endings, whatever their groups, which are not counted: the last Unit may join any."""

    def __init__(self, above: Masks) -> None:
        self._above = above

    def with_last(self, unit: int, units: np.uint64, smaller: _Endings) -> Iterator[_Endings]:
        kept = smaller.masks & self._above[unit] == 0
        yield _Endings(smaller.masks[kept], smaller.groups[kept])
        yield _Endings(smaller.masks | np.uint64(1 << unit), smaller.groups)
