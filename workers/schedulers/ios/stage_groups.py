"""The groups of every stage of a space as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.schedulers.ios.space import Indices, Masks, Space


@dataclass(frozen=True, eq=False)
class Groups:
    """Which Units and groups each stage has.

    ``units[u, i]`` says whether stage ``i`` has Unit ``u``. The ``j``-th group of stage ``i``, in
    the order of their first Units, is ``masks[of_stage[i, j]]``; there are ``count[i]``, and what
    follows is the last mask, which is empty.
    """

    units: NDArray[np.bool_]
    of_stage: Indices
    count: Indices
    masks: Masks


def groups_of(space: Space) -> Groups:
    """The connected components of all stages at once: every Unit takes the least number among its
    neighbours' in the stage until none changes."""
    numbers = np.arange(space.units, dtype=np.uint64)[:, None]
    units = (space.stages[None, :] >> numbers & np.uint64(1)).astype(bool)
    first = _first_units(space, units)
    mask = np.zeros(units.shape, dtype=np.uint64)
    for unit in range(space.units):
        stages = np.flatnonzero(units[unit])
        mask[first[unit, stages], stages] |= np.uint64(1 << unit)
    stage, unit_of_group = np.nonzero(mask.T)
    count = np.bincount(stage, minlength=len(space.stages)).astype(np.int32)
    masks, found = np.unique(mask[unit_of_group, stage], return_inverse=True)
    of_stage = np.full((len(space.stages), int(count.max())), len(masks), dtype=np.int32)
    of_stage[stage, np.arange(len(stage)) - np.repeat(np.cumsum(count) - count, count)] = found
    return Groups(units, of_stage, count, np.append(masks, np.uint64(0)))


def _first_units(space: Space, units: NDArray[np.bool_]) -> NDArray[np.int8]:
    """For every Unit and stage the first Unit of its group; nothing of meaning elsewhere."""
    first = np.repeat(np.arange(space.units, dtype=np.int8)[:, None], units.shape[1], axis=1)
    together = [
        (before, after, stages)
        for before, successors in enumerate(space.successors)
        for after in successors
        if len(stages := np.flatnonzero(units[before] & units[after]))
    ]
    while True:
        changed = False
        for before, after, stages in together:
            least = np.minimum(first[before, stages], first[after, stages])
            changed |= bool((first[after, stages] != least).any())
            changed |= bool((first[before, stages] != least).any())
            first[before, stages] = first[after, stages] = least
        if not changed:
            return first
