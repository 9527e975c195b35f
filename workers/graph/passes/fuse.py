"""Which operators run back to back as one Unit."""

from __future__ import annotations

from workers.graph.graph import Graph, Operator
from workers.graph.operators import KINDS, is_kernel_free
from workers.graph.units import regroup

_ACTIVATED = ("conv", "linear")


def fuse(graph: Graph) -> Graph:
    """Group the graph's operators into Units; any grouping that the graph had is given up.

    Before: ``permute(x) → p``, ``conv(p) → c``, ``relu(c) → r``, ``flatten(r) → f``,
    ``softmax(f) → y``. After: Unit ``conv`` = {permute, conv, relu, flatten}, Unit ``softmax``.

    - An activation joins the convolution or linear layer whose result it alone reads.
    - An operator without a kernel joins the Unit that computes what it reads. If that is an input
      of the graph or a weight, it joins the first Unit that reads its result, or the first Unit of
      all if none does. It is a Unit of its own only in a graph without kernels.

    Units never wait for each other in a circle: whatever joins a Unit reads only that Unit's
    results and given values, except operators put before its first one, which read given values
    only and are read by no earlier Unit.
    """
    groups = _Grouping(graph).groups()
    return regroup(graph, groups)


class _Grouping:
    """Assigns each operator to the one that leads its Unit, both by position in the graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._operators = graph.operators
        self._maker = {v: i for i, o in enumerate(self._operators) for v in o.outputs}
        self._readers: dict[str, list[int]] = {}
        for position, operator in enumerate(self._operators):
            for value in operator.inputs:
                self._readers.setdefault(value, []).append(position)
        self._leader: dict[int, int] = {}

    def groups(self) -> list[list[Operator]]:
        waiting = []
        for position, operator in enumerate(self._operators):
            if not is_kernel_free(operator.target):
                self._leader[position] = self._activates(operator, position)
            elif (leader := self._computed_by(operator)) is not None:
                self._leader[position] = leader
            else:
                waiting.append(position)
        first = min(self._leader.values(), default=None)
        for position in reversed(waiting):
            readers = (
                self._leader[reader]
                for value in self._operators[position].outputs
                for reader in self._readers.get(value, ())
            )
            self._leader[position] = min(readers, default=position if first is None else first)
        groups: dict[int, list[Operator]] = {}
        for position, leader in self._leader.items():
            groups.setdefault(leader, []).append(self._operators[position])
        return list(groups.values())

    def _activates(self, operator: Operator, position: int) -> int:
        """The leader of the Unit that a kernel joins: itself, unless it is an activation that
        alone reads the result of a convolution or linear layer and else only given values."""
        if KINDS[operator.target] != "activation":
            return position
        computed = [value for value in operator.inputs if value in self._maker]
        if len(computed) != 1 or computed[0] in self._graph.outputs:
            return position
        if self._readers[computed[0]] != [position]:
            return position
        maker = self._maker[computed[0]]
        return maker if KINDS[self._operators[maker].target] in _ACTIVATED else position

    def _computed_by(self, operator: Operator) -> int | None:
        """The leader of the last Unit that the operator reads from; None if it reads from none."""
        makers = [self._maker[value] for value in operator.inputs if value in self._maker]
        return max((self._leader[m] for m in makers if m in self._leader), default=None)
