"""Sets of Units as bit masks: bit ``i`` stands for the ``i``-th Unit of a topological order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def bits(mask: int) -> Iterator[int]:
    """Positions of the set bits, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def predecessors(successors: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """For each Unit the mask of those that lead directly to it."""
    masks = [0] * len(successors)
    for unit, after in enumerate(successors):
        for successor in after:
            masks[successor] |= 1 << unit
    return tuple(masks)


def descendants(successors: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """For each Unit, in topological order, the mask of all that is reachable from it, without
    itself."""
    masks = [0] * len(successors)
    for unit in reversed(range(len(successors))):
        for successor in successors[unit]:
            masks[unit] |= masks[successor] | 1 << successor
    return tuple(masks)


def ancestors(successors: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """For each Unit, in topological order, the mask of all from which it is reachable, without
    itself."""
    masks = [0] * len(successors)
    for unit, after in enumerate(successors):
        for successor in after:
            masks[successor] |= masks[unit] | 1 << unit
    return tuple(masks)
