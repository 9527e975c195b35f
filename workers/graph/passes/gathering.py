"""Operators gathered into groups without a change to what depends on what."""

from __future__ import annotations

from workers.graph.graph import Graph, Operator


class Gathering:
    """Groups of a graph's operators, by position; at first each operator is one.

    A group is called by its *anchor*, the operator that it grew from. Two moves make it grow, and
    both contract an edge a → b of the DAG of groups:

    - ``follow``: b joins a. Allowed if every other group that b reads is an ancestor of a.
    - ``precede``: a joins b. Allowed if every other group that reads a is a descendant of b.

    Neither changes which of the *other* groups, or of the groups' anchors, depend on each other.
    For ``follow``: ancestors of b other than a are ancestors of a, so the group has a's ancestors
    and a's descendants. For ``precede`` likewise with b. Hence no circle can arise: it would be a
    path a → c ⇝ b around the edge, on which the last group before b is a descendant of a, not an
    ancestor; or the first after a is an ancestor of b, not a descendant. And hence two anchors that
    may run side by side before may run side by side after any number of moves.

    Ancestors are kept as bits, n² / 8 bytes for n operators.
    """

    def __init__(self, graph: Graph) -> None:
        self.operators: tuple[Operator, ...] = graph.operators
        self.returned = frozenset(graph.outputs)
        maker = {v: i for i, o in enumerate(self.operators) for v in o.outputs}
        self._sources: list[tuple[int, ...]] = []
        sinks: list[list[int]] = [[] for _ in self.operators]
        self._ancestors: list[int] = []
        for position, operator in enumerate(self.operators):
            sources = tuple(dict.fromkeys(maker[v] for v in operator.inputs if v in maker))
            bits = 0
            for source in sources:
                sinks[source].append(position)
                bits |= self._ancestors[source] | 1 << source
            self._sources.append(sources)
            self._ancestors.append(bits)
        self._sinks = [tuple(after) for after in sinks]
        self._anchor = list(range(len(self.operators)))
        self._members = [[position] for position in range(len(self.operators))]

    def anchor(self, position: int) -> int:
        """The group that the operator is in."""
        return self._anchor[position]

    def members(self, anchor: int) -> list[int]:
        """The group's operators, in the order in which they joined."""
        return self._members[anchor]

    def sources(self, anchor: int) -> set[int]:
        """The groups that the group reads."""
        return {
            self._anchor[source]
            for member in self._members[anchor]
            for source in self._sources[member]
        } - {anchor}

    def sinks(self, anchor: int) -> set[int]:
        """The groups that read the group."""
        return {self._anchor[reader] for reader in self.readers(anchor)}

    def readers(self, anchor: int) -> set[int]:
        """The operators outside the group that read it."""
        return {
            reader
            for member in self._members[anchor]
            for reader in self._sinks[member]
            if self._anchor[reader] != anchor
        }

    def returns(self, anchor: int) -> bool:
        """Whether the graph returns a value of the group."""
        return any(
            not self.returned.isdisjoint(self.operators[member].outputs)
            for member in self._members[anchor]
        )

    def depends(self, anchor: int, other: int) -> bool:
        """Whether the group needs ``other``, directly or not."""
        return bool(self._ancestors[anchor] >> other & 1)

    def join(self, joining: int, anchor: int) -> None:
        """Put all of the group ``joining`` into the group ``anchor``: ``follow`` or ``precede``,
        whichever its caller has seen to be allowed."""
        for member in self._members[joining]:
            self._anchor[member] = anchor
        self._members[anchor] += self._members[joining]
        self._members[joining] = []

    def anchors(self) -> list[int]:
        """The groups, by the position of their anchors."""
        return [position for position, anchor in enumerate(self._anchor) if position == anchor]

    def groups(self) -> list[list[Operator]]:
        """Every group's operators."""
        return [[self.operators[m] for m in self._members[a]] for a in self.anchors()]
