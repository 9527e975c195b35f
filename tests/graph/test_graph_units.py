"""Units of operators and Graphs of Units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import Dag, dags, graph_of

from workers.graph.graph import Graph, GraphError, Operator, TensorSpec, ValueRef
from workers.graph.units import make_unit, operator_units, regroup


def operator(name: str, target: str, *operands: str) -> Operator:
    return Operator(name, f"aten.{target}", tuple(ValueRef(v) for v in operands), (), (name,))


MATRIX = TensorSpec((4, 4), "float32")


def matrices(operators: list[Operator], outputs: tuple[str, ...]) -> Graph:
    """A graph of 4 × 4 matrices on the inputs ``x``, ``y`` and the weights ``w``, ``unread``."""
    names = ["x", "y", "w", "unread", *(v for o in operators for v in o.outputs)]
    return operator_units(
        name="g",
        inputs=("x", "y"),
        outputs=outputs,
        weights=("w", "unread"),
        values=dict.fromkeys([*names, "stranger"], MATRIX),
        operators=operators,
    )


def test_a_unit_reads_and_writes_only_what_crosses_it() -> None:
    values = dict.fromkeys("xtpyabw", MATRIX)
    unit = make_unit(
        [operator("t", "t.default", "x"), operator("p", "mm.default", "t", "w"),
         operator("a", "add.Tensor", "p", "y"), operator("b", "relu.default", "a")],
        values, {"w"}, {"b", "p", "elsewhere"},
    )  # fmt: skip
    assert (unit.name, unit.kind) == ("p", "matmul")
    assert (unit.inputs, unit.weights, unit.outputs) == (("x", "y"), ("w",), ("p", "b"))
    assert unit.flops == 2 * 4**3 + 16 + 16
    assert unit.bytes_moved == 5 * MATRIX.nbytes


def test_a_unit_without_kernels_is_named_by_its_first_operator() -> None:
    unit = make_unit([operator("t", "t.default", "x")], {"x": MATRIX, "t": MATRIX}, (), {"t"})
    assert (unit.name, unit.kind, unit.flops) == ("t", "view", 0)


def test_operator_units_leave_out_what_nobody_uses() -> None:
    graph = matrices(
        [operator("p", "mm.default", "x", "w"), operator("dead", "relu.default", "p")], ("p",)
    )
    assert graph.weights == ("w",)
    assert set(graph.values) == {"x", "y", "w", "p", "dead"}
    assert [unit.outputs for unit in graph.units] == [("p",), ()]


def test_a_weight_that_is_returned_stays() -> None:
    graph = matrices([operator("p", "relu.default", "x")], ("p", "unread"))
    assert graph.weights == ("unread",)


def test_regroup_orders_units_by_what_they_need() -> None:
    """b waits for c, which comes later: {a, b} moves behind {c}."""
    a, c = operator("a", "relu.default", "x"), operator("c", "tanh.default", "y")
    b = operator("b", "add.Tensor", "a", "c")
    graph = regroup(matrices([a, c, b], ("b",)), [[b, a], [c]])
    assert [unit.name for unit in graph.units] == ["c", "a"]
    assert graph.units[1].operators == (a, b)
    assert graph.units[1].inputs == ("x", "c")
    assert graph.units[1].outputs == ("b",)


def test_regroup_refuses_units_that_wait_for_each_other() -> None:
    a = operator("a", "relu.default", "x")
    b, c = operator("b", "tanh.default", "a"), operator("c", "relu.default", "b")
    with pytest.raises(GraphError, match=r"'[ab]' would wait"):
        regroup(matrices([a, b, c], ("c",)), [[a, c], [b]])


A, B = operator("a", "relu.default", "x"), operator("b", "tanh.default", "a")


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ([[A]], "lacks operator 'b'"),
        ([[A, B], [B]], "'b' of the partition is there twice"),
        ([[A], [B], [operator("z", "relu.default", "x")]], "'z' of the partition"),
        ([[operator("a", "tanh.default", "x")], [B]], "'a' of the partition"),
        ([[A], [], [B]], "has no operators"),
    ],
)
def test_regroup_refuses_what_is_no_partition(
    partition: list[list[Operator]], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        regroup(matrices([A, B], ("b",)), partition)


@given(dags())
def test_regroup_undoes_a_division_into_operators(dag: Dag) -> None:
    graph = graph_of(dag)
    apart = regroup(graph, [[operator] for operator in graph.operators])
    assert apart.operators == graph.operators
    together = regroup(apart, [unit.operators for unit in graph.units])
    for expected, unit in zip(graph.units, together.units, strict=True):
        assert (unit.operators, unit.inputs, unit.outputs) == (
            expected.operators, expected.inputs, expected.outputs,
        )  # fmt: skip


@given(dags(), st.data())
def test_regroup_gives_a_graph_or_says_why_not(dag: Dag, data: st.DataObject) -> None:
    """Any assignment of operators to Units either has a circle or becomes a valid Graph."""
    graph = graph_of(dag)
    count = len(graph.operators)
    chosen = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    groups: dict[int, list[Operator]] = {}
    for number, member in zip(chosen, graph.operators, strict=True):
        groups.setdefault(number, []).append(member)
    partition = list(groups.values())
    if _has_circle(partition):
        with pytest.raises(GraphError, match="would wait"):
            regroup(graph, partition)
    else:
        units = regroup(graph, partition).units
        assert {frozenset(unit.operators) for unit in units} == set(map(frozenset, partition))


def _has_circle(groups: list[list[Operator]]) -> bool:
    """By brute force: no group can ever run that reads only what ran before."""
    left, known = groups, {"x", "w"}
    while left:
        ready = [
            group
            for group in left
            if {v for o in group for v in o.inputs} - {v for o in group for v in o.outputs} <= known
        ]
        if not ready:
            return True
        known.update(v for group in ready for o in group for v in o.outputs)
        left = [group for group in left if group not in ready]
    return False
