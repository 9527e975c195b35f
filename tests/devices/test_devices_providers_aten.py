"""What the provider of PyTorch's own kernels fuses, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support.unit_graphs import convolution, one_unit, unit_graph
from torch import Tensor

from workers.devices.providers import create
from workers.graph.graph import Graph
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs


def called(graph: Graph, weights: dict[str, Tensor]) -> list[str]:
    """What the only Unit calls, once it was seen to compute the right thing."""
    (unit,) = graph.units
    inputs = random_inputs(graph, 5)
    compiled = create("aten").compile(graph, unit, weights, threads=1)
    with torch.inference_mode():
        results = compiled.function(*(inputs[name] for name in compiled.inputs))
    for name, tensor in run_graph(graph, weights, inputs).items():
        found = results[compiled.outputs.index(name)]
        torch.testing.assert_close(found, tensor, rtol=1e-4, atol=1e-5)
    return list(compiled.calls.values())


@pytest.mark.parametrize(
    ("activation", "bounds", "name"),
    [
        ("relu.default", (), "relu"),
        ("sigmoid.default", (), "sigmoid"),
        ("tanh.default", (), "tanh"),
        ("silu.default", (), "swish"),
        ("hardswish.default", (), "hardswish"),
        ("hardtanh.default", (), "hardtanh"),
        ("hardtanh.default", (0.0,), "hardtanh"),
        ("hardtanh.default", (-0.25, 6), "hardtanh"),
    ],
)
def test_a_convolution_and_its_activation_are_one_call(
    activation: str, bounds: tuple[float, ...], name: str
) -> None:
    graph, weights = convolution(activation=activation, bounds=bounds)
    assert called(graph, weights) == [f"mkldnn._convolution_pointwise({name})"]


@pytest.mark.parametrize(
    ("activation", "bounds", "returned"),
    [
        ("relu.default", (), ("c", "r")),
        ("leaky_relu.default", (), ("r",)),
        ("clamp_min.default", (0.5,), ("r",)),
    ],
    ids=["read outside", "not fused by torch", "not fused by us"],
)
def test_other_activations_stay_apart(
    activation: str, bounds: tuple[float, ...], returned: tuple[str, ...]
) -> None:
    graph, weights = convolution(activation=activation, bounds=bounds, returned=returned)
    assert called(graph, weights) == ["mkldnn._convolution_pointwise(none)", f"aten.{activation}"]


def test_small_convolutions_are_called_as_ever() -> None:
    graph, weights = convolution(channels=4, size=5)
    assert called(graph, weights) == ["aten.conv2d.default", "aten.relu.default"]


def test_other_element_types_are_left_alone() -> None:
    graph, weights = convolution()
    double = {name: replace(spec, dtype="float64") for name, spec in graph.values.items()}
    graph = replace(graph, values=double)
    weights = {name: weight.double() for name, weight in weights.items()}
    assert called(graph, weights) == ["aten.conv2d.default", "aten.relu.default"]


def test_a_weight_of_the_wrong_shape_fails_when_it_is_used() -> None:
    graph, weights = convolution()
    (unit,) = graph.units
    wrong = {**weights, "w": weights["w"][:, :-1]}
    compiled = create("aten").compile(graph, unit, wrong, threads=1)
    with pytest.raises(RuntimeError, match="channels"):
        compiled.function(random_inputs(graph, 0)["x"])


def test_a_large_linear_layer_and_its_activation_are_one_call() -> None:
    assert called(*unit_graph("linear")) == ["mkldnn._linear_pointwise(gelu)"]
    graph, _ = unit_graph("linear")
    linear, gelu = graph.operators
    shapes = {name: spec.shape for name, spec in graph.values.items()}
    approximate = replace(gelu, keywords=(("approximate", "tanh"),))
    assert called(*one_unit([linear, approximate], shapes, ("g",))) == [
        "mkldnn._linear_pointwise(gelu)"
    ]
    relu = replace(gelu, target="aten.relu.default")
    without_bias = replace(linear, arguments=linear.arguments[:2])
    del shapes["b"]
    assert called(*one_unit([without_bias, relu], shapes, ("g",))) == [
        "mkldnn._linear_pointwise(relu)"
    ]
    small = {**shapes, "x": (4, 512), "l": (4, 128), "g": (4, 128)}
    assert called(*one_unit([without_bias, relu], small, ("g",))) == [
        "aten.linear.default",
        "aten.relu.default",
    ]
