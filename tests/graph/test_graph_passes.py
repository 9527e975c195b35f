"""Passes keep what a graph computes and leave the Units that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models import Branches
from torch import Tensor, nn

from workers.graph.graph import Argument, Graph, Operator, TensorSpec, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.interpreter import run_graph
from workers.graph.operators import is_kernel_free
from workers.graph.passes import optimise
from workers.graph.passes.batch_norm import fold_batch_norm
from workers.graph.passes.fuse import fuse
from workers.graph.passes.identities import drop_identities
from workers.graph.random_inputs import random_inputs
from workers.graph.units import operator_units

Weights = Mapping[str, Tensor]


class Calls(nn.Module):
    """A module whose ``forward`` is ``function``; ``parts`` are its submodules by name."""

    def __init__(self, function: Callable[..., object], **parts: nn.Module) -> None:
        super().__init__()
        self._function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *inputs: Tensor) -> object:
        return self._function(self, *inputs)


def imported(model: nn.Module, *shapes: tuple[int, ...]) -> tuple[Graph, dict[str, Tensor]]:
    """The graph of a model in eval mode, with statistics and affine parameters away from 0 and 1
    where it normalises."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    examples = tuple(torch.randn(shape) for shape in shapes)
    return import_program(torch.export.export(model.eval(), examples), shapes[0][0])


def targets(graph: Graph) -> list[str]:
    return [operator.target.split(".")[1] for operator in graph.operators]


def units(graph: Graph) -> dict[str, list[str]]:
    return {unit.name: [operator.name for operator in unit.operators] for unit in graph.units}


def assert_same(
    before: tuple[Graph, Weights], after: tuple[Graph, Weights], tolerance: float = 0.0
) -> None:
    """Both graphs have the same inputs and outputs by name, and give the same values."""
    assert before[0].inputs == after[0].inputs
    assert before[0].outputs == after[0].outputs
    assert set(after[0].weights) == set(after[1])
    inputs = random_inputs(before[0], seed=1)
    expected = run_graph(*before, inputs)
    found = run_graph(*after, inputs)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=tolerance, atol=tolerance)


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
        (lambda m, x: m.norm(m.transposed(x)), (2, 3, 8, 8)),
        (lambda m, x: m.norm(m.linear(x)), (2, 6, 3)),
        (lambda m, x: m.norm(x), (2, 6, 8, 8)),
        (lambda m, x: m.norm(m.unbatched(x)), (3, 8, 8)),
    ],
    ids=["returned", "read", "relu", "transposed", "linear on rows", "input", "no batch axis"],
)
def test_batch_norm_stays(
    forward: Callable[[nn.Module, Tensor], object], shape: tuple[int, ...]
) -> None:
    norm: nn.Module = nn.BatchNorm1d(6) if len(shape) == 3 else nn.BatchNorm2d(6)
    model = Calls(
        forward, conv=nn.Conv2d(3, 6, 3), linear=nn.Linear(3, 6), norm=norm,
        transposed=nn.ConvTranspose2d(3, 6, 3), unbatched=nn.Conv2d(3, 7, 3),
    )  # fmt: skip
    before = imported(model, shape)
    after = fold_batch_norm(*before)
    assert targets(after[0]) == targets(before[0])
    assert after[0].weights == before[0].weights
    assert_same(before, after)


# Units


def fused(model: nn.Module, *shapes: tuple[int, ...]) -> Graph:
    graph, weights = imported(model, *shapes)
    after = fuse(graph)
    assert_same((graph, weights), (after, weights))
    return after


def test_an_activation_joins_the_layer_that_it_alone_reads() -> None:
    graph = fused(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.PReLU(), nn.Flatten(), nn.Linear(144, 2), nn.GELU()),
        (2, 3, 8, 8),
    )
    assert units(graph) == {
        "conv2d": ["conv2d", "prelu", "view"],
        "linear": ["linear", "gelu"],
    }
    assert [unit.kind for unit in graph.units] == ["conv", "linear"]
    assert graph.units[0].inputs == graph.inputs
    assert graph.units[0].outputs == ("view",)


def test_an_activation_of_something_else_is_a_unit() -> None:
    def forward(m: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
        y = m.conv(x)
        z = torch.relu(m.conv(x)) + torch.relu(y)
        return torch.tanh(y), z, torch.relu(z)

    graph = fused(Calls(forward, conv=nn.Conv2d(3, 4, 3)), (2, 3, 8, 8))
    assert units(graph) == {
        "conv2d": ["conv2d"],
        "conv2d_1": ["conv2d_1", "relu"],
        "relu_1": ["relu_1"],
        "add": ["add"],
        "tanh": ["tanh"],
        "relu_2": ["relu_2"],
    }


def test_a_returned_convolution_keeps_its_activation_apart() -> None:
    def forward(m: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        return (y := m.conv(x)), torch.relu(y)

    graph = fused(Calls(forward, conv=nn.Conv2d(3, 4, 3)), (2, 3, 8, 8))
    assert len(graph.units) == 2


def test_views_of_inputs_and_weights_join_their_first_reader() -> None:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        rows = x.transpose(0, 1)
        halves = m.linear.weight.t().unsqueeze(0)
        return torch.relu(rows.t()) + rows.tanh().sum() + (halves * 2).sum()

    graph = fused(Calls(forward, linear=nn.Linear(3, 3)), (2, 3))
    assert {unit.name: [o.name for o in unit.operators] for unit in graph.units} == {
        "relu": ["transpose", "t_1", "relu"],
        "tanh": ["tanh"],
        "sum_1": ["sum_1"],
        "add": ["add"],
        "mul": ["t", "unsqueeze", "mul"],
        "sum_2": ["sum_2"],
        "add_1": ["add_1"],
    }


def test_a_returned_view_of_an_input_joins_the_first_unit() -> None:
    graph = fused(Calls(lambda _, x: (torch.relu(x).tanh(), x.flatten())), (2, 3))
    assert units(graph) == {"relu": ["relu", "view"], "tanh": ["tanh"]}


def test_a_graph_of_views_alone_is_still_scheduled() -> None:
    graph = fused(Calls(lambda _, x: x.flatten().unsqueeze(0)), (2, 3))
    assert units(graph) == {"view": ["view", "unsqueeze"]}
    assert graph.units[0].kind == "view"


_TARGETS = (
    "aten.t.default", "aten.relu.default", "aten.tanh.default", "aten.clone.default",
    "aten.add.Tensor", "aten.linear.default", "aten.reshape.default", "aten.permute.default",
)  # fmt: skip
_REST: dict[str, tuple[Argument, ...]] = {
    "aten.reshape.default": ((4, 4),),
    "aten.permute.default": ((1, 0),),
}


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Random operators on 4 × 4 matrices: layers, activations, copies and views, all mixed."""
    names = ["x", "w"]
    operators = []
    for number in range(draw(st.integers(0, 12))):
        target = draw(st.sampled_from(_TARGETS))
        operands = [draw(st.sampled_from(names))]
        if target == "aten.add.Tensor":
            operands.append(draw(st.sampled_from(names)))
        elif target == "aten.linear.default":
            operands.append("w")
        arguments = (*(ValueRef(name) for name in operands), *_REST.get(target, ()))
        names.append(f"v{number}")
        operators.append(Operator(names[-1], target, arguments, (), (names[-1],)))
    outputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return operator_units(
        name="random",
        inputs=("x",),
        outputs=outputs,
        weights=("w",),
        values=dict.fromkeys(names, TensorSpec((4, 4), "float32")),
        operators=operators,
    )


@settings(deadline=None)
@given(graphs())
def test_units_of_any_graph_partition_its_operators(graph: Graph) -> None:
    """Graph itself refuses an order that is not topological, and regroup a circle."""
    after = fuse(graph)
    assert sorted(o.name for o in after.operators) == sorted(o.name for o in graph.operators)
    kernels = [unit for unit in after.units if unit.kind not in ("view", "identity")]
    assert after.units == tuple(kernels) or not kernels
    for unit in kernels:
        launching = [o for o in unit.operators if not is_kernel_free(o.target)]
        assert launching[0].name == unit.name
        assert len(launching) == 1 or unit.kind == "linear"
    assert fuse(after) == after


@settings(deadline=None)
@given(graphs())
def test_optimising_any_graph_keeps_its_values(graph: Graph) -> None:
    weights = {name: torch.linspace(-0.5, 0.5, 16).reshape(4, 4) for name in graph.weights}
    assert_same((graph, weights), optimise(graph, weights), 1e-5)


# The pipeline


def test_the_pipeline_leaves_one_unit_for_each_layer() -> None:
    before = imported(Branches(), (2, 3, 16, 16))
    graph, weights = optimise(*before)
    assert_same(before, (graph, weights), 1e-5)
    kinds = [unit.kind for unit in graph.units]
    assert sorted(kinds) == ["concat", *["conv"] * 5, "linear", "pool", "reduction"]
    assert all(len(unit.operators) == 2 for unit in graph.units if unit.kind == "conv")
    assert set(weights) == set(graph.weights)
