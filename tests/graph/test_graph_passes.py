"""Passes keep what a graph computes and leave the Units that were asked for."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models import Branches
from support.pass_graphs import (
    Calls,
    Weights,
    assert_same,
    call,
    graph_of_calls,
    imported,
    random_graphs,
    targets,
)
from torch import Tensor, nn

from workers.graph.graph import Argument, Graph, Operator, TensorSpec, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise
from workers.graph.passes.batch_norm import fold_batch_norm
from workers.graph.passes.granularity import Granularity
from workers.graph.passes.identities import drop_identities
from workers.graph.units import operator_units


def dropped(graph: Graph, weights: Weights) -> Graph:
    after = drop_identities(graph)
    assert_same((graph, weights), (after, {name: weights[name] for name in after.weights}))
    return after


# Identities


def test_identities_and_dead_operators_go() -> None:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        x = m.dropout(m.first(x)).clone().contiguous().detach()
        m.dead(x)
        return torch.relu(x.expand(2, 5)[:, :].to(torch.float32))

    model = Calls(forward, first=nn.Linear(3, 5), dropout=nn.Dropout(), dead=nn.Linear(5, 7))
    graph = dropped(*imported(model, (2, 3)))
    assert targets(graph) == ["linear", "relu"]
    assert len(graph.weights) == 2


def test_an_identity_that_is_returned_leaves_its_name() -> None:
    graph = dropped(*imported(Calls(lambda _, x: torch.relu(x).clone()), (2, 3)))
    assert targets(graph) == ["relu"]
    assert graph.operators[0].outputs == graph.outputs == ("clone",)


def test_a_chain_of_identities_leaves_the_last_name() -> None:
    def forward(_: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(x).clone()
        return y.clone(), y.tanh()

    graph = dropped(*imported(Calls(forward), (2, 3)))
    assert targets(graph) == ["relu", "tanh"]
    assert graph.operators[1].inputs == graph.outputs[:1]


def test_copies_of_an_input_or_of_another_output_stay() -> None:
    def forward(_: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.relu(x)
        return x.clone(), y, y.clone(), y.clone()

    before = imported(Calls(forward), (2, 3))
    graph = dropped(*before)
    assert targets(graph) == targets(before[0]) == ["relu", "clone", "clone", "clone"]


def test_dropout_that_drops_is_no_identity() -> None:
    spec = TensorSpec((2, 3), "float32")
    arguments: tuple[Argument, ...] = (ValueRef("x"), 0.5, True)
    graph = operator_units(
        name="g", inputs=("x",), outputs=("r",), weights=(), values=dict.fromkeys("xdr", spec),
        operators=[
            Operator("d", "aten.dropout.default", arguments, (), ("d",)),
            Operator("r", "aten.relu.default", (ValueRef("d"),), (), ("r",)),
        ],
    )  # fmt: skip
    assert targets(drop_identities(graph)) == ["dropout", "relu"]


def test_a_change_of_type_or_shape_is_no_identity() -> None:
    def forward(_: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
        return x.to(torch.float64) * 2, x[:, 1:] * 2, x.view(3, 2) * 2, x.expand(4, 2, 3) * 2

    graph = dropped(*imported(Calls(forward), (2, 3)))
    assert len(graph.operators) == 8


def test_a_reshape_outlives_the_copy_before_it() -> None:
    graph = dropped(
        *imported(Calls(lambda _, x: x.permute(0, 2, 1).contiguous().view(2, 12).tanh()), (2, 3, 4))
    )
    assert targets(graph) == ["permute", "reshape", "tanh"]


# Batch normalisation


@pytest.mark.parametrize(
    ("layer", "norm", "shape"),
    [
        (nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), (2, 3, 8, 8)),
        (nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6, eps=0.1), (2, 3, 8, 8)),
        (nn.Conv2d(4, 6, 3, 2, 1, groups=2, bias=False), nn.BatchNorm2d(6), (2, 4, 8, 8)),
        (nn.Conv2d(3, 6, 1), nn.BatchNorm2d(6, affine=False), (2, 3, 8, 8)),
        (nn.Conv1d(3, 6, 3), nn.BatchNorm1d(6), (2, 3, 8)),
        (nn.Conv3d(3, 6, 3), nn.BatchNorm3d(6), (2, 3, 4, 4, 4)),
        (nn.ConvTranspose2d(3, 6, 3, 2, bias=False), nn.BatchNorm2d(6), (2, 3, 8, 8)),
        (nn.ConvTranspose2d(4, 6, 3, 2, groups=2), nn.BatchNorm2d(6), (2, 4, 8, 8)),
        (nn.ConvTranspose1d(6, 6, 3, groups=3), nn.BatchNorm1d(6), (2, 6, 8)),
        (nn.ConvTranspose3d(2, 6, 3), nn.BatchNorm3d(6), (2, 2, 4, 4, 4)),
        (nn.Linear(3, 6), nn.BatchNorm1d(6), (2, 3)),
        (nn.Linear(3, 6, bias=False), nn.BatchNorm1d(6), (2, 3)),
    ],
)
def test_batch_norm_folds_into_the_layer_before(
    layer: nn.Module, norm: nn.Module, shape: tuple[int, ...]
) -> None:
    before = imported(nn.Sequential(layer, norm, nn.Tanh()), shape)
    after = fold_batch_norm(*before)
    assert len(after[0].operators) == len(before[0].operators) - 1
    assert len(after[0].weights) == 2
    assert_same(before, after, 1e-5)


def test_folding_is_as_exact_as_the_weights_type() -> None:
    """Against the unfolded graph in float64: only the rounding of the new weights remains."""
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)).double()
    before = import_program(
        torch.export.export(model.eval(), (torch.randn(1, 3, 8, 8).double(),)), 1
    )
    assert_same(before, fold_batch_norm(*before), 1e-13)


def test_two_layers_that_share_a_weight_fold_apart() -> None:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        return m.first(m.conv(x)) + m.second(m.conv(x))

    model = Calls(
        forward, conv=nn.Conv2d(3, 6, 3), first=nn.BatchNorm2d(6), second=nn.BatchNorm2d(6)
    )
    before = imported(model, (2, 3, 8, 8))
    after = fold_batch_norm(*before)
    assert targets(after[0]) == ["conv2d", "conv2d", "add"]
    assert len(after[0].weights) == 4
    assert_same(before, after, 1e-5)


@pytest.mark.parametrize(
    ("forward", "shape"),
    [
        (lambda m, x: (m.norm(y := m.conv(x)), y), (2, 3, 8, 8)),
        (lambda m, x: m.norm(y := m.conv(x)) + y, (2, 3, 8, 8)),
        (lambda m, x: m.norm(torch.relu(m.conv(x))), (2, 3, 8, 8)),
        (lambda m, x: m.norm(m.linear(x)), (2, 6, 3)),
        (lambda m, x: m.norm(x), (2, 6, 8, 8)),
        (lambda m, x: m.norm(m.unbatched(x)), (3, 8, 8)),
    ],
    ids=["returned", "read", "relu", "linear on rows", "input", "no batch axis"],
)
def test_batch_norm_stays(
    forward: Callable[[nn.Module, Tensor], object], shape: tuple[int, ...]
) -> None:
    norm: nn.Module = nn.BatchNorm1d(6) if len(shape) == 3 else nn.BatchNorm2d(6)
    model = Calls(
        forward, conv=nn.Conv2d(3, 6, 3), linear=nn.Linear(3, 6), norm=norm,
        unbatched=nn.Conv2d(3, 7, 3),
    )  # fmt: skip
    before = imported(model, shape)
    after = fold_batch_norm(*before)
    assert targets(after[0]) == targets(before[0])
    assert after[0].weights == before[0].weights
    assert_same(before, after)


# Other scaling by channel

PER_CHANNEL = nn.Parameter(torch.tensor([0.5, -2.0, 3.0, 0.0, 1.0, 0.1]))


@pytest.mark.parametrize(
    "scaled",
    [
        lambda y, c: y * c.reshape(6, 1, 1),
        lambda y, c: c.reshape(1, 6, 1, 1) + y,
        lambda y, c: (y - c.reshape(6, 1, 1)) / (c.reshape(6, 1, 1) + 5),
        lambda y, _: (2 * y + 1) / 3,
        lambda y, c: torch.relu(y * c.reshape(6, 1, 1) + 1) * 1,
    ],
    ids=["factor", "shift", "chain", "numbers", "before a relu"],
)
@pytest.mark.parametrize("layer", [nn.Conv2d(3, 6, 3), nn.ConvTranspose2d(3, 6, 3)])
def test_arithmetic_with_a_number_for_each_channel_folds(
    layer: nn.Module, scaled: Callable[[Tensor, Tensor], Tensor]
) -> None:
    model = Calls(lambda m, x: scaled(m.norm(m.layer(x)), m.c), layer=layer, norm=nn.BatchNorm2d(6))
    model.register_parameter("c", PER_CHANNEL)
    before = imported(model, (2, 3, 8, 8))
    graph, weights = optimise(*before)
    assert_same(before, (graph, weights), 1e-5)
    assert [name for name in targets(graph) if name != "relu"] == targets(graph)[:1]
    assert len(weights) == 2


def test_a_layer_scale_folds_into_the_linear_layer() -> None:
    """As in ConvNeXt, on (N, H, W, C)."""
    model = Calls(lambda m, x: m.layer(x) * m.c, layer=nn.Linear(3, 6))
    model.register_parameter("c", PER_CHANNEL)
    before = imported(model, (2, 4, 4, 3))
    after = fold_batch_norm(*before)
    assert targets(after[0]) == ["linear"]
    assert_same(before, after, 1e-5)


def test_what_scales_a_product_with_a_bias_folds_into_its_columns() -> None:
    shapes = {"b": (6,), "w": (3, 6), "c": (6,)}
    made = {"a": (2, 6), "y": (2, 6)}
    calls = [
        call("a", "addmm.default", ValueRef("b"), ValueRef("x"), ValueRef("w")),
        call("y", "mul.Tensor", ValueRef("a"), ValueRef("c")),
    ]
    before = graph_of_calls(
        calls, outputs=("y",), inputs={"x": (2, 3)}, weights=shapes, shapes=made
    )
    after = fold_batch_norm(*before)
    assert targets(after[0]) == ["addmm"]
    assert_same(before, after, 1e-5)


@pytest.mark.parametrize(
    "scaled",
    [
        lambda m, y: y * m.c.reshape(1, 6),
        lambda m, y: y * m.c.reshape(2, 1, 1, 3).sum(),
        lambda m, y: m.c.reshape(6, 1, 1) - y,
        lambda m, y: torch.add(y, m.c.reshape(6, 1, 1), alpha=2),
        lambda m, y: y * y,
        lambda m, y: y / 0,
        lambda m, y: y * math.inf,
        lambda m, y: y.double() * 2,
        lambda m, y: y.unsqueeze(0) * m.c.reshape(6, 1, 1, 1, 1),
    ],
    ids=[
        "along a row",
        "computed",
        "reversed",
        "alpha",
        "itself",
        "by 0",
        "infinite",
        "another type",
        "broadcast",
    ],
)
def test_other_arithmetic_stays(scaled: Callable[[nn.Module, Tensor], Tensor]) -> None:
    model = Calls(lambda m, x: scaled(m, m.layer(x)), layer=nn.Conv2d(3, 6, 3))
    model.register_parameter("c", PER_CHANNEL)
    before = imported(model, (2, 3, 8, 8))
    after = fold_batch_norm(*before)
    assert targets(after[0]) == targets(before[0])
    assert_same(before, after)


def test_arithmetic_does_not_make_a_copy_of_a_shared_weight() -> None:
    model = Calls(lambda m, x: m.layer(x) * 2 + m.layer(x + 1), layer=nn.Linear(3, 6))
    before = imported(model, (2, 3))
    assert fold_batch_norm(*before)[0] == before[0]


# The pipeline


@settings(deadline=None, max_examples=30)
@given(random_graphs(), st.sampled_from(Granularity))
def test_optimising_any_graph_keeps_its_values(
    drawn: tuple[Graph, Weights], granularity: Granularity
) -> None:
    after = optimise(*drawn, granularity)
    assert_same(drawn, after, 1e-9)
    assert optimise(*after, granularity)[0] == after[0]


def test_the_pipeline_leaves_one_unit_for_each_layer() -> None:
    before = imported(Branches(), (2, 3, 16, 16))
    graph, weights = optimise(*before)
    assert_same(before, (graph, weights), 1e-5)
    kinds = [unit.kind for unit in graph.units]
    assert sorted(kinds) == ["concat", *["conv"] * 5, "linear", "pool", "reduction"]
    assert all(len(unit.operators) == 2 for unit in graph.units if unit.kind == "conv")
    assert set(weights) == set(graph.weights)
