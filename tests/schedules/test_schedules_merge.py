"""Operator merge, against what the original graph computes and against brute force."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, graph_of
from support.pass_graphs import call, graph_of_calls
from support.schedules import random_stream_schedule, sequential
from torch import Tensor

from workers import zoo
from workers.graph.graph import Graph, Operator, TensorSpec, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.interpreter import run_graph
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs
from workers.graph.serialize import graph_from_json, graph_to_json
from workers.graph.units import regroup
from workers.schedules.lower import lower
from workers.schedules.merge import merge_graph, merge_stages
from workers.schedules.mergeable import mergeable
from workers.schedules.schedule import ScheduleError, Stage, StageSchedule
from workers.schedules.validate import validate
from workers.zoo.inception_v3 import Grid8

X, Y, Z, A, B, P, Q = (ValueRef(name) for name in "xyzabpq")
V0 = ValueRef("v0")
Weights = Mapping[str, Tensor]


def schedule_with(graph: Graph, *merges: Sequence[str]) -> StageSchedule:
    """Sequential, but for the Units that are merged, each group where its first Unit was."""
    stages = []
    for unit in graph.units:
        merge = next((names for names in merges if unit.name in names), None)
        if merge is None:
            stages.append(Stage(((unit.name,),)))
        elif unit.name == min(merge, key=graph.index.__getitem__):
            stages.append(Stage((tuple(merge),), "merge"))
    return StageSchedule("test", tuple(stages))


def check_same(graph: Graph, weights: Weights, *merges: Sequence[str]) -> Graph:
    """Merge, and hold the result to what the original computes; the new graph."""
    schedule = schedule_with(graph, *merges)
    merged = merge_stages(schedule, graph, weights)
    alone = merge_graph(schedule, graph)
    assert (merged.graph, merged.schedule) == (alone.graph, alone.schedule)
    assert set(merged.weights) == set(merged.graph.weights)
    for name, tensor in merged.weights.items():
        spec = TensorSpec(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        assert spec == merged.graph.values[name]
    validate(lower(merged.schedule, merged.graph, 2), merged.graph)
    assert graph_from_json(graph_to_json(merged.graph)) == merged.graph
    inputs = random_inputs(graph, seed=7)
    expected = run_graph(graph, weights, inputs)
    for name, actual in run_graph(merged.graph, merged.weights, inputs).items():
        torch.testing.assert_close(actual, expected[name], rtol=1e-4, atol=1e-4)
    return merged.graph


def convolutions(
    image: Sequence[int], stride: Any, dilation: Any, *branches: tuple[Any, Any, bool]
) -> tuple[Graph, dict[str, Tensor]]:
    """Convolutions of (kernel, padding, with bias) over one input, with 2, 3, … filters."""
    calls, weights, shapes = [], {}, {}
    axes = len(image)
    for number, (kernel, padding, bias) in enumerate(branches):
        name, filters = f"c{number}", number + 2
        sizes = (kernel,) * axes if isinstance(kernel, int) else kernel
        weights[f"w{number}"] = (filters, 3, *sizes)
        given: list[Any] = [X, ValueRef(f"w{number}"), None]
        if bias:
            weights[f"b{number}"] = (filters,)
            given[2] = ValueRef(f"b{number}")
        tensors = [torch.empty(weights[f"w{number}"]), torch.empty(filters)]
        convolve = (torch.conv1d, torch.conv2d, torch.conv3d)[axes - 1]
        result = convolve(torch.empty(2, 3, *image), *tensors, stride, padding, dilation)
        numbers = (tuple(stride), tuple(padding), tuple(dilation), 1)
        calls.append(call(name, f"conv{axes}d.default", *given, *numbers))
        shapes[name] = tuple(result.shape)
    return graph_of_calls(
        calls,
        outputs=[operator.name for operator in calls],
        inputs={"x": (2, 3, *image)},
        weights=weights,
        shapes=shapes,
    )


def by_computing(
    size: int, stride: int, dilation: int, branches: Sequence[tuple[int, int]]
) -> bool:
    """Whether kernels (size, padding) on one axis all fit among zeros into one of the largest
    size: tries every padding of it and every place in it."""
    generator = torch.Generator().manual_seed(0)
    signal = torch.randn(1, 1, size, dtype=torch.float64, generator=generator)
    largest = max(kernel for kernel, _ in branches)
    wanted = []
    for kernel, padding in branches:
        taps = torch.randn(1, 1, kernel, dtype=torch.float64, generator=generator)
        wanted.append((taps, torch.conv1d(signal, taps, None, stride, padding, dilation)))

    def fits(taps: Tensor, result: Tensor, padding: int) -> bool:
        for place in range(largest - taps.shape[2] + 1):
            wide = torch.zeros(1, 1, largest, dtype=torch.float64)
            wide[:, :, place : place + taps.shape[2]] = taps
            tried = torch.conv1d(signal, wide, None, stride, padding, dilation)
            if tried.shape == result.shape and torch.allclose(tried, result):
                return True
        return False

    return any(all(fits(taps, result, padding) for taps, result in wanted) for padding in range(7))


@settings(deadline=None, max_examples=80)
@given(
    st.integers(12, 17),
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=2, max_size=3),
)
@example(16, 2, 1, [(3, 1), (2, 0)])  # off the middle
@example(12, 3, 1, [(3, 0), (3, 1)])  # the same sizes, but the kernel would have to lie outside
@example(13, 1, 2, [(2, 1), (1, 0)])  # between two taps
@example(13, 3, 2, [(3, 2), (1, 1)])
def test_convolutions_merge_exactly_where_computing_says_so(
    size: int, stride: int, dilation: int, branches: list[tuple[int, int]]
) -> None:
    graph, weights = convolutions(
        (size,),
        [stride],
        [dilation],
        *(([k], [p], n % 2 == 0) for n, (k, p) in enumerate(branches)),
    )
    names = [unit.name for unit in graph.units]
    reason = mergeable(graph, names)
    assert (reason is None) == by_computing(size, stride, dilation, branches), reason
    if reason is None:
        check_same(graph, weights, names)


@st.composite
def fitting(draw: st.DrawFn, axes: int) -> tuple[Any, ...]:
    """Convolutions that mostly can be merged: kernels that lie in the largest."""
    stride = [draw(st.integers(1, 2)) for _ in range(axes)]
    dilation = [draw(st.integers(1, 2)) for _ in range(axes)]
    largest = [draw(st.integers(1, 4)) for _ in range(axes)]
    padding = [d * (k - 1) // 2 for d, k in zip(dilation, largest, strict=True)]
    branches = [(tuple(largest), padding, draw(st.booleans()))]
    for _ in range(draw(st.integers(1, 2))):
        kernel = [draw(st.integers(1, k)) for k in largest]
        own = [
            max(0, p - draw(st.integers(0, 2)) * d) for p, d in zip(padding, dilation, strict=True)
        ]
        branches.append((tuple(kernel), own, draw(st.booleans())))
    return stride, dilation, *draw(st.permutations(branches))


@settings(deadline=None, max_examples=25)
@given(st.data(), st.integers(2, 3))
def test_axes_of_a_kernel_are_judged_one_by_one(data: st.DataObject, axes: int) -> None:
    stride, dilation, *branches = data.draw(fitting(axes))
    image = (13, 14, 12)[:axes]
    graph, weights = convolutions(image, stride, dilation, *branches)
    names = [unit.name for unit in graph.units]
    reason = mergeable(graph, names)
    assert (reason is None) == all(
        by_computing(
            image[axis], stride[axis], dilation[axis], [(k[axis], p[axis]) for k, p, _ in branches]
        )
        for axis in range(axes)
    ), reason
    if reason is None:
        check_same(graph, weights, names)


def test_a_kernel_off_the_middle_is_put_off_the_middle() -> None:
    """Kernel 3 with padding 1 and kernel 2 without, stride 2: the smaller kernel lies at tap 1 of
    the larger. In its middle, rounded down, it would shift the result by one."""
    graph, weights = convolutions((8, 8), [2, 2], [1, 1], (3, [1, 1], True), (2, [0, 0], True))
    check_same(graph, weights, ["c0", "c1"])
    merged = merge_stages(schedule_with(graph, ["c0", "c1"]), graph, weights)
    kernels = merged.weights["c0+c1.weight"]
    assert torch.equal(kernels[:2], weights["w0"])
    assert torch.equal(kernels[2:, :, 1:, 1:], weights["w1"])
    assert not kernels[2:, :, 0].any()
    assert not kernels[2:, :, :, 0].any()


def test_a_missing_bias_is_zero() -> None:
    graph, weights = convolutions((8,), [1], [1], (3, [1], False), (1, [0], True))
    merged = merge_stages(schedule_with(graph, ["c0", "c1"]), graph, weights)
    assert merged.weights["c0+c1.bias"].tolist() == [0, 0, *weights["b1"].tolist()]
    neither, weights = convolutions((8,), [1], [1], (3, [1], False), (1, [0], False))
    assert check_same(neither, weights, ["c0", "c1"]).weights == ("c0+c1.weight",)


def test_the_merged_unit_counts_what_it_computes_and_moves() -> None:
    graph, weights = convolutions((8, 8), [1, 1], [1, 1], (3, [1, 1], True), (1, [0, 0], True))
    (unit,) = check_same(graph, weights, ["c0", "c1"]).units
    assert (unit.name, unit.kind) == ("c0+c1", "conv")
    assert unit.outputs == ("c0", "c1")
    positions = 2 * 8 * 8
    assert unit.flops == 2 * 3 * 3 * 3 * (2 + 3) * positions
    assert unit.bytes_moved == 4 * (3 * positions + 5 * positions + 5 * 3 * 3 * 3 + 5)
    assert [operator.target for operator in unit.operators] == [
        "aten.conv2d.default",
        "aten.split_with_sizes.default",
    ]


def test_convolutions_of_one_image_without_a_batch_merge() -> None:
    graph, weights = graph_of_calls(
        [call("c", "conv1d.default", X, A), call("d", "conv1d.default", X, B)],
        outputs=["c", "d"],
        inputs={"x": (3, 9)},
        weights={"a": (2, 3, 1), "b": (4, 3, 1)},
        shapes={"c": (2, 9), "d": (4, 9)},
    )
    check_same(graph, weights, ["c", "d"])


PRODUCTS: dict[str, tuple[list[Operator], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "linear, one bias": (
        [call("c", "linear.default", X, A, P), call("d", "linear.default", X, B)],
        {"x": (2, 5, 4)},
        {"a": (3, 4), "b": (6, 4), "p": (3,)},
        {"c": (2, 5, 3), "d": (2, 5, 6)},
    ),
    "linear on a vector": (
        [call("c", "linear.default", X, A), call("d", "linear.default", X, B, bias=Q)],
        {"x": (4,)},
        {"a": (3, 4), "b": (6, 4), "q": (6,)},
        {"c": (3,), "d": (6,)},
    ),
    "addmm": (
        [
            call("c", "addmm.default", P, X, A, alpha=2),
            call("d", "addmm.default", Q, X, B, alpha=2),
        ],
        {"x": (5, 4)},
        {"a": (4, 3), "b": (4, 6), "p": (1, 3), "q": (1, 6)},
        {"c": (5, 3), "d": (5, 6)},
    ),
    "mm": (
        [call("c", "mm.default", X, A), call("d", "mm.default", X, B)],
        {"x": (5, 4)},
        {"a": (4, 3), "b": (4, 6)},
        {"c": (5, 3), "d": (5, 6)},
    ),
    "mm from the left": (
        [call("c", "mm.default", A, X), call("d", "mm.default", B, X)],
        {"x": (4, 5)},
        {"a": (3, 4), "b": (6, 4)},
        {"c": (3, 5), "d": (6, 5)},
    ),
    "matmul": (
        [call("c", "matmul.default", X, A), call("d", "matmul.default", X, B)],
        {"x": (2, 5, 4)},
        {"a": (4, 3), "b": (4, 6)},
        {"c": (2, 5, 3), "d": (2, 5, 6)},
    ),
    "matmul with a weight that has more axes": (
        [call("c", "matmul.default", X, A), call("d", "matmul.default", X, B)],
        {"x": (5, 4)},
        {"a": (2, 4, 3), "b": (2, 4, 6)},
        {"c": (2, 5, 3), "d": (2, 5, 6)},
    ),
    "bmm": (
        [call("c", "bmm.default", X, A), call("d", "bmm.default", X, B)],
        {"x": (2, 5, 4)},
        {"a": (2, 4, 3), "b": (2, 4, 6)},
        {"c": (2, 5, 3), "d": (2, 5, 6)},
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_that_share_an_input_merge(name: str) -> None:
    calls, inputs, weights, shapes = PRODUCTS[name]
    graph, held = graph_of_calls(
        calls, outputs=["c", "d"], inputs=inputs, weights=weights, shapes=shapes
    )
    merged = check_same(graph, held, ["c", "d"])
    assert merged.units[0].flops == graph.flops
    assert len(merged.units) == 1


def layer(number: int, *more: Operator, outputs: Sequence[str] = ()) -> list[Operator]:
    """A Unit of a linear layer ``c<number>`` on ``x`` and what follows it."""
    return [call(f"c{number}", "linear.default", X, ValueRef("w")), *more]


def units_of(
    *groups: Sequence[Operator], outputs: Sequence[str], shapes: Mapping[str, Any] | None = None
) -> tuple[Graph, dict[str, Tensor]]:
    graph, weights = graph_of_calls(
        [operator for group in groups for operator in group],
        outputs=outputs,
        weights={"w": (4, 4), "v": (4, 4)},
        shapes=shapes,
    )
    return regroup(graph, groups), weights


def gelu(number: int, scale: float = 0.5) -> list[Operator]:
    """GELU written out: it reads the layer's result twice."""
    c, h, e, s = (f"{letter}{number}" for letter in "ches")
    return [
        call(h, "mul.Tensor", ValueRef(c), scale),
        call(e, "erf.default", ValueRef(c)),
        call(s, "add.Tensor", ValueRef(e), 1.0),
        call(f"g{number}", "mul.Tensor", ValueRef(h), ValueRef(s)),
    ]


def test_an_activation_is_computed_once_for_all() -> None:
    graph, weights = units_of(layer(0, *gelu(0)), layer(1, *gelu(1)), outputs=["g0", "g1"])
    (unit,) = check_same(graph, weights, ["c0", "c1"]).units
    assert [operator.target for operator in unit.operators] == [
        "aten.linear.default",
        "aten.mul.Tensor",
        "aten.erf.default",
        "aten.add.Tensor",
        "aten.mul.Tensor",
        "aten.split_with_sizes.default",
    ]


def test_values_on_the_way_that_are_read_elsewhere_are_split_too() -> None:
    graph, weights = units_of(
        layer(0, call("r0", "relu.default", ValueRef("c0"))),
        layer(1, call("r1", "relu.default", ValueRef("c1"))),
        [call("s", "add.Tensor", ValueRef("c1"), ValueRef("r0"))],
        outputs=["s", "r1"],
    )
    merged = check_same(graph, weights, ["c0", "c1"])
    assert set(merged.units[0].outputs) == {"c1", "r0", "r1"}


def test_what_comes_before_the_layers_is_computed_once() -> None:
    groups = [
        [
            call(f"r{number}", "relu.default", X),
            call(f"c{number}", "linear.default", ValueRef(f"r{number}"), ValueRef("w")),
        ]
        for number in range(2)
    ]
    graph, weights = units_of(*groups, outputs=["c0", "c1"])
    (unit,) = check_same(graph, weights, ["c0", "c1"]).units
    assert [operator.target for operator in unit.operators][:2] == [
        "aten.relu.default",
        "aten.linear.default",
    ]


def test_each_unit_keeps_its_own_views() -> None:
    """As attention's query, key and value do: ``view`` needs rows without gaps, which a part of
    the merged result has not."""
    graph, weights = units_of(
        layer(
            0,
            call("v0", "view.default", ValueRef("c0"), (2, 2, 2, 2)),
            call("t0", "transpose.int", V0, 0, 1),
        ),
        layer(1, call("v1", "view.default", ValueRef("c1"), (16,))),
        outputs=["t0", "v1"],
        shapes={"v0": (2, 2, 2, 2), "t0": (2, 2, 2, 2), "v1": (16,)},
    )
    merged = check_same(graph, weights, ["c0", "c1"])
    assert merged.units[0].outputs == ("t0", "v1")


def test_readers_may_stand_between_the_units_in_any_order() -> None:
    """``r`` reads ``c0`` and stands before ``c1``; the stage names the later one first."""
    graph, weights = units_of(
        layer(0),
        [call("r", "relu.default", ValueRef("c0"))],
        layer(1),
        [call("s", "add.Tensor", ValueRef("c1"), ValueRef("r"))],
        outputs=["s"],
    )
    merged = check_same(graph, weights, ["c1", "c0"])
    assert [unit.name for unit in merged.units] == ["c1+c0", "r", "s"]


def test_weights_merged_twice_are_kept_once() -> None:
    """As in an unrolled network, where every step has the same weights."""
    groups = [
        [call("c0", "linear.default", X, ValueRef("w"))],
        [call("c1", "linear.default", X, ValueRef("v"))],
        [call("s", "add.Tensor", ValueRef("c0"), ValueRef("c1"))],
        [call("d0", "linear.default", ValueRef("s"), ValueRef("w"))],
        [call("d1", "linear.default", ValueRef("s"), ValueRef("v"))],
    ]
    graph, weights = units_of(*groups, outputs=["d0", "d1"])
    merged = check_same(graph, weights, ["c0", "c1"], ["d0", "d1"])
    assert merged.weights == ("c0+c1.weight",)


def test_new_names_avoid_those_that_are_taken() -> None:
    graph, weights = units_of(
        layer(0), layer(1), [call("c0+c1", "relu.default", ValueRef("c0"))],
        outputs=["c0+c1", "c1"],
    )  # fmt: skip
    assert [unit.name for unit in check_same(graph, weights, ["c0", "c1"]).units] == [
        "c0+c1_",
        "c0+c1",
    ]


def test_many_units_get_a_short_name() -> None:
    graph, weights = units_of(*map(layer, range(50)), outputs=[f"c{n}" for n in range(50)])
    assert check_same(graph, weights, [f"c{n}" for n in range(50)]).units[0].name == "c0+49"


REFUSED: dict[str, tuple[list[list[Operator]], str]] = {
    "other input": (
        [
            layer(0),
            [call("y", "relu.default", X)],
            [call("c1", "linear.default", Y, A)],
        ],
        "read 'x' and 'y'",
    ),
    "other activation": (
        [
            layer(0, call("r0", "relu.default", ValueRef("c0"))),
            layer(1, call("r1", "tanh.default", ValueRef("c1"))),
        ],
        "aten.relu.default and aten.tanh.default",
    ),
    "other arguments": ([layer(0, *gelu(0)), layer(1, *gelu(1, 0.25))], "different things from"),
    "no activation": (
        [layer(0), layer(1, call("r1", "relu.default", ValueRef("c1")))],
        "nothing and aten.relu.default",
    ),
    "other prologue": (
        [
            [call("y", "relu.default", X), call("c0", "linear.default", Y, A)],
            [call("z", "tanh.default", X), call("c1", "linear.default", Z, A)],
        ],
        "before their layers",
    ),
    "a prologue that is read elsewhere": (
        [
            [call("y", "relu.default", X), call("c0", "linear.default", Y, A)],
            [call("z", "relu.default", X), call("c1", "linear.default", Z, A)],
            [call("s", "add.Tensor", Z, ValueRef("c0"))],
        ],
        "'z', which it computes before its layer, is read elsewhere",
    ),
    "two layers": (
        [layer(0, call("d", "linear.default", ValueRef("c0"), A)), layer(1)],
        "2 layers",
    ),
    "no layer": ([layer(0), [call("c1", "relu.default", X)]], "0 layers"),
    "reduction": (
        [layer(0, call("r0", "softmax.int", ValueRef("c0"), -1)), layer(1)],
        "aten.softmax.int of 'r0' is neither",
    ),
    "sum with another value": (
        [layer(0, call("r0", "add.Tensor", ValueRef("c0"), X)), layer(1)],
        "aten.add.Tensor of 'r0' is neither",
    ),
    "work after a view": (
        [
            layer(
                0,
                call("v0", "t.default", ValueRef("c0")),
                call("r", "relu.default", V0),
            ),
            layer(1),
        ],
        "aten.relu.default of 'r' is neither",
    ),
    "other operator": (
        [layer(0), [call("c1", "mm.default", X, A)]],
        "aten.linear.default and aten.mm.default",
    ),
    "other side": (
        [[call("c0", "mm.default", A, X)], [call("c1", "mm.default", X, A)]],
        "different sides",
    ),
    "no weight": (
        [[call("c0", "mm.default", X, X)], [call("c1", "mm.default", X, A)]],
        "'c0' multiplies with is computed",
    ),
    "other scale": (
        [
            [call("c0", "addmm.default", P, X, A, alpha=2)],
            [call("c1", "addmm.default", P, X, A, alpha=3)],
        ],
        "keywords",
    ),
    "bias of one number": (
        [[call("c0", "addmm.default", Q, X, A)], [call("c1", "addmm.default", P, X, A)]],
        "bias of 'c0' has not one number for each filter",
    ),
    "transposed convolution": (
        [[call(c, "conv_transpose2d.input", X, A)] for c in ("c0", "c1")],
        "no filters to put side by side",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_merged_is_said_why(name: str) -> None:
    groups, words = REFUSED[name]
    graph, weights = graph_of_calls(
        [operator for group in groups for operator in group],
        outputs=[group[-1].name for group in groups],
        weights={"w": (4, 4), "a": (4, 4), "p": (4,), "q": (1,)},
    )
    graph = regroup(graph, groups)
    names = [next(u.name for u in graph.units if group[0] in u.operators) for group in groups]
    chosen = [unit for unit in names if unit not in ("y", "s")]
    reason = mergeable(graph, chosen)
    assert reason is not None
    assert words in reason
    with pytest.raises(ScheduleError, match=re.escape(f"cannot be merged: {reason}")):
        merge_stages(schedule_with(graph, chosen), graph, weights)


CONVOLUTIONS_REFUSED: dict[str, tuple[Any, Any, str]] = {
    "stride": ([X, A, None, (1,), (0,), (1,), 1], [X, A, None, (2,), (0,), (1,), 1], "stride"),
    "dilation": ([X, A, None, (1,), (0,), (1,), 1], [X, A, None, (1,), (0,), (2,), 1], "dilation"),
    "groups": ([X, B, None, (1,), (0,), (1,), 4], [X, B, None, (1,), (0,), (1,), 4], "4 groups"),
}


@pytest.mark.parametrize("name", CONVOLUTIONS_REFUSED)
def test_convolutions_that_cannot_be_merged_are_said_why(name: str) -> None:
    first, second, words = CONVOLUTIONS_REFUSED[name]
    graph, _ = graph_of_calls(
        [call("c", "conv1d.default", *first), call("d", "conv1d.default", *second)],
        outputs=["c", "d"],
        inputs={"x": (2, 4, 8)},
        weights={"a": (4, 4, 1), "b": (4, 1, 1)},
        shapes={"c": (2, 4, 8), "d": (2, 4, 8)},
    )
    assert words in (mergeable(graph, ["c", "d"]) or "")


def test_types_must_be_the_same() -> None:
    graph, _ = graph_of_calls(
        [call("c", "mm.default", X, A), call("d", "mm.default", X, B)],
        outputs=["c", "d"],
        weights={"a": (4, 4), "b": (4, 4)},
        dtypes={"b": "float64"},
    )
    assert "types float32 and float64" in (mergeable(graph, ["c", "d"]) or "")


def test_bad_stages_are_named() -> None:
    graph, weights = units_of(layer(0), layer(1), outputs=["c0", "c1"])
    with pytest.raises(ScheduleError, match=r"stage 0.*'c9'"):
        merge_stages(StageSchedule("test", (Stage((("c0", "c9"),), "merge"),)), graph, weights)
    with pytest.raises(ScheduleError, match="nothing to merge one unit with"):
        merge_stages(StageSchedule("test", (Stage((("c0",),), "merge"),)), graph, weights)
    with pytest.raises(ScheduleError, match="named twice"):
        merge_stages(StageSchedule("test", (Stage((("c0", "c0"),), "merge"),)), graph, weights)
    both = Stage((("c0", "c1"),), "merge")
    with pytest.raises(ScheduleError, match="stage 1: unit 'c0' is in the schedule twice"):
        merge_stages(StageSchedule("test", (both, both)), graph, weights)


def test_groups_and_threads_of_a_stage() -> None:
    """One group or a group for each Unit mean the same; a thread count for the stage stays."""
    graph, _ = units_of(layer(0), layer(1), outputs=["c0", "c1"])
    for stage, threads in [
        (Stage((("c0", "c1"),), "merge", threads=(3,)), (3,)),
        (Stage((("c0",), ("c1",)), "merge", threads=(2, 1)), ()),
    ]:
        merged = merge_graph(StageSchedule("test", (stage,)), graph)
        assert merged.schedule == StageSchedule("test", (Stage((("c0+c1",),), threads=threads),))


def test_nothing_to_merge_changes_nothing() -> None:
    graph = graph_of(DIAMOND)
    for schedule in (sequential(graph), random_stream_schedule(graph, 2, seed=0)):
        merged = merge_stages(schedule, graph, {"w": torch.ones(8, 8)})
        assert merged.schedule is schedule
        assert merged.graph is graph


def largest_merges(graph: Graph) -> list[list[str]]:
    """Units on the same input, greedily put together."""
    merges: list[list[str]] = []
    by_input = sorted(graph.units, key=lambda unit: (unit.inputs, graph.index[unit.name]))
    for _, sharing in itertools.groupby(by_input, key=lambda unit: unit.inputs):
        left = [unit.name for unit in sharing]
        while left:
            chosen = left[:1]
            for name in left[1:]:
                if mergeable(graph, [*chosen, name]) is None:
                    chosen.append(name)
            left = [name for name in left if name not in chosen]
            if len(chosen) > 1:
                merges.append(chosen)
    return merges


def check_largest_merges(graph: Graph, weights: Weights, sizes: list[int]) -> None:
    merges = largest_merges(graph)
    assert sorted(map(len, merges)) == sizes
    merged = check_same(graph, weights, *merges)
    assert len(merged.units) == len(graph.units) - sum(len(merge) - 1 for merge in merges)
    unchanged = {unit for unit in graph.units if not any(unit.name in merge for merge in merges)}
    assert unchanged <= set(merged.units)


def test_squeezenet_merges() -> None:
    """Each Fire module's two expansions; a bypass convolution has no activation, what it could
    merge with has one."""
    graph, weights = optimise(*import_program(zoo.program("squeezenet", 1), 1, "squeezenet"))
    check_largest_merges(graph, weights, [2] * 8)


def test_the_last_block_of_inception_merges() -> None:
    """The 1 x 1 convolutions at the heads of three branches, and 1 x 3 beside 3 x 1 twice (IOS,
    Figure 10)."""
    torch.manual_seed(0)
    block = Grid8(32).eval()
    program = torch.export.export(block, (torch.zeros(1, 32, 8, 8),))
    graph, weights = optimise(*import_program(program, 1, "block"))
    check_largest_merges(graph, weights, [2, 2, 3])
