"""What compiled Units compute, and that they leave alone what is not theirs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from support.graphs import Dag, dags, graph_of
from torch import Tensor

from workers.graph.graph import (
    Argument,
    DtypeRef,
    Graph,
    GraphError,
    Operator,
    TensorSpec,
    ValueRef,
)
from workers.graph.interpreter import compile_unit, run_graph
from workers.graph.random_inputs import random_inputs
from workers.graph.units import operator_units, regroup

X = ValueRef("x")


def call(
    name: str, target: str, *arguments: Argument, outputs: int = 0, **keywords: Argument
) -> Operator:
    names = tuple(f"{name}.{i}" for i in range(outputs)) or (name,)
    return Operator(name, f"aten.{target}", arguments, tuple(keywords.items()), names)


def one_unit(operators: list[Operator], outputs: tuple[str, ...], **weights: Tensor) -> Graph:
    """A graph of one Unit over a 2 × 4 input ``x``; shapes of results play no part here."""
    spec = TensorSpec((2, 4), "float32")
    values = {name: spec for o in operators for name in (*o.outputs, *o.inputs)}
    graph = operator_units(
        name="test",
        inputs=("x",),
        outputs=outputs,
        weights=tuple(weights),
        values=values,
        operators=operators,
    )
    return regroup(graph, [operators])


def run(graph: Graph, x: Tensor, **weights: Tensor) -> list[Tensor]:
    return list(run_graph(graph, weights, {"x": x}).values())


@given(dags())
def test_a_graph_computes_what_its_operators_say(dag: Dag) -> None:
    graph = graph_of(dag)
    weight = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)) / 3
    inputs = random_inputs(graph, 1)
    results: list[Tensor] = []
    for before in dag:
        total = sum((results[i] for i in before[1:]), results[before[0]] if before else inputs["x"])
        results.append(torch.tanh(total @ weight))
    found = run_graph(graph, {"w": weight}, inputs)
    assert tuple(found) == graph.outputs
    for name, tensor in found.items():
        assert torch.equal(tensor, results[int(name.removeprefix("u"))])


def test_an_activation_overwrites_a_fresh_value_that_it_alone_reads() -> None:
    operators = [
        call("l", "linear.default", X, ValueRef("w")),
        call("r", "relu.default", ValueRef("l")),
    ]
    graph = one_unit(operators, ("r",), w=torch.eye(4))
    compiled = compile_unit(graph, graph.units[0], {"w": torch.eye(4)})
    x = torch.tensor([[-1.0, 2.0, -3.0, 4.0]])
    (result,) = compiled.function(x)
    assert result.tolist() == [[0.0, 2.0, 0.0, 4.0]]
    assert x.tolist() == [[-1.0, 2.0, -3.0, 4.0]]
    assert any(bound is torch.relu_ for bound in compiled.function.__globals__.values())


@pytest.mark.parametrize(
    ("operators", "outputs"),
    [
        ([call("r", "relu.default", X)], ("r",)),
        ([call("v", "reshape.default", X, (4, 2)), call("r", "relu.default", ValueRef("v"))],
         ("r",)),
        ([call("l", "linear.default", X, ValueRef("w")),
          call("r", "relu.default", ValueRef("l"))], ("l", "r")),
        ([call("l", "linear.default", X, ValueRef("w")),
          call("r", "relu.default", ValueRef("l")),
          call("n", "neg.default", ValueRef("l"))], ("r", "n")),
        ([call("p", "channel_shuffle.default", X, 1),
          call("r", "relu.default", ValueRef("p"))], ("r",)),
    ],
    ids=["input", "view of an input", "output", "two readers", "may be its operand"],
)  # fmt: skip
def test_an_activation_overwrites_nothing_else(
    operators: list[Operator], outputs: tuple[str, ...]
) -> None:
    graph = one_unit(operators, outputs, w=torch.eye(4))
    compiled = compile_unit(graph, graph.units[0], {"w": torch.eye(4)})
    x = -torch.ones(2, 4, 1, 1) if operators[0].name == "p" else -torch.ones(2, 4)
    results = dict(zip(compiled.outputs, compiled.function(x), strict=True))
    assert (x == -1).all()
    assert (results["r"] == 0).all()
    if "l" in results:
        assert (results["l"] == -1).all()
    if "n" in results:
        assert (results["n"] == 1).all()


def test_results_of_several_tensors_are_taken_apart() -> None:
    graph = one_unit(
        [
            call("s", "split.Tensor", X, 4, 1, outputs=1),
            call("m", "max.dim", ValueRef("s.0"), 1, outputs=2),
        ],
        ("m.0", "m.1"),
    )
    x = torch.tensor([[1.0, 5.0, 2.0, 0.0], [7.0, 1.0, 2.0, 3.0]])
    assert [t.tolist() for t in run(graph, x)] == [[5.0, 7.0], [1, 0]]


def test_arguments_of_every_kind_reach_torch() -> None:
    graph = one_unit(
        [
            call("c", "cat.default", (X, X, ValueRef("w")), 0),
            call("d", "_to_copy.default", ValueRef("c"), dtype=DtypeRef("float64")),
            call("k", "clamp.default", ValueRef("d"), None, float("inf")),
            call("e", "div.Tensor_mode", ValueRef("k"), 2, rounding_mode="floor"),
            call("t", "std.correction", ValueRef("e"), (0,), correction=0, keepdim=True),
        ],
        ("t",),
        w=torch.full((1, 4), 9.0),
    )  # fmt: skip
    x = torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]])
    stacked = torch.cat([x, x, torch.full((1, 4), 9.0)]).double()
    expected = torch.std((stacked / 2).floor(), 0, correction=0, keepdim=True)
    (found,) = run(graph, x, w=torch.full((1, 4), 9.0))
    assert found.dtype is torch.float64
    assert torch.equal(found, expected)


def test_a_keyword_that_is_no_name_is_refused() -> None:
    operator = Operator("r", "aten.relu.default", (X,), (("a): import os; (b", 1),), ("r",))
    graph = one_unit([operator], ("r",))
    with pytest.raises(GraphError, match="import os"):
        compile_unit(graph, graph.units[0], {})
