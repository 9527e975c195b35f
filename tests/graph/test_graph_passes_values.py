"""Passes that change which operators and weights a graph has: folding, merging, arithmetic."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pass_graphs import Weights, assert_same, call, graph_of_calls, random_graphs, targets
from torch import Tensor

from workers.graph.graph import DtypeRef, Graph, TensorSpec, ValueRef
from workers.graph.interpreter import run_graph
from workers.graph.passes import constants, optimise
from workers.graph.passes.constants import fold_constants
from workers.graph.passes.deduplicate import deduplicate_weights
from workers.graph.passes.identities import drop_identities
from workers.graph.passes.products import linear_from_product
from workers.graph.passes.subexpressions import merge_common_subexpressions

X, W, A = ValueRef("x"), ValueRef("w"), ValueRef("a")


def unchanged(graph: Graph, weights: Weights, after: Graph) -> list[str]:
    """The operators left after a pass that needs no weights, after checking their values."""
    assert_same((graph, weights), (after, {name: weights[name] for name in after.weights}))
    return targets(after)


# Constants


def test_what_reads_only_weights_and_numbers_becomes_a_weight() -> None:
    graph, weights = graph_of_calls(
        [
            call("r", "arange.default", 4, dtype=DtypeRef("float32")),
            call("m", "mul.Tensor", ValueRef("r"), 2),
            call("t", "t.default", W),
            call("p", "mm.default", X, ValueRef("t")),
            call("y", "add.Tensor", ValueRef("p"), ValueRef("m")),
        ],
        outputs=("y",),
    )
    after = fold_constants(graph, weights)
    assert targets(after[0]) == ["mm", "add"]
    assert set(after[0].weights) == {"t", "m"}
    assert torch.equal(after[1]["m"], torch.arange(4) * 2.0)
    assert after[1]["t"].is_contiguous()
    assert not after[1]["t"].is_inference()
    assert after[1]["t"].untyped_storage().data_ptr() != weights["w"].untyped_storage().data_ptr()
    assert_same((graph, weights), after, 1e-5)  # a product with a transpose rounds otherwise
    assert fold_constants(*after)[0] == after[0]


def test_a_constant_that_the_graph_returns_stays() -> None:
    graph, weights = graph_of_calls([call("t", "t.default", W)], outputs=("t",))
    assert targets(fold_constants(graph, weights)[0]) == ["t"]


def test_random_operators_stay() -> None:
    graph, weights = graph_of_calls(
        [
            call("d", "dropout.default", W, 0.5, True),
            call("e", "dropout.default", W, 0.5, True),
            call("y", "add.Tensor", ValueRef("d"), ValueRef("e")),
        ],
        outputs=("y",),
    )
    assert targets(fold_constants(graph, weights)[0]) == ["dropout", "dropout", "add"]
    assert targets(merge_common_subexpressions(graph)) == ["dropout", "dropout", "add"]


def test_a_result_much_larger_than_its_operands_is_not_stored() -> None:
    size = constants.LARGEST_GROWTH // 4
    graph, weights = graph_of_calls(
        [
            call("f", "full.default", (size + 1,), 1.0),
            call("g", "full.default", (size,), 1.0),
            call("s", "sum.default", ValueRef("f")),
            call("u", "sum.default", ValueRef("g")),
            call("v", "add.Tensor", ValueRef("s"), ValueRef("u")),
            call("y", "add.Tensor", X, ValueRef("v")),
        ],
        outputs=("y",),
        shapes={"f": (size + 1,), "g": (size,), "s": (), "u": (), "v": ()},
    )
    after = fold_constants(graph, weights)
    assert targets(after[0]) == ["full", "sum", "add", "add"]
    assert after[0].weights == ("u",)
    assert_same((graph, weights), after)


def test_folded_results_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "LARGEST_TOTAL_GROWTH", 200)
    names = [f"c{number}" for number in range(5)]
    graph, weights = graph_of_calls(
        [
            *(call(name, "full.default", (4, 4), float(n)) for n, name in enumerate(names)),
            call("y", "stack.default", (X, *map(ValueRef, names))),
        ],
        outputs=("y",),
        shapes={"y": (6, 4, 4)},
    )
    after = fold_constants(graph, weights)
    assert targets(after[0]) == ["full", "full", "stack"]  # 64 bytes each, three fit
    assert_same((graph, weights), after)


def test_a_weight_in_use_counts_against_its_transpose() -> None:
    """Folding a view of a large weight that something else reads would store it twice."""
    side = 1100  # 4.6 MiB
    calls = [
        call("t", "t.default", ValueRef("big")),
        call("p", "mm.default", ValueRef("wide"), ValueRef("t")),
        call("q", "mm.default", ValueRef("wide"), ValueRef("big")),
    ]
    shapes = dict.fromkeys(("big", "t"), (side, side)) | dict.fromkeys("pq", (1, side))
    for last, kept in ((1, 0), (2, 1)):
        graph, weights = graph_of_calls(
            calls[: last + 1],
            outputs=("p", "q")[:last],
            inputs={"wide": (1, side)},
            weights={"big": (side, side)},
            shapes=shapes,
        )
        after, _ = fold_constants(graph, weights)
        assert targets(after).count("t") == kept


# Equal weights


def test_weights_that_are_equal_bit_for_bit_become_one() -> None:
    graph, _ = graph_of_calls(
        [call(f"v{n}", "add.Tensor", X, ValueRef(name)) for n, name in enumerate("abcde")]
        + [call("y", "stack.default", tuple(ValueRef(f"v{n}") for n in range(5)))],
        outputs=("y",),
        weights=dict.fromkeys("abcd", (4, 4)) | {"e": (16,)},
        shapes={"y": (5, 4, 4)},
    )
    zero = torch.zeros(4, 4)
    weights = {"a": zero, "b": zero.clone(), "c": -zero, "d": zero.t() + math.nan, "e": zero}
    after, left = deduplicate_weights(graph, weights)
    assert after.weights == ("a", "c", "d", "e") == tuple(left)
    assert after.operators[1].inputs == ("x", "a")
    nans = {**weights, "a": weights["d"].clone()}
    assert deduplicate_weights(graph, nans)[0].weights == ("a", "b", "c", "e")


def test_a_weight_that_is_returned_keeps_its_name() -> None:
    graph, _ = graph_of_calls(
        [call("y", "add.Tensor", A, ValueRef("b"))],
        outputs=("y", "b"),
        weights=dict.fromkeys("ab", (4, 4)),
    )
    weights = dict.fromkeys("ab", torch.ones(4, 4))
    assert deduplicate_weights(graph, weights)[0].weights == ("a", "b")


# Common subexpressions


def test_equal_calls_are_computed_once() -> None:
    graph, weights = graph_of_calls(
        [
            call("a", "tanh.default", X),
            call("b", "tanh.default", X),
            call("c", "mul.Tensor", A, 2),
            call("d", "mul.Tensor", ValueRef("b"), 2),
            call("y", "add.Tensor", ValueRef("c"), ValueRef("d")),
        ],
        outputs=("y",),
    )
    after = merge_common_subexpressions(graph)
    assert unchanged(graph, weights, after) == ["tanh", "mul", "add"]
    assert after.operators[-1].arguments == (ValueRef("c"), ValueRef("c"))


@pytest.mark.parametrize(("first", "second"), [(1, 1.0), (1, True), (0.0, -0.0)])
def test_numbers_that_only_python_calls_equal_stay_apart(first: float, second: float) -> None:
    graph, _ = graph_of_calls(
        [
            call("a", "add.Tensor", X, first),
            call("b", "add.Tensor", X, second),
            call("y", "maximum.default", A, ValueRef("b")),
        ],
        outputs=("y",),
    )
    assert len(merge_common_subexpressions(graph).operators) == 3


def test_names_of_outputs_outlive_merging() -> None:
    graph, weights = graph_of_calls(
        [
            call("a", "tanh.default", X),
            call("b", "tanh.default", X),
            call("c", "tanh.default", X),
            call("y", "stack.default", (A, ValueRef("b"), ValueRef("c"))),
            call("z", "relu.default", ValueRef("c")),
            call("u", "relu.default", A),
            call("v", "add.Tensor", ValueRef("z"), ValueRef("u")),
        ],
        outputs=("b", "c", "y", "v"),
        shapes={"y": (3, 4, 4)},
    )
    after = merge_common_subexpressions(graph)
    assert unchanged(graph, weights, after) == ["tanh", "tanh", "stack", "relu", "add"]
    assert merge_common_subexpressions(after) == after


def test_activations_that_start_a_convolution_stay_apart() -> None:
    def network(shared: bool) -> Graph:
        first, second = call("a", "relu.default", X), call("b", "relu.default", X)
        convolutions = [
            call("c", "conv1d.default", A, W, None, (1,), (0,), (1,), 1),
            call("d", "conv1d.default", A if shared else ValueRef("b"), W, None, (2,), (0,)),
        ]
        return graph_of_calls(
            [first, second, *convolutions],
            outputs=("c", "d") if not shared else ("c", "d", "b"),
            inputs={"x": (1, 4, 4)},
            weights={"w": (4, 4, 1)},
            shapes={"a": (1, 4, 4), "b": (1, 4, 4), "c": (1, 4, 4), "d": (1, 4, 2)},
        )[0]

    assert targets(merge_common_subexpressions(network(False))).count("relu") == 2
    assert targets(merge_common_subexpressions(network(True))).count("relu") == 1


# Arithmetic


@pytest.mark.parametrize(
    ("target", "arguments", "dtype", "result", "gone"),
    [
        ("mul.Tensor", (X, 1), "float32", "float32", True),
        ("mul.Tensor", (X, 1.0), "float32", "float32", True),
        ("mul.Tensor", (X, 1.0), "int64", "float32", False),
        ("mul.Tensor", (X, True), "float32", "float32", False),
        ("mul.Tensor", (X, 2), "float32", "float32", False),
        ("div.Tensor", (X, 1), "float32", "float32", True),
        ("div.Tensor", (X, 1), "int64", "float32", False),
        ("pow.Tensor_Scalar", (X, 1), "float32", "float32", True),
        ("sub.Tensor", (X, 0), "float32", "float32", True),
        ("sub.Tensor", (X, -0.0), "float32", "float32", False),
        ("add.Tensor", (X, 0), "float32", "float32", False),
        ("add.Tensor", (X, -0.0), "float32", "float32", True),
        ("add.Tensor", (X, 0), "int64", "int64", True),
        ("sub.Tensor", (X, 0), "int64", "int64", True),
    ],
)
def test_arithmetic_goes_only_where_it_changes_no_bit(
    target: str, arguments: tuple[object, ...], dtype: str, result: str, gone: bool
) -> None:
    graph, _ = graph_of_calls(
        [call("a", target, *arguments), call("y", "neg.default", A)],
        outputs=("y",),
        inputs={"x": (4, 4)},
        dtypes={"x": dtype, "a": result, "y": result},
    )
    after = drop_identities(graph)
    assert (len(after.operators) == 1) == gone
    zeros = torch.tensor([0.0, -0.0] * 8).reshape(4, 4).to(getattr(torch, dtype))
    for inputs in ({"x": zeros}, {"x": torch.arange(-8, 8).reshape(4, 4).to(zeros.dtype)}):
        (before,), (found,) = (
            run_graph(graph, {}, inputs).values(),
            run_graph(after, {}, inputs).values(),
        )
        assert found.dtype == before.dtype
        assert torch.equal(1 / found, 1 / before)  # which tells -0 from +0


def test_a_factor_is_part_of_the_sum_that_it_scales() -> None:
    graph, _ = graph_of_calls([call("y", "add.Tensor", X, 0, alpha=2)], outputs=("y",))
    assert len(drop_identities(graph).operators) == 1


# Products


def test_a_product_with_a_weight_and_a_sum_is_a_linear_layer() -> None:
    graph, weights = graph_of_calls(
        [
            call("p", "matmul.default", X, W),
            call("q", "add.Tensor", ValueRef("b"), ValueRef("p")),
            call("y", "gelu.default", ValueRef("q")),
        ],
        outputs=("y",),
        inputs={"x": (2, 3, 5)},
        weights={"w": (5, 6), "b": (6,)},
        shapes=dict.fromkeys("pqy", (2, 3, 6)),
    )
    product = linear_from_product(graph, weights)
    assert targets(product[0]) == ["linear", "add", "gelu"]
    assert product[0].values["w"].shape == product[1]["w"].shape == (6, 5)
    assert_same((graph, weights), product, 1e-5)
    after = optimise(graph, weights)
    assert targets(after[0]) == ["linear", "gelu"]
    assert [unit.kind for unit in after[0].units] == ["linear"]
    assert_same((graph, weights), after, 1e-5)


@pytest.mark.parametrize(
    ("left", "right", "shapes"),
    [
        (X, ValueRef("z"), {}),
        (W, X, {}),
        (W, W, {}),
        (X, W, {"y": (2, 4, 4), "w": (2, 4, 4)}),
        (X, W, {"x": (4,), "y": (4,)}),
    ],
    ids=["computed", "from the left", "both", "a batch of matrices", "a vector"],
)
def test_other_products_stay(
    left: ValueRef, right: ValueRef, shapes: dict[str, tuple[int, ...]]
) -> None:
    graph, weights = graph_of_calls(
        [call("y", "matmul.default", left, right)],
        outputs=("y",),
        inputs={"x": shapes.get("x", (4, 4)), "z": (4, 4)},
        weights={"w": shapes.get("w", (4, 4))},
        shapes={"y": shapes.get("y", (4, 4))},
    )
    assert linear_from_product(graph, weights)[0] == graph


def test_a_matrix_that_something_else_reads_stays() -> None:
    graph, weights = graph_of_calls(
        [
            call("p", "mm.default", X, W),
            call("y", "mm.default", ValueRef("p"), W),
        ],
        outputs=("y",),
    )
    assert linear_from_product(graph, weights)[0] == graph


# Large graphs


def test_five_thousand_operators_take_seconds() -> None:
    """Less than one here; a quadratic scan would take minutes."""
    calls = []
    last = "x"
    for number in range(1000):
        fork = [call(f"{number}_{side}", "mm.default", ValueRef(last), W) for side in "ab"]
        calls += fork
        calls += [
            call(f"{operator.name}t", "tanh.default", ValueRef(operator.name)) for operator in fork
        ]
        last = f"{number}"
        calls.append(call(last, "add.Tensor", ValueRef(f"{number}_at"), ValueRef(f"{number}_bt")))
    graph, weights = graph_of_calls(calls, outputs=(last,))
    started = time.perf_counter()
    after, _ = optimise(graph, weights, merge_common=False)
    assert time.perf_counter() - started < 20
    assert len(after.units) == 3000


# All of them on any graph


def _fold(graph: Graph, weights: Weights) -> tuple[Graph, Mapping[str, Tensor]]:
    return fold_constants(graph, weights)


def _merge(graph: Graph, weights: Weights) -> tuple[Graph, Mapping[str, Tensor]]:
    after = merge_common_subexpressions(graph)
    return after, {name: weights[name] for name in after.weights}


def _drop(graph: Graph, weights: Weights) -> tuple[Graph, Mapping[str, Tensor]]:
    after = drop_identities(graph)
    return after, {name: weights[name] for name in after.weights}


def _deduplicate(graph: Graph, weights: Weights) -> tuple[Graph, Mapping[str, Tensor]]:
    return deduplicate_weights(graph, weights)


def _product(graph: Graph, weights: Weights) -> tuple[Graph, Mapping[str, Tensor]]:
    return linear_from_product(graph, weights)


@pytest.mark.parametrize("rewrite", [_fold, _merge, _drop, _deduplicate, _product])
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_any_graph_keeps_its_values_and_a_second_time_changes_nothing(
    rewrite: object, data: st.DataObject
) -> None:
    assert callable(rewrite)
    graph, weights = data.draw(random_graphs())
    after = rewrite(graph, weights)
    assert_same((graph, weights), after, 1e-9)
    again = rewrite(*after)
    assert again[0] == after[0]
    assert again[1].keys() == after[1].keys()
    assert len(after[0].operators) <= len(graph.operators)


def test_every_value_keeps_its_specification() -> None:
    graph, weights = graph_of_calls([call("y", "add.Tensor", X, W)], outputs=("y",))
    after, _ = fold_constants(graph, weights)
    assert after.values["y"] == TensorSpec((4, 4), "float32")
