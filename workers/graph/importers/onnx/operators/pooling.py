"""Pooling over windows and over all of an image."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.padding import padded
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    onnx_operator_with_outputs,
)
from workers.graph.importers.onnx.operators.windows import window_pads
from workers.graph.importers.onnx.recorder import Value

_MOST_AXES = 3  # that ATen pools over


@onnx_operator_with_outputs("MaxPool")
def _max_pool(n: Node) -> Sequence[Value]:
    x = n[0]
    axes = x.rank - 2
    kernel = n.integers("kernel_shape")
    strides, dilations = n.integers("strides", [1] * axes), n.integers("dilations", [1] * axes)
    before, after = window_pads(n, x.shape[2:], kernel, strides, dilations)
    grown, ceil = before, bool(n.integer("ceil_mode", 0))
    kept = x.dtype
    if not kept.is_floating_point:
        x = n.cast(x, torch.float32)  # eight bits are exact in it
    uneven = before != after or any(
        2 * pad > length for pad, length in zip(before, kernel, strict=True)
    )
    if uneven:
        x = padded(n, x, [0, 0, *before], [0, 0, *after], -math.inf)
        before = [0] * axes
    window = (kernel, strides, before, dilations, ceil)
    if not n.wants(1):
        return (n.cast(n.call(f"max_pool{axes}d.default", x, *window), kept),)
    if axes == 1:
        flat = n.call("unsqueeze.default", x, 2)
        found, places = n.call_all(
            "max_pool2d_with_indices.default", flat, [1, *kernel], [1, *strides], [0, *before],
            [1, *dilations], ceil,
        )  # fmt: skip
        found, places = (n.call("squeeze.dim", value, 2) for value in (found, places))
    else:
        found, places = n.call_all(f"max_pool{axes}d_with_indices.default", x, *window)
    return n.cast(found, kept), _indices(n, places, x.shape, grown if uneven else before)


def _indices(n: Node, places: Value, grown: Sequence[int], before: Sequence[int]) -> Value:
    """torch counts within a channel of what it pools, ONNX within the whole tensor; and, with
    ``storage_order`` 1, along columns."""
    x = n[0]
    axes = x.rank - 2
    rest, coordinates = places, []
    for axis in reversed(range(axes)):
        size = grown[2 + axis]
        coordinates.append(n.call("remainder.Scalar", rest, size))
        rest = n.call("div.Scalar_mode", rest, size, rounding_mode="trunc")
    coordinates.reverse()
    if tuple(grown) != x.shape:
        coordinates = [
            n.call("sub.Tensor", place, pad) for place, pad in zip(coordinates, before, strict=True)
        ]
    order = list(range(axes)) if n.integer("storage_order", 0) == 0 else list(range(axes))[::-1]
    channel = n.constant(0, torch.int64)
    for axis in order:
        scaled = n.call("mul.Tensor", channel, x.shape[2 + axis])
        channel = n.call("add.Tensor", scaled, coordinates[axis])
    planes = torch.arange(x.shape[0] * x.shape[1]) * math.prod(x.shape[2:])
    starts = Value(planes.reshape(x.shape[0], x.shape[1], *[1] * axes))
    return n.call("add.Tensor", channel, starts)


@onnx_operator("AveragePool")
def _average_pool(n: Node) -> Value:
    x = n[0]
    axes = x.rank - 2
    kernel = n.integers("kernel_shape")
    strides, dilations = n.integers("strides", [1] * axes), n.integers("dilations", [1] * axes)
    before, after = window_pads(n, x.shape[2:], kernel, strides, dilations)
    ceil, counted = bool(n.integer("ceil_mode", 0)), bool(n.integer("count_include_pad", 0))
    plain = all(d == 1 for d in dilations) and before == after
    plain = plain and all(2 * pad <= length for pad, length in zip(before, kernel, strict=True))
    if plain and axes <= _MOST_AXES:
        return n.call(f"avg_pool{axes}d.default", x, kernel, strides, before, ceil, counted)
    return windowed_mean(n, x, kernel, strides, dilations, before, after, ceil, counted)


def windowed_mean(
    n: Node, x: Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    before: Sequence[int], after: Sequence[int], ceil: bool, counted: bool,
) -> Value:  # fmt: skip
    """The mean over each window, for windows that ATen's pooling does not know: a convolution of
    each channel with ones, divided by how many elements each window has."""
    axes = x.rank - 2
    padding = list(after)
    for axis in range(axes):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        size = x.shape[2 + axis] + before[axis] + after[axis]
        over = (size - reach) % strides[axis]
        windows = (size - reach) // strides[axis] + 1
        if ceil and over and windows * strides[axis] < x.shape[2 + axis] + before[axis]:
            padding[axis] += strides[axis] - over
    grown = padded(n, x, [0, 0, *before], [0, 0, *padding], 0)
    inside = torch.ones(x.shape[2:])
    if counted:
        inside = torch.nn.functional.pad(inside, _both(before, after), value=1.0)
        inside = torch.nn.functional.pad(
            inside, _both([0] * axes, [p - a for p, a in zip(padding, after, strict=True)])
        )
    else:
        inside = torch.nn.functional.pad(inside, _both(before, padding))
    ones = torch.ones(1, 1, *kernel)
    shared = (list(strides), [0] * axes, list(dilations), 1)
    count = n.call(f"conv{axes}d.default", Value(inside[None, None]), Value(ones), None, *shared)
    planes = n.reshape(grown, [x.shape[0] * x.shape[1], 1, *grown.shape[2:]])
    total = n.call(f"conv{axes}d.default", planes, Value(ones.to(x.dtype)), None, *shared)
    mean = n.call("div.Tensor", total, Value(count.tensor.to(x.dtype)))
    return n.reshape(mean, [*x.shape[:2], *mean.shape[2:]])


def _both(before: Sequence[int], after: Sequence[int]) -> list[int]:
    return [count for axis in reversed(range(len(before))) for count in (before[axis], after[axis])]


@onnx_operator("LpPool")
def _lp_pool(n: Node) -> Value:
    x, power = n[0], n.integer("p", 2)
    axes = x.rank - 2
    kernel = n.integers("kernel_shape")
    strides, dilations = n.integers("strides", [1] * axes), n.integers("dilations", [1] * axes)
    before, after = window_pads(n, x.shape[2:], kernel, strides, dilations)
    raised = n.call("pow.Tensor_Scalar", n.call("abs.default", x), power)
    ceil = bool(n.integer("ceil_mode", 0))
    mean = windowed_mean(n, raised, kernel, strides, dilations, before, after, ceil, True)
    full = n.call("mul.Tensor", mean, math.prod(kernel))
    return n.call("pow.Tensor_Scalar", full, 1.0 / power)


@onnx_operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(n: Node) -> Value:
    x = n[0]
    axes = list(range(2, x.rank))
    if n.op_type == "GlobalAveragePool":
        return n.call("mean.dim", x, axes, True)
    if n.op_type == "GlobalMaxPool":
        return n.call("amax.default", x, axes, True)
    return n.call("linalg_vector_norm.default", x, n.integer("p", 2), axes, True)


@onnx_operator("MaxUnpool")
def _max_unpool(n: Node) -> Value:
    x, places = n[0], n[1]
    axes = x.rank - 2
    kernel, strides = n.integers("kernel_shape"), n.integers("strides", [1] * axes)
    pads = n.integers("pads", [0] * 2 * axes)
    pooled = [
        (x.shape[2 + i] - 1) * strides[i] - pads[i] - pads[axes + i] + kernel[i]
        for i in range(axes)
    ]
    inner = [*x.shape[:2], *pooled]
    shape = n.known_ints(2) if n.optional(2) is not None else inner
    if shape != inner:  # the places count in what was pooled, not in what is asked for
        coordinates, rest = [], places
        for size in reversed(inner):
            coordinates.append(n.call("remainder.Scalar", rest, size))
            rest = n.call("div.Scalar_mode", rest, size, rounding_mode="trunc")
        places = n.constant(0, torch.int64)
        for size, place in zip(shape, reversed(coordinates), strict=True):
            places = n.call("add.Tensor", n.call("mul.Tensor", places, size), place)
    empty = Value(torch.zeros(math.prod(shape), dtype=x.dtype))
    count = [math.prod(x.shape)]
    filled = n.call("scatter.src", empty, 0, n.reshape(places, count), n.reshape(x, count))
    return n.reshape(filled, shape)
