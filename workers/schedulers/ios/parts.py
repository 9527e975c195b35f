"""The parts of a graph that are searched on their own: its blocks, equal ones only once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from workers.graph.bitsets import bits
from workers.graph.blocks import Block, blocks, induced_successors
from workers.graph.graph import Graph
from workers.graph.signature import signature
from workers.graph.width import width
from workers.schedulers.ending_groups import SpaceTooLargeError
from workers.schedulers.endings import (
    MAX_UNITS,
    Convention,
    Pruning,
    components,
    least_transitions,
)
from workers.schedulers.ios.space import Space, build_space
from workers.schedulers.ios.stage_groups import Groups, groups_of
from workers.schedules.schedule import Stage

TIGHTEST = Pruning(max_units=2, max_groups=4)
"""A block that is still too large is divided rather than pruned further."""

TOGETHER = 4
"""So many times the transitions that one part may have, all parts may have together."""

_NAMED = 8  # blocks that a Division names one by one when they were too large


@dataclass(frozen=True)
class Part:
    """A piece of the graph with its search space and the places where it occurs.

    ``occurrences`` lists the graph positions of its Units, one tuple per occurrence; the ``i``-th
    Unit of one corresponds to the ``i``-th Unit of every other and to bit ``i`` of a mask.
    """

    space: Space
    occurrences: tuple[tuple[int, ...], ...]

    @cached_property
    def groups(self) -> Groups:
        """The groups of the space's stages."""
        return groups_of(self.space)

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
    """Divide the graph into its blocks, and see that each can be searched.

    A block with more than ``max_transitions`` is pruned step by step (``tightened``) until it fits.
    If that does not help, or if it has more Units than a mask has bits, it is cut into halves of
    its topological order, and each is tried from the start. A cut only loses the stages that would
    span it, as dividing a long block where its branches join does. If all parts together have more
    than TOGETHER times ``max_transitions``, all is done again with a quarter of that for each.

    No clock ends this, but its work is bounded: an enumeration is given up at its limit, a piece is
    tried with a few prunings, and the pieces of blocks that must be cut anyway share TOGETHER times
    ``max_transitions`` from the start, however many they are.

    The division says in ``notes`` what was given up.
    """
    whole = blocks(graph)
    cut = sum(len(block.positions) for block in whole if len(block.positions) > MAX_UNITS)
    limit = min(max_transitions, max(1, TOGETHER * max_transitions * MAX_UNITS // max(cut, 1)))
    while True:
        # A single Unit is one transition, so that there is an end to it.
        most = TOGETHER * max_transitions if limit > 1 else None
        try:
            return _Divider(graph, pruning, convention, limit, most).divide(whole)
        except SpaceTooLargeError:
            limit = max(1, limit // 4)


def tightened(pruning: Pruning, units: int, beside: int) -> Iterator[Pruning]:
    """The pruning, and then ever tighter ones: half as many groups and so on, down to four, and
    with these half as many Units for each, down to two.

    ``units`` and ``beside``, as many as can run side by side, bound r and s from the start.
    """
    r = units if pruning.max_units is None else min(pruning.max_units, units)
    s = beside if pruning.max_groups is None else min(pruning.max_groups, beside)
    yield Pruning(r, s)
    least_r, least_s = TIGHTEST.max_units or 1, TIGHTEST.max_groups or 1
    while s > least_s:
        s = max(s // 2, least_s)
        yield Pruning(r, s)
    while r > least_r:
        r = max(r // 2, least_r)
        yield Pruning(r, s)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part that stands for so many Units of a block; and with what pruning, if with a tighter
    one than was asked for."""

    part: int
    units: int
    pruning: Pruning | None


class _Divider:
    def __init__(
        self,
        graph: Graph,
        pruning: Pruning,
        convention: Convention,
        max_transitions: int,
        together: int | None,
    ) -> None:
        self._graph, self._pruning, self._convention = graph, pruning, convention
        self._max_transitions, self._together = max_transitions, together
        self._spaces: list[Space] = []
        self._pieces: dict[str, tuple[_Piece, ...]] = {}

    def divide(self, whole: Sequence[Block]) -> Division:
        order: list[tuple[int, tuple[int, ...]]] = []
        given_up: dict[tuple[_Piece, ...], str] = {}
        for block in whole:
            pieces = self._of(block.positions)
            start = 0
            for piece in pieces:
                order.append((piece.part, block.positions[start : start + piece.units]))
                start += piece.units
            given_up.setdefault(pieces, self._note(block.positions, pieces))
        notes = [note for note in given_up.values() if note]
        if len(notes) > _NAMED:
            notes[_NAMED:] = [f"so had {len(notes) - _NAMED} more blocks"]
        if divided := sum(block.divided for block in whole):
            notes.insert(
                0,
                f"more than {MAX_UNITS} units in a row have no cut point among them and were"
                f" searched in {divided} pieces",
            )
        return Division(
            parts=tuple(
                Part(space, tuple(positions for index, positions in order if index == part))
                for part, space in enumerate(self._spaces)
            ),
            order=tuple(order),
            notes=tuple(notes),
        )

    def _of(self, positions: tuple[int, ...]) -> tuple[_Piece, ...]:
        """The pieces of a block, in order; those of an equal one are the same."""
        key = signature(self._graph, positions)
        if key not in self._pieces:
            self._pieces[key] = self._found(positions)
        return self._pieces[key]

    def _found(self, positions: tuple[int, ...]) -> tuple[_Piece, ...]:
        if len(positions) <= MAX_UNITS:
            successors = induced_successors(self._graph, positions)
            limit, beside = self._max_transitions, width(successors)
            for step, pruning in enumerate(tightened(self._pruning, len(positions), beside)):
                if least_transitions(successors, pruning, limit) > limit:
                    continue
                try:
                    space = build_space(successors, pruning, self._convention, limit)
                except SpaceTooLargeError:
                    continue
                self._spaces.append(space)
                if self._together is not None and self._transitions() > self._together:
                    raise SpaceTooLargeError(self._together)
                part = len(self._spaces) - 1
                return (_Piece(part, len(positions), pruning if step else None),)
        middle = len(positions) // 2
        return self._of(positions[:middle]) + self._of(positions[middle:])

    def _note(self, positions: Sequence[int], pieces: Sequence[_Piece]) -> str:
        """What was given up of the block; empty if nothing was."""
        tighter = [piece.pruning for piece in pieces if piece.pruning is not None]
        how = [f"in {len(pieces)} pieces"] if len(pieces) > 1 else []
        if tighter:
            groups = min(pruning.max_groups or 0 for pruning in tighter)
            units = min(pruning.max_units or 0 for pruning in tighter)
            how.append(f"with at most {groups} groups to a stage and {units} units to a group")
            if len(tighter) < len(pieces):
                how.append(f"in {len(tighter)} of these")
        if not how:
            return ""
        first = self._graph.units[positions[0]].name
        reason = (
            f"more than {MAX_UNITS} units"
            if len(positions) > MAX_UNITS
            else f"more than {self._max_transitions} transitions"
        )
        return (
            f"the block of {len(positions)} units from {first!r} has {reason} and was searched"
            f" {' '.join(how)}"
        )

    def _transitions(self) -> int:
        return sum(space.transitions for space in self._spaces)
