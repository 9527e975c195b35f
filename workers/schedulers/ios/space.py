"""The search space of one part of a graph as arrays, which a dynamic program passes over whole.

The states and endings are those of ``workers.schedulers.endings``. A state, an ending and a stage
are masks of at most 64 Units; a distinct ending is a stage, which is what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.schedulers.ending_groups import Masks
from workers.schedulers.endings import Convention, Pruning, states

__all__ = ["Indices", "Masks", "Space", "build_space"]

Indices = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Space:
    """Every state that the pruned search can reach, with its transitions.

    ``states`` ascend by size and then by mask; the first is the empty set and the last holds every
    Unit. ``stages`` ascend by mask. The transitions of state ``i`` are ``starts[i]`` to
    ``starts[i + 1]``: ``ending`` is the index of the stage, ``rest`` that of the state without it,
    and ``state`` is ``i``. Those of the states of one size are ``layers[size - 1]`` to
    ``layers[size]``.
    """

    successors: tuple[tuple[int, ...], ...]
    states: Masks
    stages: Masks
    starts: NDArray[np.int64]
    state: Indices
    ending: Indices
    rest: Indices
    layers: tuple[int, ...]

    @property
    def units(self) -> int:
        return len(self.successors)

    @property
    def transitions(self) -> int:
        """#(S, S') of the paper's Table 1."""
        return len(self.ending)


def build_space(
    successors: Sequence[Sequence[int]],
    pruning: Pruning,
    convention: Convention = "paper",
    max_transitions: int | None = None,
) -> Space:
    """The search space of a DAG of at most 64 Units, given in topological order.

    Raises SpaceTooLargeError and TooManyUnitsError as ``endings.states`` does.
    """
    masks: list[int] = []
    endings: list[Masks] = []
    stages: list[Masks] = []
    for found in states(successors, pruning, convention, max_transitions):
        masks.append(found.units)
        endings.append(found.endings)
        stages.append(found.stages)
    return _in_order(
        successors, np.array(masks, dtype=np.uint64), endings, np.sort(np.concatenate(stages))
    )


def _in_order(
    successors: Sequence[Sequence[int]], masks: Masks, endings: Sequence[Masks], stages: Masks
) -> Space:
    """The space of states in any order, the empty one not among them, and of its stages."""
    sizes = np.bitwise_count(masks)
    order = np.lexsort((masks, sizes))
    counts = np.array([len(endings[position]) for position in order], dtype=np.int64)
    starts = np.concatenate([np.zeros(2, dtype=np.int64), np.cumsum(counts)])
    flat = np.concatenate([endings[position] for position in order])
    ascending = np.concatenate([np.zeros(1, dtype=np.uint64), masks[order]])
    state = np.repeat(np.arange(1, len(ascending), dtype=np.int32), counts)
    by_mask = np.argsort(ascending).astype(np.int32)
    rest = by_mask[np.searchsorted(ascending[by_mask], ascending[state] ^ flat)]
    bounds = np.searchsorted(sizes[order], np.arange(1, len(successors) + 2)) + 1
    return Space(
        successors=tuple(tuple(after) for after in successors),
        states=ascending,
        stages=stages,
        starts=starts,
        state=state,
        ending=np.searchsorted(stages, flat).astype(np.int32),
        rest=rest,
        layers=tuple(int(starts[bound]) for bound in bounds),
    )
