"""Which operators become one Unit, and what grouping them must never change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from schedulers.ios_table1 import NASNET_LARGE
from support.pass_graphs import (
    Calls,
    Weights,
    assert_same,
    call,
    graph_of_calls,
    imported,
    random_graphs,
)
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

from workers.graph.graph import Graph, ValueRef
from workers.graph.operators import KINDS, is_kernel_free
from workers.graph.passes import optimise
from workers.graph.passes.fuse import fuse
from workers.graph.passes.given_views import copy_given_views
from workers.graph.passes.granularity import Granularity
from workers.graph.passes.pointwise import is_pointwise
from workers.graph.passes.subexpressions import merge_within_units


def units(graph: Graph) -> dict[str, list[str]]:
    return {unit.name: [operator.name for operator in unit.operators] for unit in graph.units}


def fused(model: nn.Module, *shapes: tuple[int, ...], residual: bool = False) -> Graph:
    graph, weights = imported(model, *shapes)
    after = fuse(graph, residual=residual)
    assert_same((graph, weights), (after, weights))
    assert fuse(after, residual=residual) == after
    return after


def unit_targets(graph: Graph) -> list[list[str]]:
    """The operators of each Unit but its views, without namespace and overload, sorted by Unit."""
    return sorted(
        [o.target.split(".")[1] for o in unit.operators if not is_kernel_free(o.target)]
        for unit in graph.units
    )


IMAGE = (2, 4, 8, 8)


# Epilogues


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


def test_activations_that_alone_read_a_layer_join_it_together() -> None:
    def forward(m: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
        y = m.conv(x)
        return torch.relu(y), torch.tanh(y)

    graph = fused(Calls(forward, conv=nn.Conv2d(4, 4, 3)), IMAGE)
    assert unit_targets(graph) == [["conv2d", "relu", "tanh"]]
    assert len(graph.units[0].outputs) == 2


def test_a_layer_whose_result_is_read_elsewhere_keeps_its_activation_apart() -> None:
    def forward(m: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        y = m.conv(x)
        return torch.relu(y), m.conv(y)

    graph = fused(Calls(forward, conv=nn.Conv2d(4, 4, 3)), IMAGE)
    assert unit_targets(graph) == [["conv2d"], ["conv2d"], ["relu"]]


def test_a_returned_convolution_keeps_its_activation_apart() -> None:
    def forward(m: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        return (y := m.conv(x)), torch.relu(y)

    graph = fused(Calls(forward, conv=nn.Conv2d(4, 4, 3)), IMAGE)
    assert len(graph.units) == 2


@pytest.mark.parametrize(
    ("written_out", "layer"),
    [
        (lambda x: x * torch.sigmoid(x), nn.Conv2d(4, 4, 3)),
        (lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)), nn.Linear(8, 5)),
        (lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x**3))), nn.Linear(8, 5)),
        (lambda x: x * torch.clamp(x + 3, 0, 6) / 6, nn.Conv2d(4, 4, 3)),
    ],
    ids=["silu", "gelu", "gelu by tanh", "hardswish"],
)
def test_an_activation_written_out_joins_the_layer(
    written_out: Callable[[Tensor], Tensor], layer: nn.Module
) -> None:
    graph = fused(Calls(lambda m, x: written_out(m.layer(x)), layer=layer), IMAGE)
    assert len(graph.units) == 1
    assert graph.units[0].kind in ("conv", "linear")
    assert len(graph.units[0].outputs) == 1


def test_a_bias_and_what_follows_it_join_the_product() -> None:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        return torch.relu(torch.matmul(x, m.linear.weight) + m.linear.bias)

    graph = fused(Calls(forward, linear=nn.Linear(5, 5)), (2, 3, 5))
    assert unit_targets(graph) == [["matmul", "add", "relu"]]
    assert graph.units[0].kind == "matmul"


def test_layer_normalisation_written_out_is_a_unit_for_each_reduction() -> None:
    def forward(_: nn.Module, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5) * 2 + 1

    graph = fused(Calls(forward), (2, 3, 5))
    assert unit_targets(graph) == [
        ["mean", "add", "sqrt", "div", "mul", "add"],
        ["mean", "sub", "pow"],
    ]


def test_a_step_of_an_lstm_is_its_products_and_one_unit_of_the_gates() -> None:
    def forward(m: nn.Module, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(2):
            i, f, g, o = (m.read(x) + m.hidden(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h, c

    model = Calls(forward, read=nn.Linear(3, 16), hidden=nn.Linear(4, 16))
    graph = fused(model, (2, 3), (2, 4), (2, 4))
    kinds = [unit.kind for unit in graph.units]
    assert kinds.count("linear") == 4
    assert kinds.count("elementwise") == 2


# Sums of branches


class Residual(nn.Module):
    """Two convolutions and a way around them, which is a convolution if ``projected``."""

    def __init__(self, projected: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.around = nn.Conv2d(4, 4, 1) if projected else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(x, 1)
        return torch.relu(self.second(torch.relu(self.first(x))) + self.around(x))


@pytest.mark.parametrize("projected", [False, True])
def test_the_sum_of_a_residual_branch_is_a_unit_with_its_activation(projected: bool) -> None:
    found = unit_targets(fused(Residual(projected), IMAGE))
    assert ["add", "relu"] in found
    assert ["conv2d", "relu"] in found


def test_a_residual_sum_joins_on_request_only_what_waits_for_the_rest_anyway() -> None:
    around = unit_targets(fused(Residual(projected=False), IMAGE, residual=True))
    assert ["conv2d", "add", "relu"] in around
    beside = unit_targets(fused(Residual(projected=True), IMAGE, residual=True))
    assert ["add", "relu"] in beside


# Prologues


def test_a_relu_joins_the_convolution_that_alone_reads_it() -> None:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        pooled = avg_pool2d(x, 2)
        return torch.cat([m.first(torch.relu(pooled)), m.second(torch.relu(pooled)), pooled], 1)

    model = Calls(forward, first=nn.Conv2d(4, 4, 1), second=nn.Conv2d(4, 4, 3, padding=1))
    found = unit_targets(fused(model, IMAGE))
    assert found == [["avg_pool2d"], ["cat"], ["relu", "conv2d"], ["relu", "conv2d"]]


def test_a_relu_that_several_read_is_a_unit() -> None:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        x = torch.relu(avg_pool2d(x, 2))
        return torch.cat([m.first(x), m.second(x)], 1)

    model = Calls(forward, first=nn.Conv2d(4, 4, 1), second=nn.Conv2d(4, 4, 1))
    assert ["relu"] in unit_targets(fused(model, IMAGE))


def test_batch_normalisation_that_cannot_be_folded_joins_what_follows() -> None:
    """As in a DenseNet."""

    def forward(m: nn.Module, x: Tensor) -> Tensor:
        x = torch.cat([x, avg_pool2d(x, 3, 1, 1)], 1)
        return torch.cat([x, m.conv(torch.relu(m.norm(x)))], 1)

    model = Calls(forward, conv=nn.Conv2d(8, 4, 3, padding=1), norm=nn.BatchNorm2d(8))
    found = unit_targets(fused(model, IMAGE))
    assert ["_native_batch_norm_legit_no_training", "relu", "conv2d"] in found


def test_sums_join_the_normalisation_or_softmax_that_alone_reads_them() -> None:
    """As in a transformer: masked attention, and a residual sum before its normalisation."""

    def forward(m: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
        x, mask = torch.cumsum(x, 1), torch.cumsum(mask, 1)
        scores = torch.softmax(m.query(x) @ m.key(x).transpose(1, 2) * 0.5 + mask, -1)
        return m.norm(m.out(scores @ x) + x)

    model = Calls(
        forward,
        query=nn.Linear(8, 8),
        key=nn.Linear(8, 8),
        out=nn.Linear(8, 8),
        norm=nn.LayerNorm(8),
    )
    found = unit_targets(fused(model, (2, 3, 8), (2, 3, 3)))
    assert ["matmul", "mul"] in found
    assert ["add", "softmax"] in found
    assert ["add", "layer_norm"] in found
    assert len(found) == 2 + 3 + 4  # the sums before, the linear layers, and the rest


def test_root_mean_square_normalisation_written_out_is_a_unit() -> None:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        x = torch.softmax(x, -1)
        y = m.scale.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        return torch.cat([x, y], 1)

    model = Calls(forward, scale=nn.Linear(8, 1, bias=False))
    found = unit_targets(fused(model, (2, 3, 8)))
    assert found == [["cat"], ["pow", "mean", "add", "rsqrt", "mul", "mul"], ["softmax"]]


# Separable convolutions


def separable(*between: nn.Module, groups: int = 4) -> nn.Sequential:
    depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=groups)
    return nn.Sequential(depthwise, *between, nn.Conv2d(4, 6, 1), nn.BatchNorm2d(6), nn.ReLU())


def test_a_separable_convolution_is_one_unit_with_the_relu_before_it() -> None:
    graph, weights = imported(nn.Sequential(nn.MaxPool2d(2), nn.ReLU(), *separable()), IMAGE)
    after = optimise(graph, weights)
    assert_same((graph, weights), after, 1e-5)
    assert unit_targets(after[0]) == [["max_pool2d"], ["relu", "conv2d", "conv2d", "relu"]]
    assert after[0].units[1].kind == "conv"


def test_batch_normalisation_between_its_convolutions_does_not_part_them() -> None:
    graph, _ = optimise(*imported(separable(nn.BatchNorm2d(4)), IMAGE))
    assert unit_targets(graph) == [["conv2d", "conv2d", "relu"]]


@pytest.mark.parametrize(
    "model",
    [separable(nn.ReLU()), separable(groups=2), separable(nn.MaxPool2d(1))],
    ids=["an activation between, as in MobileNet", "several channels a group", "a pool between"],
)
def test_what_is_no_separable_convolution_stays_two_units(model: nn.Module) -> None:
    graph, _ = optimise(*imported(model, IMAGE))
    assert [unit.kind for unit in graph.units].count("conv") == 2


def test_a_depthwise_result_that_something_else_reads_stays_a_unit() -> None:
    def forward(m: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        y = m.depthwise(x)
        return m.mixing(y), avg_pool2d(y, 2)

    model = Calls(forward, depthwise=nn.Conv2d(4, 4, 3, groups=4), mixing=nn.Conv2d(4, 4, 1))
    assert len(fused(model, IMAGE).units) == 3


def test_a_sum_joins_the_separable_convolution_that_alone_reads_it() -> None:
    """A node of RandWire: the weighted sum of its inputs, ReLU, separable convolution."""

    def forward(m: nn.Module, x: Tensor) -> Tensor:
        a, b, c = avg_pool2d(x, 2), avg_pool2d(x, 2, 2), nn.functional.max_pool2d(x, 2)
        return m.node(torch.relu(a * 0.5 + b * 0.25 + c * 0.125))

    graph, weights = imported(Calls(forward, node=separable()), IMAGE)
    after = optimise(graph, weights, merge_common=False)
    assert [unit.kind for unit in after[0].units] == ["pool", "pool", "pool", "conv"]
    assert_same((graph, weights), after, 1e-5)


def test_equal_activations_that_meet_in_one_unit_are_computed_once() -> None:
    """Each branch begins with a ReLU of the same value, which only ReLUs read: they join the layer
    that computes it, and one is enough."""

    def forward(m: nn.Module, x: Tensor) -> Tensor:
        stem = m.stem(x)
        return m.a(torch.relu(stem)) + m.b(torch.relu(stem)) + m.c(torch.relu(stem))

    layers = {name: nn.Conv2d(4, 4, 3, padding=1) for name in "abc"}
    graph, weights = imported(Calls(forward, stem=nn.Conv2d(4, 4, 1), **layers), IMAGE)
    after = optimise(graph, weights)
    assert [operator.target for operator in after[0].units[0].operators] == [
        "aten.conv2d.default",
        "aten.relu.default",
    ]
    assert [operator.target for operator in after[0].operators].count("aten.relu.default") == 1
    assert merge_within_units(after[0]) == after[0]
    assert_same((graph, weights), after, 1e-5)


# NASNet's cell


class Cell(nn.Module):
    """The first normal cell after a reduction (Zoph et al. 2018, Figure 4), on 4 channels, wired
    as in the block of IOS's Table 1."""

    def __init__(self) -> None:
        super().__init__()
        self.even = nn.Conv2d(4, 2, 1, 2)
        self.odd = nn.Conv2d(4, 2, 1, 2)
        self.current = nn.Conv2d(4, 4, 1)
        self.separable = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False),
                nn.Conv2d(4, 4, 1, bias=False),
                nn.BatchNorm2d(4),
            )
            for _ in range(10)
        )

    def forward(self, previous: Tensor, current: Tensor) -> Tensor:
        def branch(number: int, x: Tensor) -> Tensor:
            for layer in (self.separable[2 * number], self.separable[2 * number + 1]):
                x = layer(torch.relu(x))
            return x

        def pool(x: Tensor) -> Tensor:
            return avg_pool2d(x, 3, 1, 1)

        old = torch.cat([self.even(torch.relu(previous)), self.odd(torch.relu(previous))], 1)
        new = self.current(torch.relu(current))
        sums = [
            branch(0, new) + branch(1, new),  # one of them reads ``old`` in the paper's figure
            branch(2, old) + branch(3, old),
            pool(new) + old,
            pool(old) + pool(old),
            branch(4, new) + new,
        ]
        return torch.cat([old, *sums], 1)


def test_nasnet_s_cell_has_the_units_that_ios_counts() -> None:
    graph, weights = imported(Cell(), (1, 4, 8, 8), (1, 4, 4, 4))
    as_written = optimise(graph, weights, merge_common=False)
    assert_same((graph, weights), as_written, 1e-5)
    assert _form(as_written[0].successors) == _form(NASNET_LARGE.successors)
    merged, _ = optimise(graph, weights)  # the two equal pools become one
    assert len(merged.units) == NASNET_LARGE.units - 1


def _form(successors: Sequence[Sequence[int]]) -> list[object]:
    """Equal for DAGs that differ in their Units' order only: below each Unit, as a tree."""

    def tree(unit: int) -> tuple[object, ...]:
        return tuple(sorted((tree(after) for after in successors[unit]), key=repr))

    return sorted((tree(unit) for unit in range(len(successors))), key=repr)


# Views


def test_each_reader_has_its_own_view_of_a_given_value() -> None:
    graph, weights = graph_of_calls(
        [
            call("t", "t.default", ValueRef("x")),
            call("v", "t.default", ValueRef("t")),
            call("p", "mm.default", ValueRef("t"), ValueRef("w")),
            call("q", "mm.default", ValueRef("v"), ValueRef("t")),
            call("s", "softmax.int", ValueRef("v"), 1),
        ],
        outputs=("p", "q", "s", "v"),
    )
    after = fuse(graph)
    assert_same((graph, weights), (after, weights))
    assert not any(after.predecessors)
    assert units(after) == {
        "p": ["t", "v", "t.1", "p"],
        "q": ["t.2", "v.1", "t.3", "q"],
        "s": ["t.4", "v.2", "s"],
    } or all(unit.inputs == ("x",) for unit in after.units)
    assert copy_given_views(after) == copy_given_views(copy_given_views(after))


def test_a_returned_view_joins_the_first_unit_even_if_that_reads_a_view() -> None:
    graph = fused(Calls(lambda _, x: (torch.softmax(x.t(), 1), x.flatten())), (2, 3))
    assert [unit.name for unit in graph.units] == ["softmax"]


def test_a_returned_view_of_an_input_joins_the_first_unit() -> None:
    graph = fused(Calls(lambda _, x: (torch.softmax(x, 1), x.flatten())), (2, 3))
    assert units(graph) == {"softmax": ["softmax", "view"]}


def test_a_graph_of_views_alone_is_still_scheduled() -> None:
    graph = fused(Calls(lambda _, x: x.flatten().unsqueeze(0)), (2, 3))
    assert units(graph) == {"view": ["view", "unsqueeze"]}
    assert graph.units[0].kind == "view"


# Granularity


class Two(nn.Module):
    """A stem, two branches of two layers, and what joins them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        first, second, *rest = (nn.Sequential(layer, nn.ReLU()) for layer in self.layers)
        x = second(first(x))
        left, right = rest[1](rest[0](x)), rest[3](rest[2](x))
        return torch.cat([left, right], 1).mean((2, 3))


def test_granularity_is_the_size_of_a_unit() -> None:
    model = imported(Two(), IMAGE)
    counts = {g: len(optimise(*model, g)[0].units) for g in Granularity}
    assert counts == {"operator": 6 + 6 + 2, "fused": 6 + 2, "block": 1 + 2 + 1}
    coarse, weights = optimise(*model, "block")
    assert_same(model, (coarse, weights))
    assert [len(after) for after in coarse.successors] == [2, 1, 1, 0]


def test_an_unknown_granularity_is_named() -> None:
    with pytest.raises(ValueError, match="'layer' is not a valid Granularity"):
        optimise(*imported(nn.ReLU(), IMAGE), "layer")


# Any graph


def _reachable(successors: Sequence[Sequence[int]]) -> list[set[int]]:
    """What can be reached from each position, by the definition."""
    found: list[set[int]] = [set() for _ in successors]
    for position in reversed(range(len(successors))):
        for after in successors[position]:
            found[position] |= {after} | found[after]
    return found


@settings(deadline=None)
@given(random_graphs(), st.sampled_from(Granularity), st.booleans())
def test_layers_that_could_run_side_by_side_still_can(
    drawn: tuple[Graph, Weights], granularity: Granularity, residual: bool
) -> None:
    """Graph refuses an order that is not topological, and regroup a circle. Every operator but
    pointwise ones and views counts; only the parts of a separable convolution, and the runs of
    ``block``, may share a Unit, and they needed each other before."""
    graph = copy_given_views(drawn[0])
    after = fuse(graph, granularity, residual=residual)
    assert {o.name for o in after.operators} == {o.name for o in graph.operators}
    before = _reachable(graph.successors)
    now = _reachable(after.successors)
    place = {o.name: i for i, unit in enumerate(after.units) for o in unit.operators}
    heavy = [
        (i, place[unit.name])
        for i, unit in enumerate(graph.units)
        if not is_kernel_free(unit.operators[0].target) and not is_pointwise(unit.operators[0])
    ]
    for first, unit in heavy:
        for second, other in heavy:
            if second > first:
                needed = second in before[first]
                assert (unit == other) <= needed
                assert unit == other or (other in now[unit]) == needed
                assert unit not in now[other]


@settings(deadline=None)
@given(random_graphs(), st.sampled_from(Granularity), st.booleans())
def test_grouping_twice_is_grouping_once(
    drawn: tuple[Graph, Weights], granularity: Granularity, residual: bool
) -> None:
    """But for what is returned and belongs to no Unit, a view of an input: it goes to the first
    Unit, and which one leads may change as ``block`` joins runs."""
    assume(granularity is not Granularity.BLOCK or not _returns_a_given_view(drawn[0]))
    after = fuse(drawn[0], granularity, residual=residual)
    assert fuse(after, granularity, residual=residual) == after


def _returns_a_given_view(graph: Graph) -> bool:
    given = {*graph.inputs, *graph.weights}
    for operator in graph.operators:
        if is_kernel_free(operator.target) and given.issuperset(operator.inputs):
            given.update(operator.outputs)
    return any(name in given and name not in graph.inputs for name in graph.outputs)


@settings(deadline=None)
@given(random_graphs(), st.booleans())
def test_a_unit_is_about_one_layer(drawn: tuple[Graph, Weights], residual: bool) -> None:
    for unit in fuse(drawn[0], residual=residual).units:
        kernels = [o for o in unit.operators if not is_kernel_free(o.target)]
        layers = [o for o in kernels if not is_pointwise(o)]
        assert len(layers) <= 1 or [KINDS[o.target] for o in layers] == ["conv", "conv"]
        assert unit.name == (layers or kernels or unit.operators)[0].name


@settings(deadline=None)
@given(random_graphs())
def test_every_kernel_is_a_unit_of_the_finest_granularity(drawn: tuple[Graph, Weights]) -> None:
    after = fuse(drawn[0], Granularity.OPERATOR)
    kernels = [o.name for o in after.operators if not is_kernel_free(o.target)]
    assert not kernels or [unit.name for unit in after.units] == kernels


@settings(deadline=None)
@given(random_graphs())
def test_no_run_is_left_at_the_coarsest_granularity(drawn: tuple[Graph, Weights]) -> None:
    after = fuse(drawn[0], Granularity.BLOCK)
    for position, successors in enumerate(after.successors):
        for successor in successors:
            assert len(successors) > 1 or after.predecessors[successor] != (position,)
