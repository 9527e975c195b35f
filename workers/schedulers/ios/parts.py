"""The parts of a graph that are searched on their own: its blocks, equal ones only once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.graph.bitsets import bits
from workers.graph.blocks import MAX_UNITS, blocks, induced_successors
from workers.graph.graph import Graph
from workers.graph.signature import signature
from workers.schedulers.endings import (
    Convention,
    Pruning,
    components,
)
from workers.schedulers.groups import SpaceTooLargeError
from workers.schedulers.ios.space import Space, build_space
from workers.schedules.schedule import Stage


@dataclass(frozen=True)
class Part:
    """A piece of the graph with its search space and the places where it occurs.

    ``occurrences`` lists the graph positions of its Units, one tuple per occurrence; the ``i``-th
    Unit of one corresponds to the ``i``-th Unit of every other and to bit ``i`` of a mask.
    """

    space: Space
    occurrences: tuple[tuple[int, ...], ...]

    def stage(self, graph: Graph, mask: int, positions: Sequence[int]) -> Stage:
        """The stage of the Units in ``mask``, its connected components as groups."""
        return Stage(
            groups=tuple(
                tuple(graph.units[positions[unit]].name for unit in bits(group))
                for group in components(mask, self.space.successors)
            )
        )


@dataclass(frozen=True)
class Division:
    """``order`` names, for each consecutive piece of the graph, its part and its positions."""

    parts: tuple[Part, ...]
    order: tuple[tuple[int, tuple[int, ...]], ...]
    notes: tuple[str, ...]


def divide(
    graph: Graph, pruning: Pruning, convention: Convention, max_transitions: int
) -> Division:
    """Divide the graph into its blocks, and a block whose search space has more than
    ``max_transitions`` into halves of its topological order until each fits.

    This only loses the stages that would span the cut, as dividing a long block where its branches
    join does; the division says so in ``notes``.
    """
    pieces: dict[str, list[int]] = {}
    found: list[Space] = []
    order: list[tuple[int, tuple[int, ...]]] = []
    notes: list[str] = []
    whole = blocks(graph)
    if pieces_of_long := sum(block.divided for block in whole):
        notes.append(
            f"more than {MAX_UNITS} units in a row have no cut point among them and were searched"
            f" in {pieces_of_long} pieces"
        )
    for block in whole:
        key = signature(graph, block.positions)
        if key not in pieces:
            searched = _searchable(graph, block.positions, pruning, convention, max_transitions)
            pieces[key] = list(range(len(found), len(found) + len(searched)))
            found.extend(searched)
            if len(searched) > 1:
                first = graph.units[block.positions[0]].name
                notes.append(
                    f"the block of {len(block.positions)} units from {first!r} has more than"
                    f" {max_transitions} transitions and was searched in {len(searched)} pieces"
                )
        start = 0
        for part in pieces[key]:
            end = start + found[part].units
            order.append((part, block.positions[start:end]))
            start = end
    return Division(
        parts=tuple(
            Part(space, tuple(positions for index, positions in order if index == part))
            for part, space in enumerate(found)
        ),
        order=tuple(order),
        notes=tuple(notes),
    )


def _searchable(
    graph: Graph,
    positions: tuple[int, ...],
    pruning: Pruning,
    convention: Convention,
    max_transitions: int,
) -> list[Space]:
    """The search space of ``positions``, or of each of its pieces."""
    successors = induced_successors(graph, positions)
    limit = max_transitions if len(positions) > 1 else None
    try:
        return [build_space(successors, pruning, convention, limit)]
    except SpaceTooLargeError:
        middle = len(positions) // 2
        return [
            searched
            for half in (positions[:middle], positions[middle:])
            for searched in _searchable(graph, half, pruning, convention, max_transitions)
        ]
