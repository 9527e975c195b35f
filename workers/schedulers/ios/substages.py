"""Which stages are left when a stage loses Units: what is known of a stage says something of all
stages that contain it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from workers.schedulers.ios.space import Indices, Masks, Space
from workers.schedulers.ios.stage_groups import Groups


@dataclass(frozen=True, eq=False)
class Substages:
    """Pairs of stages: ``whole`` has more than one Unit, and ``left`` is what is left of it without
    one of its groups, or without one Unit whose group stays connected. The pairs ascend by the
    number of Units of ``whole`` and then by ``whole``.

    ``starts`` are the positions where another ``whole`` begins. ``layers`` bounds, for each number
    of Units, those of ``starts`` that belong to it.

    ``chain`` are the positions of pairs where ``whole`` has one group and ``left`` lacks one Unit
    of it, and ``unit`` is that Unit alone as a stage.
    """

    whole: Indices
    left: Indices
    starts: NDArray[np.int64]
    layers: tuple[int, ...]
    chain: NDArray[np.int64]
    unit: Indices

    def layered(self) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """For each number of Units, small ones first: where its pairs begin and end, and the
        positions where another ``whole`` begins."""
        for first, last in pairwise(self.layers):
            if first < last:
                end = int(self.starts[last]) if last < len(self.starts) else len(self.whole)
                yield int(self.starts[first]), end, self.starts[first:last]

    def chained(self, begin: int, end: int) -> tuple[NDArray[np.int64], Indices]:
        """``chain`` and ``unit`` from position ``begin`` to ``end``."""
        chosen = slice(*np.searchsorted(self.chain, [begin, end]))
        return self.chain[chosen], self.unit[chosen]


def substages(space: Space, groups: Groups, units: bool = True) -> Substages:
    """All pairs of a space; without ``units`` stages of several groups lose only whole groups."""
    stage, removed, is_group = _removals(space, groups)
    if not units:
        kept = is_group | (groups.count[stage] == 1)
        stage, removed = stage[kept], removed[kept]
    smaller = space.stages[stage] & ~removed
    left = np.minimum(np.searchsorted(space.stages, smaller), len(space.stages) - 1)
    found = np.flatnonzero((space.stages[left] == smaller) & (smaller != 0))
    stage, removed, left = stage[found], removed[found], left[found]
    sizes = np.bitwise_count(space.stages[stage])
    order = np.lexsort((left, stage, sizes))
    stage, removed, left, sizes = stage[order], removed[order], left[order], sizes[order]
    starts = np.flatnonzero(np.diff(stage, prepend=-1))
    chain = np.flatnonzero((groups.count[stage] == 1) & (np.bitwise_count(removed) == 1))
    return Substages(
        whole=stage.astype(np.int32),
        left=left.astype(np.int32),
        starts=starts,
        layers=tuple(
            int(bound) for bound in np.searchsorted(sizes[starts], np.arange(2, space.units + 2))
        ),
        chain=chain,
        unit=np.searchsorted(space.stages, removed[chain]).astype(np.int32),
    )


def _removals(space: Space, groups: Groups) -> tuple[NDArray[np.int64], Masks, NDArray[np.bool_]]:
    """For every stage and each of its groups: the group, and its Units that it stays connected
    without; and which of these is the group. What is connected may be a group, and is one of
    ``groups.masks`` if it is a stage."""
    masks = groups.masks[:-1]
    known = set(masks.tolist())
    removals = [
        [group, *(bit for bit in _bits(group) if group ^ bit in known)] for group in masks.tolist()
    ]
    stage, slot = np.nonzero(groups.of_stage < len(masks))
    group = groups.of_stage[stage, slot]
    counts = np.array([len(found) for found in removals], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    flat = np.array([mask for found in removals for mask in found], dtype=np.uint64)
    times = counts[group]
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    removed = flat[np.repeat(starts[group], times) + within]
    return np.repeat(stage, times), removed, within == 0


def _bits(mask: int) -> list[int]:
    """The single bits of a mask."""
    return [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]
