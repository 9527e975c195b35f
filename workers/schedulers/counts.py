"""How large the search of IOS is, counted exactly and without keeping it (Section 4.2, Table 1)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workers.graph.adjacency import in_topological_order
from workers.schedulers.ending_groups import SpaceTooLargeError
from workers.schedulers.endings import Convention, Pruning, states


@dataclass(frozen=True, slots=True)
class Counts:
    """The empty state is among the states, as in the paper's Figure 5.

    ``transitions`` is #(S, S') and ``schedules`` #Schedules of Table 1; ``stages`` counts the
    distinct endings, which are what is measured.
    """

    states: int
    transitions: int
    schedules: int
    stages: int


@dataclass(frozen=True, slots=True)
class TooLarge:
    """Counting was given up: there are more than ``more_than`` transitions, ``reason`` says why."""

    more_than: int
    reason: str


def count(
    successors: Sequence[Sequence[int]],
    pruning: Pruning = Pruning(),  # noqa: B008  # frozen
    convention: Convention = "paper",
    *,
    max_transitions: int | None = None,
    max_seconds: float = math.inf,
) -> Counts | TooLarge:
    """Count the search space of a DAG of at most 64 Units, in any order.

    The schedules are the paths from the state that holds every Unit to the empty one.

    Raises TooManyUnitsError, and AdjacencyError if there is a cycle.
    """
    give_up = time.monotonic() + max_seconds
    paths = {0: 1}
    transitions = stages = 0
    try:
        for state in states(in_topological_order(successors), pruning, convention, max_transitions):
            if time.monotonic() > give_up:
                return TooLarge(transitions, f"counting stopped after {max_seconds:g} s")
            transitions += len(state.endings)
            stages += len(state.stages)
            rests = state.endings ^ np.uint64(state.units)
            paths[state.units] = sum([paths[rest] for rest in rests.tolist()])
    except SpaceTooLargeError as error:
        return TooLarge(error.more_than, f"counting stopped after {max_transitions:,} transitions")
    return Counts(len(paths), transitions, paths[(1 << len(successors)) - 1], stages)
