"""Making Units of operators, and Graphs of Units."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence

from workers.graph.cost import bytes_of, flops
from workers.graph.graph import Graph, GraphError, Operator, TensorSpec, Unit
from workers.graph.operators import KINDS, is_kernel_free

# What a Unit is called after, if it holds one; otherwise anything but element-wise work.
_LAYERS = ("conv", "linear", "matmul", "attention")
_BESIDE_LAYERS = ("elementwise", "activation")


def leading_operator(operators: Sequence[Operator]) -> Operator:
    """What the Unit is about: its first convolution or product; failing that its first operator
    that is not element-wise, that launches a kernel, or that there is."""
    return min(operators, key=lambda operator: _rank(operator.target))


def _rank(target: str) -> int:
    kind = KINDS[target]
    if kind in _LAYERS:
        return 0
    if is_kernel_free(target):
        return 3
    return 2 if kind in _BESIDE_LAYERS else 1


def make_unit(
    operators: Sequence[Operator],
    values: Mapping[str, TensorSpec],
    weights: Collection[str],
    read_outside: Collection[str],
) -> Unit:
    """The Unit of ``operators``, which stand in execution order.

    It takes name and kind of its leading operator. Its outputs are the values that it computes and
    that are in ``read_outside``: those that another Unit reads or the graph returns.
    """
    leading = leading_operator(operators)
    computed = dict.fromkeys(name for operator in operators for name in operator.outputs)
    read = dict.fromkeys(name for operator in operators for name in operator.inputs)
    inputs = tuple(name for name in read if name not in computed and name not in weights)
    constants = tuple(name for name in read if name in weights)
    outputs = tuple(name for name in computed if name in read_outside)
    return Unit(
        name=leading.name,
        kind=KINDS[leading.target],
        operators=tuple(operators),
        inputs=inputs,
        weights=constants,
        outputs=outputs,
        flops=sum(flops(operator, values) for operator in operators),
        bytes_moved=bytes_of((*inputs, *constants, *outputs), values),
    )


def operator_units(
    *,
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    weights: Sequence[str],
    values: Mapping[str, TensorSpec],
    operators: Sequence[Operator],
) -> Graph:
    """The Graph in which every operator is a Unit of its own, in the order given.

    Weights that nobody reads, and specifications of values that nobody computes, are left out.
    """
    return _assemble(name, inputs, outputs, weights, values, [[o] for o in operators])


def regroup(graph: Graph, partition: Sequence[Sequence[Operator]]) -> Graph:
    """The same computation with the Units that ``partition`` names.

    The operators of a Unit run in the graph's order; the Units stand in the topological order that
    keeps closest to it. Raises GraphError if the partition does not hold every operator of the
    graph exactly once, or if two of its Units would have to wait for each other.
    """
    position = {operator.name: number for number, operator in enumerate(graph.operators)}
    groups = [sorted(group, key=lambda o: position.get(o.name, -1)) for group in partition]
    _check_partition(graph, groups)
    return _assemble(
        graph.name,
        graph.inputs,
        graph.outputs,
        graph.weights,
        graph.values,
        _in_topological_order(groups, position),
    )


def _assemble(
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    weights: Sequence[str],
    values: Mapping[str, TensorSpec],
    groups: Sequence[Sequence[Operator]],
) -> Graph:
    returned = set(outputs)
    readers: dict[str, set[int]] = {}
    for number, group in enumerate(groups):
        for operator in group:
            for value in operator.inputs:
                readers.setdefault(value, set()).add(number)
    read_weights = tuple(w for w in weights if w in readers or w in returned)
    known = set(read_weights)
    units = []
    for number, group in enumerate(groups):
        read_outside = {
            value
            for operator in group
            for value in operator.outputs
            if value in returned or readers.get(value, set()) - {number}
        }
        units.append(make_unit(group, values, known, read_outside))
    defined = [*inputs, *read_weights]
    defined += [value for group in groups for o in group for value in o.outputs]
    return Graph(
        name=name,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        weights=read_weights,
        values={value: values[value] for value in defined if value in values},
        units=tuple(units),
    )


def _check_partition(graph: Graph, groups: Sequence[Sequence[Operator]]) -> None:
    left = {operator.name: operator for operator in graph.operators}
    for group in groups:
        if not group:
            raise GraphError("a unit of the partition has no operators")
        for operator in group:
            if left.pop(operator.name, None) != operator:
                raise GraphError(
                    f"operator {operator.name!r} of the partition is there twice or is not one of"
                    f" graph {graph.name!r}"
                )
    if left:
        raise GraphError(f"the partition lacks operator {next(iter(left))!r}")


def _in_topological_order(
    groups: Sequence[Sequence[Operator]], position: Mapping[str, int]
) -> list[Sequence[Operator]]:
    """Kahn's algorithm; of the groups that are ready, the one whose leading operator stands first
    comes first."""
    standing = [position[leading_operator(group).name] for group in groups]
    maker = {v: number for number, group in enumerate(groups) for o in group for v in o.outputs}
    before = [
        {maker[value] for o in group for value in o.inputs if value in maker} - {number}
        for number, group in enumerate(groups)
    ]
    after: list[list[int]] = [[] for _ in groups]
    for number, predecessors in enumerate(before):
        for predecessor in predecessors:
            after[predecessor].append(number)
    waiting_for = [len(predecessors) for predecessors in before]
    ready = [(standing[n], n) for n, predecessors in enumerate(before) if not predecessors]
    heapq.heapify(ready)
    order = []
    while ready:
        _, number = heapq.heappop(ready)
        order.append(number)
        for successor in after[number]:
            waiting_for[successor] -= 1
            if not waiting_for[successor]:
                heapq.heappush(ready, (standing[successor], successor))
    if len(order) < len(groups):
        stuck = next(number for number, count in enumerate(waiting_for) if count)
        raise GraphError(
            f"the unit of operator {groups[stuck][0].name!r} would wait for a unit that waits for"
            " it; put the operators between them into the same unit or take them apart"
        )
    return [groups[number] for number in order]
