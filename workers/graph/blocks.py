"""Blocks: the pieces of a graph that are scheduled one after the other, without loss but for the
longest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from workers.graph.bitsets import descendants, predecessors
from workers.graph.graph import Graph

MAX_UNITS = 64
"""A block of more Units is divided further: no search over all that it could run is feasible."""


@dataclass(frozen=True, slots=True)
class Block:
    """Positions of consecutive Units, ascending.

    ``divided`` says that it is a piece of a larger block, so that running it before the next piece
    gives up what could have run across the cut.
    """

    positions: tuple[int, ...]
    divided: bool = False


def blocks(graph: Graph, max_units: int = MAX_UNITS) -> tuple[Block, ...]:
    """Divide the graph after each of its cut points, and a block of more than ``max_units`` Units
    after each of its merge points, however large it stays.

    A cut point is a Unit that could run beside no other: every other Unit is an ancestor or a
    descendant of it. A schedule that finishes one block before it starts the next therefore gives
    up no concurrency. Values may skip over a cut point (a residual connection does), and which
    Units are cut points does not depend on the topological order.

    A merge point of a block joins what comes before it: it reads several of the block's Units and
    all earlier ones are its ancestors. The Units that could run beside it are all later; they are
    at most two thirds of the rest and no more than the Units since the merge point before it. The
    cells of NASNet read the results of the two before them, so that between the first cell and the
    last there is no cut point; but the concatenation at the end of each is a merge point, and the
    pieces are the cells, which the IOS paper schedules one by one. The steps of one layer of a
    stacked LSTM are no merge points, as too much of the next layers could run beside them.

    Takes linear time but for long blocks. A Unit has every earlier Unit as an ancestor if and only
    if none of them lacks a successor up to it, for then every walk along first successors ends at
    it; descendants likewise, by last predecessors.
    """
    count = len(graph.units)
    after_all = _after_all_earlier(graph.successors)
    last_predecessor = [before[-1] if before else -1 for before in graph.predecessors]
    cuts = {count - 1}
    lowest = count
    for position in reversed(range(count)):
        if after_all[position] and lowest >= position:
            cuts.add(position)
        lowest = min(lowest, last_predecessor[position])
    found: list[Block] = []
    for positions in _runs(range(count), cuts):
        pieces = [positions]
        if len(positions) > max_units:
            merges = _merge_points(induced_successors(graph, positions))
            pieces = _runs(positions, {positions[index] for index in merges} | {positions[-1]})
        found.extend(Block(piece, divided=len(pieces) > 1) for piece in pieces)
    return tuple(found)


def _after_all_earlier(successors: Sequence[Sequence[int]]) -> list[bool]:
    """For each Unit, whether it has every earlier one as an ancestor."""
    found = []
    furthest = 0
    for unit, after in enumerate(successors):
        found.append(furthest <= unit)
        furthest = max(furthest, after[0] if after else len(successors))
    return found


def _merge_points(successors: Sequence[Sequence[int]]) -> list[int]:
    """The merge points of a block whose Units are numbered from 0."""
    after_all = _after_all_earlier(successors)
    before, below = predecessors(successors), descendants(successors)
    found: list[int] = []
    for unit in range(len(successors)):
        later = len(successors) - unit - 1
        beside = later - below[unit].bit_count()
        since = unit - (found[-1] if found else -1)
        joins = after_all[unit] and before[unit].bit_count() > 1
        if joins and 3 * beside <= 2 * later and beside <= since:
            found.append(unit)
    return found


def _runs(positions: Sequence[int], ends: Collection[int]) -> list[tuple[int, ...]]:
    """``positions``, the last of which is one of ``ends``, divided after each of these."""
    runs: list[tuple[int, ...]] = []
    start = 0
    for index, position in enumerate(positions):
        if position in ends:
            runs.append(tuple(positions[start : index + 1]))
            start = index + 1
    return runs


def induced_successors(graph: Graph, positions: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The dependencies among the Units at ``positions``, numbered from 0 in that order."""
    number = {position: index for index, position in enumerate(positions)}
    return tuple(
        tuple(number[after] for after in graph.successors[position] if after in number)
        for position in positions
    )
