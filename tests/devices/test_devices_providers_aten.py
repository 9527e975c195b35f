"""What the provider of PyTorch's own kernels fuses, and what it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.unit_graphs import convolution, one_unit, unit_graph
from torch import Tensor

from workers.devices.providers import create
from workers.graph.graph import Graph
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs

ROOT = Path(__file__).parents[2]


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


_TWO_RUNS = """
import os, torch
from support.unit_graphs import ValueRef, call, one_unit
from workers.devices.cpu import CpuDevice
from workers.graph.random_inputs import random_inputs
from workers.schedules.plan import Launch, Plan, Stream

x, w = ValueRef("x"), ValueRef("w")
shapes = {"x": (1, 256, 14, 14), "w": (1024, 256, 1, 1), "c": (1, 1024, 14, 14)}
graph, weights = one_unit([call("c", "conv2d.default", x, w)], shapes, ("c",))
inputs = {"x": random_inputs(graph, 0)["x"].contiguous(memory_format=torch.channels_last)}
device = CpuDevice()
with device.prepare(graph, weights, Plan((Stream(2),), (Launch("c", 0),))) as executable:
    executable.run(inputs)
    print("again", flush=True)
    executable.run(inputs)
device.close()
"""


def test_weights_are_packed_for_the_threads_of_the_stream() -> None:
    """oneDNN tells of all that it runs; 1024 channels are packed otherwise for one thread."""
    done = subprocess.run(
        [sys.executable, "-c", _TWO_RUNS],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "ONEDNN_VERBOSE": "1", "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}"},
    )
    again = [line for line in done.stdout.partition("again\n")[2].splitlines() if "exec" in line]
    assert ["convolution" in line for line in again] == [True], done.stdout
