"""What the provider ``aten`` would fuse on a GPU: which operators, with which meaning, and that a
call which does not work is left out. cuDNN itself cannot run here."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.unit_graphs import X, call, convolution, one_unit, unit_graph
from torch import Tensor

from workers import zoo
from workers.devices.providers import trial
from workers.devices.providers.aten import AtenProvider
from workers.devices.providers.gpu_fusions import fused_on_gpu
from workers.graph import interpreter
from workers.graph.fused import FusedCall, Packed, UnitKernels
from workers.graph.graph import Argument, Graph, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.interpreter import packed, run_graph
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs

W, B, C, S = ValueRef("w"), ValueRef("b"), ValueRef("c"), ValueRef("s")


def _relu_of_convolution(
    x: Tensor, w: Tensor, b: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    return torch.conv2d(x, w, b, stride, padding, dilation, groups).clamp(min=0)


def _relu_of_sum(x: Tensor, w: Tensor, z: Tensor, alpha: float, b: Tensor, *sizes: Any) -> Tensor:
    stride, padding, dilation, groups = sizes
    made = torch.conv2d(x, w, b, stride, padding, dilation, groups)
    return (made + alpha * z).clamp(min=0)


def _activated_product(b: Tensor, x: Tensor, y: Tensor, *, use_gelu: bool) -> Tensor:
    made = x @ y + b
    if not use_gelu:
        return made.clamp(min=0)
    return made / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (made + 0.044715 * made**3)))


MEANINGS: dict[str, Callable[..., Tensor]] = {
    "aten.cudnn_convolution_relu.default": _relu_of_convolution,
    "aten.cudnn_convolution_add_relu.default": _relu_of_sum,
    "aten._addmm_activation.default": _activated_product,
}
"""What torch computes by them on a GPU, by their schemas' positions."""


def _given(argument: Argument | Packed, values: dict[str, Tensor]) -> Any:
    if isinstance(argument, Packed):
        return packed(argument, values[argument.weight])
    return values[argument.name] if isinstance(argument, ValueRef) else argument


def fused(graph: Graph, weights: dict[str, Tensor]) -> list[str]:
    """What is fused of the only Unit, once its meaning was seen to be that of the operators."""
    (unit,) = graph.units
    calls = fused_on_gpu(graph, unit).calls
    every = replace(unit, outputs=tuple(v for o in unit.operators for v in o.outputs))
    whole = replace(graph, units=(every,), outputs=every.outputs)
    inputs = random_inputs(graph, 1)
    values = {**weights, **inputs, **run_graph(whole, weights, inputs)}
    for made in calls:
        arguments = [_given(argument, values) for argument in made.arguments]
        keywords = {name: _given(value, values) for name, value in made.keywords}
        found = MEANINGS[made.target](*arguments, **keywords)
        torch.testing.assert_close(found, values[made.output], rtol=1e-4, atol=1e-5)
    return [made.name for made in calls]


def image(groups: int = 1, **changes: Any) -> tuple[Graph, dict[str, Tensor]]:
    """conv2d → c, c + y → s, relu(s) → r; of 5 × 6 images."""
    operators = [
        call("c", "conv2d.default", X, W, B, (2, 1), (1, 2), (1, 2), groups),
        call("s", "add.Tensor", *changes.pop("sum", (C, ValueRef("y"))), **changes.pop("more", {})),
        call("r", "relu.default", S),
    ]
    result = (2, 4, 3, 6)
    shapes = {"x": (2, 4, 5, 6), "y": result, "w": (4, 4 // groups, 3, 3), "b": (4,)}
    shapes |= dict.fromkeys("csr", result)
    return one_unit(operators, shapes | changes.pop("shapes", {}), changes.pop("outputs", ("r",)))


def test_a_convolution_and_relu_are_one_call() -> None:
    graph, weights = convolution()
    (unit,) = graph.units
    conv, relu = unit.operators
    one_group = replace(conv, arguments=(*conv.arguments[:6], 1))
    shapes = {name: spec.shape for name, spec in graph.values.items()} | {"w": (48, 24, 3, 3)}
    assert fused(*one_unit([one_group, relu], shapes, ("r",))) == ["aten.cudnn_convolution_relu"]
    assert fused(graph, weights) == [], "groups"
    assert fused(*one_unit([one_group, relu], shapes, ("c", "r"))) == [], "c is read outside"
    del shapes["b"]
    bare = replace(one_group, arguments=(X, W, None, *one_group.arguments[3:]))
    assert fused(*one_unit([bare, relu], shapes, ("r",))) == [], "no bias"


def test_a_convolution_a_sum_and_relu_are_one_call() -> None:
    assert fused(*image()) == ["aten.cudnn_convolution_add_relu"]
    assert fused(*image(sum=(ValueRef("y"), C))) == ["aten.cudnn_convolution_add_relu"]


@pytest.mark.parametrize(
    "changes",
    [
        {"groups": 2},
        {"more": {"alpha": 2}},
        {"sum": (C, C)},
        {"sum": (C, 1.0)},
        {"shapes": {"y": (4, 1, 1)}},
        {"outputs": ("s", "r")},
    ],
    ids=["groups", "alpha", "twice", "number", "broadcast", "read outside"],
)
def test_other_sums_stay_apart(changes: dict[str, Any]) -> None:
    assert fused(*image(**changes)) == []


@pytest.mark.parametrize("target", ["linear", "addmm"])
@pytest.mark.parametrize(
    ("activation", "keywords", "number"),
    [
        ("relu.default", {}, 1),
        ("gelu.default", {"approximate": "tanh"}, 1),
        ("gelu.default", {}, 0),
        ("silu.default", {}, 0),
    ],
)
def test_a_product_and_its_activation_are_one_call(
    target: str, activation: str, keywords: dict[str, Argument], number: int
) -> None:
    arguments = (X, W, B) if target == "linear" else (B, X, W)
    operators = [call("c", f"{target}.default", *arguments), call("r", activation, C, **keywords)]
    shapes = {"x": (6, 5), "w": (7, 5) if target == "linear" else (5, 7), "b": (7,)}
    shapes |= dict.fromkeys("cr", (6, 7))
    assert fused(*one_unit(operators, shapes, ("r",))) == ["aten._addmm_activation"] * number


def test_element_types_that_were_not_thought_of_stay_apart() -> None:
    graph, _ = image()
    double = {name: replace(spec, dtype="float64") for name, spec in graph.values.items()}
    assert fused_on_gpu(replace(graph, values=double), graph.units[0]).calls == ()


@pytest.mark.parametrize(("model", "number"), [("squeezenet", 26), ("resnet18", 9)])
def test_units_of_models_that_fuse(model: str, number: int) -> None:
    graph, _ = optimise(*import_program(zoo.program(model, 1), 1))
    found = Counter(call.target for unit in graph.units for call in fused_on_gpu(graph, unit).calls)
    assert found == {"aten.cudnn_convolution_relu.default": number}


@pytest.fixture
def untried() -> None:
    trial._fault.cache_clear()


def tried(graph: Graph) -> tuple[FusedCall, ...]:
    """What is left on the CPU, which has no cuDNN."""
    (unit,) = graph.units
    return trial.tried(graph, unit, fused_on_gpu(graph, unit), "cpu").calls


@pytest.mark.usefixtures("untried")
def test_a_call_that_raises_is_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    graph, _ = image()
    with caplog.at_level(logging.WARNING):
        assert tried(graph) == tried(graph) == ()
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "aten.cudnn_convolution_add_relu is not used for c and s and r on cpu: "
    )


def _product(activation: str, **keywords: Argument) -> Graph:
    operators = [call("c", "linear.default", X, W, B), call("r", activation, C, **keywords)]
    shapes = {"x": (6, 5), "w": (7, 5), "b": (7,), "c": (6, 7), "r": (6, 7)}
    return one_unit(operators, shapes, ("r",))[0]


@pytest.mark.usefixtures("untried")
def test_a_call_that_computes_the_same_is_kept() -> None:
    (kept,) = tried(_product("relu.default"))
    assert kept.target == "aten._addmm_activation.default"


@pytest.mark.usefixtures("untried")
def test_a_call_that_computes_something_else_is_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a product without its activation, or a sum."""

    def product(b: Tensor, x: Tensor, y: Tensor, **_: bool) -> Tensor:
        return x @ y + b

    monkeypatch.setattr(interpreter, "fused_function", lambda call: product)
    with caplog.at_level(logging.WARNING):
        assert tried(_product("relu.default")) == ()
    assert "its relative error is" in caplog.text
    monkeypatch.setattr(interpreter, "fused_function", lambda call: torch.add)
    graph = _product("relu.default")
    (unit,) = graph.units
    (found,) = fused_on_gpu(graph, unit).calls
    sum_of_two = replace(found, arguments=(X, X), keywords=())
    with caplog.at_level(logging.WARNING):
        assert trial.tried(graph, unit, UnitKernels((sum_of_two,)), "cpu").calls == ()
    assert "it gives torch.float32 (6, 5), which is not what they give" in caplog.text


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.usefixtures("untried")
def test_where_nothing_can_be_tried_nothing_is_fused() -> None:
    graph, weights = unit_graph("linear")
    provider = AtenProvider("cuda:0")
    (unit,) = graph.units
    linear, gelu = unit.operators
    tanh = replace(gelu, keywords=(("approximate", "tanh"),))
    unit = replace(unit, operators=(linear, tanh))
    graph = replace(graph, units=(unit,))
    assert len(fused_on_gpu(graph, unit).calls) == 1
    assert provider.describe(graph, unit).calls == ()
    assert list(provider.compile(graph, unit, weights, 1).calls.values()) == [
        "aten.linear.default",
        "aten.gelu.default",
    ]
