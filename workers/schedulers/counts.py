"""How large the search of IOS is, counted exactly and without keeping it (Section 4.2, Table 1)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from workers.graph.adjacency import in_topological_order
from workers.schedulers.endings import Convention, Pruning, SpaceTooLargeError, states

MAX_UNITS = 64
"""The largest graph that is counted: wider ones than this are hopeless, longer ones are split."""


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


class TooManyUnitsError(ValueError):
    """The graph has more Units than are counted."""


def count(
    successors: Sequence[Sequence[int]],
    pruning: Pruning = Pruning(),  # noqa: B008  # frozen
    convention: Convention = "paper",
    *,
    max_transitions: int | None = None,
    max_seconds: float = math.inf,
) -> Counts | TooLarge:
    """Count the search space of a DAG of at most MAX_UNITS Units, in any order.

    The schedules are the paths from the state that holds every Unit to the empty one. A stage ends
    many states, and of those the smallest consists of its Units and their ancestors; it is counted
    there, where it holds every sink of the state.

    Raises TooManyUnitsError, and AdjacencyError if there is a cycle.
    """
    if len(successors) > MAX_UNITS:
        raise TooManyUnitsError(
            f"the graph has {len(successors)} Units and at most {MAX_UNITS} are counted;"
            " divide it at its cut points and count the blocks"
        )
    give_up = time.monotonic() + max_seconds
    paths = {0: 1}
    transitions = stages = 0
    try:
        for units, sinks, endings in states(
            in_topological_order(successors), pruning, convention, max_transitions
        ):
            if time.monotonic() > give_up:
                return TooLarge(transitions, f"counting stopped after {max_seconds:g} s")
            transitions += len(endings)
            stages += sum([ending & sinks == sinks for ending in endings])
            paths[units] = sum([paths[units ^ ending] for ending in endings])
    except SpaceTooLargeError as error:
        return TooLarge(error.more_than, f"counting stopped after {max_transitions:,} endings")
    return Counts(len(paths), transitions, paths[(1 << len(successors)) - 1], stages)
