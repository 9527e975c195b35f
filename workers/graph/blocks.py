"""Blocks: the pieces of a graph that can be scheduled one after the other without loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class Block:
    """Positions of consecutive Units, ascending; all but perhaps the last end with a cut point."""

    positions: tuple[int, ...]


def blocks(graph: Graph) -> tuple[Block, ...]:
    """Divide the graph after each of its cut points.

    A cut point is a Unit that could run beside no other: every other Unit is an ancestor or a
    descendant of it. A schedule that finishes one block before it starts the next therefore gives
    up no concurrency. Values may skip over a cut point (a residual connection does), and which
    Units are cut points does not depend on the topological order.

    Takes linear time. A Unit has every earlier Unit as an ancestor if and only if none of them
    lacks a successor up to it, for then every walk along first successors ends at it; descendants
    likewise, by last predecessors.
    """
    count = len(graph.units)
    first_successor = [after[0] if after else count for after in graph.successors]
    last_predecessor = [before[-1] if before else -1 for before in graph.predecessors]
    only_descendants = [True] * count
    lowest = count
    for position in reversed(range(count)):
        only_descendants[position] = lowest >= position
        lowest = min(lowest, last_predecessor[position])
    found: list[Block] = []
    start, highest = 0, 0
    for position in range(count):
        only_ancestors = highest <= position
        highest = max(highest, first_successor[position])
        if (only_ancestors and only_descendants[position]) or position == count - 1:
            found.append(Block(tuple(range(start, position + 1))))
            start = position + 1
    return tuple(found)


def induced_successors(graph: Graph, positions: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The dependencies among the Units at ``positions``, numbered from 0 in that order."""
    number = {position: index for index, position in enumerate(positions)}
    return tuple(
        tuple(number[after] for after in graph.successors[position] if after in number)
        for position in positions
    )
