"""The search space of one part of a graph as arrays, which a dynamic program passes over whole.

The states and endings are those of ``workers.schedulers.endings``. A state, an ending and a stage
are masks of at most 64 Units; a distinct ending is a stage, which is what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.schedulers.endings import Convention, Pruning, SpaceTooLargeError, states

Masks = NDArray[np.uint64]
Indices = NDArray[np.int32]

MAX_UNITS = 64
"""As many Units as a mask has bits."""


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

    Raises SpaceTooLargeError as ``endings.states`` does, and for more Units than a mask has bits.
    """
    if len(successors) > MAX_UNITS:
        raise SpaceTooLargeError(max_transitions or 0)
    masks: list[int] = []
    endings: list[NDArray[np.uint64]] = []
    for found in states(successors, pruning, convention, max_transitions):
        masks.append(found.units)
        endings.append(np.array(found.endings, dtype=np.uint64))
    return _in_order(successors, np.array(masks, dtype=np.uint64), endings)


def _in_order(successors: Sequence[Sequence[int]], masks: Masks, endings: Sequence[Masks]) -> Space:
    """The space of states in any order, the empty one not among them."""
    sizes = np.bitwise_count(masks)
    order = np.lexsort((masks, sizes))
    counts = np.array([len(endings[position]) for position in order], dtype=np.int64)
    starts = np.concatenate([np.zeros(2, dtype=np.int64), np.cumsum(counts)])
    flat = np.concatenate([endings[position] for position in order])
    stages, ending = np.unique(flat, return_inverse=True)
    ascending = np.concatenate([np.zeros(1, dtype=np.uint64), masks[order]])
    state = np.repeat(np.arange(1, len(masks) + 1, dtype=np.int32), counts)
    by_mask = np.argsort(ascending)
    rest = by_mask[np.searchsorted(ascending, ascending[state] ^ flat, sorter=by_mask)]
    bounds = np.searchsorted(sizes[order], np.arange(1, len(successors) + 2)) + 1
    return Space(
        successors=tuple(tuple(after) for after in successors),
        states=ascending,
        stages=stages,
        starts=starts,
        state=state,
        ending=ending.astype(np.int32),
        rest=rest.astype(np.int32),
        layers=tuple(int(starts[bound]) for bound in bounds),
    )
