"""Graphs of one Unit each, of the kinds that kernel providers treat differently."""

from __future__ import annotations

import torch
from torch import Tensor

from workers.graph.graph import Argument, Graph, Operator, TensorSpec, ValueRef
from workers.graph.units import operator_units, regroup

UNITS = ("convolution", "linear", "elementwise")
"""Names for ``unit_graph``: convolution and relu, linear layer and gelu, and a chain of four
element-wise operators with two inputs and two outputs."""

X, W, B = ValueRef("x"), ValueRef("w"), ValueRef("b")


def call(name: str, target: str, *arguments: Argument, **keywords: Argument) -> Operator:
    return Operator(name, f"aten.{target}", arguments, tuple(keywords.items()), (name,))


def unit_graph(case: str) -> tuple[Graph, dict[str, Tensor]]:
    """The graph of that name and random weights for it."""
    if case == "convolution":
        return convolution()
    if case == "linear":
        operators = [
            call("l", "linear.default", X, W, B),
            call("g", "gelu.default", ValueRef("l")),
        ]
        shapes = {"x": (256, 512), "w": (128, 512), "b": (128,), "l": (256, 128), "g": (256, 128)}
        return one_unit(operators, shapes, ("g",))
    y, s, m = ValueRef("y"), ValueRef("s"), ValueRef("m")
    operators = [
        call("s", "add.Tensor", X, y, alpha=2),
        call("m", "mul.Tensor", s, y),
        call("t", "tanh.default", m),
        call("d", "sub.Tensor", ValueRef("t"), s),
    ]
    return one_unit(operators, dict.fromkeys("xysmtd", (16, 40)), ("t", "d"))


def convolution(
    channels: int = 24,
    size: int = 20,
    activation: str = "relu.default",
    bounds: tuple[float, ...] = (),
    returned: tuple[str, ...] = ("r",),
    **keywords: Argument,
) -> tuple[Graph, dict[str, Tensor]]:
    """A 3 × 3 convolution of two groups, stride 2 down and 1 across, and an activation."""
    operators = [
        call("c", "conv2d.default", X, W, B, (2, 1), (1, 0), (1, 1), 2),
        call("r", activation, ValueRef("c"), *bounds, **keywords),
    ]
    result = (2, 2 * channels, (size + 1) // 2, size - 2)
    shapes = {
        "x": (2, channels, size, size),
        "w": (2 * channels, channels // 2, 3, 3),
        "b": (2 * channels,),
        "c": result,
        "r": result,
    }
    return one_unit(operators, shapes, returned)


def one_unit(
    operators: list[Operator], shapes: dict[str, tuple[int, ...]], outputs: tuple[str, ...]
) -> tuple[Graph, dict[str, Tensor]]:
    """A graph of one Unit; ``w`` and ``b`` are its weights, ``x`` and ``y`` its inputs."""
    graph = operator_units(
        name="unit",
        inputs=tuple(name for name in ("x", "y") if name in shapes),
        outputs=outputs,
        weights=tuple(name for name in ("w", "b") if name in shapes),
        values={name: TensorSpec(shape, "float32") for name, shape in shapes.items()},
        operators=operators,
    )
    generator = torch.Generator().manual_seed(3)
    weights = {
        name: torch.randn(graph.values[name].shape, generator=generator) / 4
        for name in graph.weights
    }
    return regroup(graph, [operators]), weights
