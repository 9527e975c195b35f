"""Small graphs for tests: from adjacency lists, with real ATen operators, and at random."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from workers.graph.graph import Graph, Operator, TensorSpec, Unit, ValueRef

SIDE = 8
"""Every value of these graphs is a SIDE × SIDE float32 matrix."""

Dag = tuple[tuple[int, ...], ...]
"""For each Unit, in topological order, the positions of its predecessors."""


def graph_of(dag: Dag, name: str = "dag") -> Graph:
    """A graph that computes something on the CPU: Unit ``u<i>`` sums what it reads, multiplies
    it by the one weight ``w`` and takes the tanh; sources read the input ``x``."""
    spec = TensorSpec((SIDE, SIDE), "float32")
    values = {"x": spec, "w": spec}
    units = []
    for position, predecessors in enumerate(dag):
        inputs = tuple(f"u{before}" for before in predecessors) or ("x",)
        operators = []
        total = inputs[0]
        for number, other in enumerate(inputs[1:]):
            total = _call(operators, f"u{position}_sum{number}", "aten.add.Tensor", total, other)
        product = _call(operators, f"u{position}_mm", "aten.mm.default", total, "w")
        output = _call(operators, f"u{position}", "aten.tanh.default", product)
        values |= {operator.outputs[0]: spec for operator in operators}
        units.append(
            Unit(
                name=f"u{position}",
                kind="linear",
                operators=tuple(operators),
                inputs=inputs,
                weights=("w",),
                outputs=(output,),
                flops=2 * SIDE**3,
                bytes_moved=spec.nbytes * (len(inputs) + 2),
            )
        )
    read = {name for unit in units for name in unit.inputs}
    outputs = tuple(unit.name for unit in units if unit.name not in read)
    return Graph(name, ("x",), outputs, ("w",), values, tuple(units))


def _call(operators: list[Operator], name: str, target: str, *arguments: str) -> str:
    references = tuple(ValueRef(argument) for argument in arguments)
    operators.append(Operator(name, target, references, (), (name,)))
    return name


def dag_of(successors: Sequence[Sequence[int]]) -> Dag:
    """Predecessor lists from successor lists in topological order."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for unit, after in enumerate(successors):
        for successor in after:
            predecessors[successor].append(unit)
    return tuple(tuple(before) for before in predecessors)


def successors_of(dag: Dag) -> Dag:
    """Successor lists from predecessor lists."""
    return tuple(
        tuple(after for after, before in enumerate(dag) if unit in before)
        for unit in range(len(dag))
    )


def chain(length: int) -> Dag:
    return tuple((position - 1,) if position else () for position in range(length))


def wide(branches: int) -> Dag:
    """A source, ``branches`` independent Units, and one that joins them."""
    return ((), *((0,) for _ in range(branches)), tuple(range(1, branches + 1)))


DIAMOND: Dag = ((), (0,), (0,), (1, 2))


@st.composite
def dags(draw: st.DrawFn, max_units: int = 8) -> Dag:
    """Random DAGs in topological order, connected or not."""
    count = draw(st.integers(1, max_units))
    return tuple(
        tuple(before for before in range(position) if draw(st.integers(0, 3)) == 0)
        for position in range(count)
    )
