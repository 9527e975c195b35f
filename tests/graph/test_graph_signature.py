"""Signatures tell structures apart and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import Dag, chain, dags, graph_of

from workers.graph.graph import Argument, DtypeRef, Graph, Operator, TensorSpec, Unit, ValueRef
from workers.graph.signature import signature
from workers.graph.units import operator_units


def renamed(graph: Graph, prefix: str) -> Graph:
    """The same graph with every Unit, operator and value called something else."""

    def argument(value: Argument) -> Argument:
        if isinstance(value, ValueRef):
            return ValueRef(prefix + value.name)
        return tuple(map(argument, value)) if isinstance(value, tuple) else value

    def names(given: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(prefix + name for name in given)

    def operator(old: Operator) -> Operator:
        return replace(
            old,
            name=prefix + old.name,
            arguments=tuple(map(argument, old.arguments)),
            outputs=names(old.outputs),
        )

    def unit(old: Unit) -> Unit:
        return replace(
            old,
            name=prefix + old.name,
            operators=tuple(map(operator, old.operators)),
            inputs=names(old.inputs),
            weights=names(old.weights),
            outputs=names(old.outputs),
        )

    return Graph(
        name=prefix,
        inputs=names(graph.inputs),
        outputs=names(graph.outputs),
        weights=names(graph.weights),
        values={prefix + name: spec for name, spec in reversed(graph.values.items())},
        units=tuple(map(unit, graph.units)),
    )


@given(dags(), st.sampled_from(["other_", "v", "x0", "w"]))
def test_names_do_not_count(dag: Dag, prefix: str) -> None:
    graph = graph_of(dag)
    everything = range(len(graph.units))
    assert signature(graph, everything) == signature(renamed(graph, prefix), everything)


@given(dags(max_units=5), dags(max_units=5))
def test_equal_signatures_mean_equal_edges(one: Dag, other: Dag) -> None:
    first, second = graph_of(one), graph_of(other)
    equal = signature(first, range(len(one))) == signature(second, range(len(other)))
    assert equal == (one == other)


@given(dags(max_units=6), st.data())
def test_any_change_of_shape_or_type_counts(dag: Dag, data: st.DataObject) -> None:
    graph = graph_of(dag)
    name = data.draw(st.sampled_from(sorted(graph.values)))
    spec = data.draw(
        st.sampled_from([TensorSpec((8, 9), "float32"), TensorSpec((8, 8), "float16")])
    )
    changed = replace(graph, values={**graph.values, name: spec})
    used = {n for unit in graph.units for o in unit.operators for n in (*o.inputs, *o.outputs)}
    everything = range(len(graph.units))
    assert (signature(graph, everything) != signature(changed, everything)) == (name in used)


def test_where_the_units_stand_does_not_count() -> None:
    """A chain's middle Units all read one value and are read by one Unit."""
    graph = graph_of(chain(6))
    assert signature(graph, [1]) == signature(graph, [3])
    assert signature(graph, [1, 2]) == signature(graph, [3, 4])
    assert signature(graph, [1]) != signature(graph, [1, 2])


def test_the_order_of_the_units_counts() -> None:
    """Position by position: Unit 0 reads one value, Unit 1 two."""
    graph = graph_of(((), (), (0,), (0, 1)))
    assert signature(graph, [2, 3]) != signature(graph, [3, 2])


def test_the_last_unit_is_read_outside_as_much_as_one_in_the_middle() -> None:
    graph = graph_of(chain(3))
    assert signature(graph, [1]) == signature(graph, [2])


def operators(*calls: Operator, outputs: tuple[str, ...] | None = None) -> Graph:
    spec = TensorSpec((4, 4), "float32")
    computed = [name for call in calls for name in call.outputs]
    return operator_units(
        name="g",
        inputs=("x", "y"),
        outputs=outputs or (computed[-1],),
        weights=("w", "u"),
        values=dict.fromkeys(["x", "y", "w", "u", *computed], spec),
        operators=calls,
    )


def call(name: str, target: str, *arguments: Argument, **keywords: Argument) -> Operator:
    return Operator(
        name,
        f"aten.{target}",
        tuple(ValueRef(a) if isinstance(a, str) else a for a in arguments),
        tuple(keywords.items()),
        (name,),
    )


ADD = operators(call("a", "add.Tensor", "x", "y"))


@pytest.mark.parametrize(
    "other",
    [
        operators(call("a", "sub.Tensor", "x", "y")),
        operators(call("a", "add.Tensor", "x", "x")),
        operators(call("a", "add.Tensor", "x", "w")),
        operators(call("a", "add.Tensor", "x", "y", alpha=2)),
        operators(call("a", "add.Tensor", "x", "y", alpha=2.0)),
        operators(call("a", "add.Tensor", "x", "y", alpha=True)),
        operators(call("a", "add.Tensor", "x", "y", alpha=(2,))),
        operators(call("a", "add.Tensor", "x", "y", alpha=None)),
        operators(call("a", "add.Tensor", "x", "y", alpha=DtypeRef("float32"))),
        operators(call("a", "add.Tensor", "x", "y", beta=2)),
        operators(call("a", "add.Tensor", ("x", "y"))),
    ],
)
def test_operators_and_arguments_count(other: Graph) -> None:
    assert signature(other, [0]) != signature(ADD, [0])


def test_two_inputs_changing_places_is_a_renaming() -> None:
    assert signature(operators(call("a", "add.Tensor", "y", "x")), [0]) == signature(ADD, [0])


def test_the_order_of_keywords_does_not_count() -> None:
    one = operators(call("a", "add.Tensor", "x", "y", alpha=2, out=None))
    other = operators(call("a", "add.Tensor", "x", "y", out=None, alpha=2))
    assert signature(one, [0]) == signature(other, [0])


def test_sharing_a_value_from_outside_counts() -> None:
    shared = operators(call("a", "relu.default", "x"), call("b", "tanh.default", "x"))
    apart = operators(call("a", "relu.default", "x"), call("b", "tanh.default", "y"))
    assert signature(shared, [0, 1]) != signature(apart, [0, 1])


def test_sharing_a_weight_counts() -> None:
    first = call("a", "mm.default", "x", "w")
    shared = operators(first, call("b", "mm.default", "a", "w"))
    apart = operators(first, call("b", "mm.default", "a", "u"))
    assert signature(shared, [0, 1]) != signature(apart, [0, 1])


def test_being_read_outside_counts() -> None:
    calls = call("a", "relu.default", "x"), call("b", "tanh.default", "a")
    assert signature(operators(*calls), [0, 1]) != signature(
        operators(*calls, outputs=("a", "b")), [0, 1]
    )


def test_being_read_by_a_later_unit_is_being_read_outside() -> None:
    calls = call("a", "relu.default", "x"), call("b", "tanh.default", "a")
    returned = operators(*calls, outputs=("a", "b"))
    read = operators(*calls, call("c", "add.Tensor", "a", "b"))
    assert signature(returned, [0, 1]) == signature(read, [0, 1])


def test_a_signature_is_the_same_in_every_process() -> None:
    """Profiles are kept under it: a change of this value orphans them."""
    assert signature(ADD, [0]) == "79328b551218d30bea6761ddccdf5462"
