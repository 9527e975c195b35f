"""Quantised models: computed in the numbers that the integers stand for.

A Graph's operators are those of floating point and of plain integers, which every device has, so
that a quantised model becomes its dequantised form: the results are those of the quantised
operators, the speed is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.convolution import convolution
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    onnx_operator_with_outputs,
)
from workers.graph.importers.onnx.recorder import Value
from workers.graph.importers.onnx.tensors import dtype_of


def _spread(n: Node, value: Value, x: Value, axis: int, block: int) -> Value:
    """A scale or zero point in a shape that broadcasts with ``x``: of the whole tensor, of each
    slice along ``axis``, or of each block of slices."""
    if value.rank == 0 or value.shape == (1,):
        return n.reshape(value, [])
    if value.rank == 1:
        shape = [1] * x.rank
        shape[axis] = value.shape[0]
        return n.reshape(value, shape)
    if not block:
        block = -(-x.shape[axis] // value.shape[axis])
    places = torch.arange(x.shape[axis]) // block
    return n.call("index_select.default", value, axis, Value(places))


def _limits(dtype: torch.dtype) -> tuple[int, int]:
    info = torch.iinfo(dtype)
    return info.min, info.max


def quantised(
    n: Node, x: Value, scale: Value, zero: Value | None, dtype: torch.dtype, axis: int, block: int
) -> Value:
    """round(x / scale) + zero, held within ``dtype``; halves are rounded to even."""
    low, high = _limits(dtype)
    steps = n.call("div.Tensor", x, _spread(n, scale, x, axis, block))
    rounded = n.call("round.default", steps)
    if zero is not None:
        shift = n.cast(_spread(n, zero, x, axis, block), x.dtype)
        rounded = n.call("add.Tensor", rounded, shift)
    held = n.call("clamp.default", rounded, low, high)
    return n.cast(n.cast(held, torch.int32), dtype)


def dequantised(
    n: Node, x: Value, scale: Value, zero: Value | None, axis: int = 0, block: int = 0
) -> Value:
    """(x - zero) · scale, in the scale's type."""
    numbers = n.cast(x, torch.int32)
    if zero is not None:
        shift = n.cast(_spread(n, zero, x, axis, block), torch.int32)
        numbers = n.call("sub.Tensor", numbers, shift)
    by = _spread(n, scale, x, axis, block)
    return n.call("mul.Tensor", n.cast(numbers, scale.dtype), by)


@onnx_operator("QuantizeLinear")
def _quantize_linear(n: Node) -> Value:
    x, scale, zero = n[0], n[1], n.optional(2)
    dtype = zero.dtype if zero is not None else torch.uint8
    if zero is None and n.integer("output_dtype", 0):
        dtype = dtype_of(n.integer("output_dtype"), "its result")
    if x.dtype is torch.int32:
        x = n.cast(x, torch.float32)
    if n.integer("precision", 0):
        precise = dtype_of(n.integer("precision"), "its precision")
        x, scale = n.cast(x, precise), n.cast(scale, precise)
    else:
        scale = n.cast(scale, x.dtype)
    axis = n.on(n.integer("axis", 1), x.rank) if x.rank > 1 else 0
    return quantised(n, x, scale, zero, dtype, axis, n.integer("block_size", 0))


@onnx_operator("DequantizeLinear")
def _dequantize_linear(n: Node) -> Value:
    x = n[0]
    axis = n.on(n.integer("axis", 1), x.rank) if x.rank > 1 else 0
    result = dequantised(n, x, n[1], n.optional(2), axis, n.integer("block_size", 0))
    if n.integer("output_dtype", 0):
        return n.cast(result, dtype_of(n.integer("output_dtype"), "its result"))
    return result


@onnx_operator_with_outputs("DynamicQuantizeLinear")
def _dynamic_quantize_linear(n: Node) -> Sequence[Value]:
    x = n[0]
    high = n.call("clamp_min.default", n.call("max.default", x), 0.0)
    low = n.call("clamp_max.default", n.call("min.default", x), 0.0)
    scale = n.call("div.Tensor", n.call("sub.Tensor", high, low), 255.0)
    start = n.call("round.default", n.call("div.Tensor", n.call("neg.default", low), scale))
    zero = n.cast(n.cast(n.call("clamp.default", start, 0, 255), torch.int32), torch.uint8)
    return quantised(n, x, scale, zero, torch.uint8, 0, 0), scale, zero


@onnx_operator("QLinearConv")
def _q_linear_conv(n: Node) -> Value:
    """Inputs: x, its scale and zero point, w, its own, the result's, and an int32 bias of scale
    x_scale · w_scale. Computed in float64, in which the sums of the integers are exact."""
    exact = torch.float64
    x = n.cast(_shifted(n, n[0], n[2], 1), exact)
    weight = n.cast(_shifted(n, n[3], n[5], 0), exact)
    bias = n.optional(8)
    total = convolution(n, x, weight, None if bias is None else n.cast(bias, exact))
    product = n.call("mul.Tensor", n.cast(n[1], exact), n.cast(n[4], exact))
    factor = n.call("div.Tensor", product, n.cast(n[6], exact))
    scaled = n.call("mul.Tensor", total, _spread(n, factor, total, 1, 0))
    return _requantised(n, scaled, n[7])


@onnx_operator("QLinearMatMul")
def _q_linear_matmul(n: Node) -> Value:
    exact = torch.float64
    a, b = n[0], n[3]
    product = n.call(
        "matmul.default",
        n.cast(_shifted(n, a, n[2], max(a.rank - 2, 0)), exact),
        n.cast(_shifted(n, b, n[5], b.rank - 1), exact),
    )
    rows = _spread_rows(n, n.cast(n[1], exact), product)
    columns = _spread(n, n.cast(n[4], exact), product, product.rank - 1, 0)
    factor = n.call("div.Tensor", n.call("mul.Tensor", rows, columns), n.cast(n[6], exact))
    return _requantised(n, n.call("mul.Tensor", product, factor), n[7])


def _spread_rows(n: Node, scale: Value, product: Value) -> Value:
    return _spread(n, scale, product, max(product.rank - 2, 0), 0)


def _shifted(n: Node, x: Value, zero: Value | None, axis: int) -> Value:
    """x - zero, as integers of 32 bits."""
    numbers = n.cast(x, torch.int32)
    if zero is None:
        return numbers
    shift = _spread(n, n.cast(zero, torch.int32), x, axis, 0)
    return n.call("sub.Tensor", numbers, shift)


def _requantised(n: Node, scaled: Value, zero: Value) -> Value:
    low, high = _limits(zero.dtype)
    shift = n.reshape(n.cast(zero, torch.float64), [])
    moved = n.call("add.Tensor", n.call("round.default", scaled), shift)
    held = n.call("clamp.default", moved, low, high)
    return n.cast(n.cast(held, torch.int32), zero.dtype)


@onnx_operator("MatMulInteger")
def _matmul_integer(n: Node) -> Value:
    a, b = n[0], n[1]
    left = _shifted(n, a, n.optional(2), max(a.rank - 2, 0))
    right = _shifted(n, b, n.optional(3), b.rank - 1)
    product = n.call("matmul.default", n.cast(left, torch.float64), n.cast(right, torch.float64))
    return n.cast(product, torch.int32)


@onnx_operator("ConvInteger")
def _conv_integer(n: Node) -> Value:
    x = n.cast(_shifted(n, n[0], n.optional(2), 1), torch.float64)
    weight = n.cast(_shifted(n, n[1], n.optional(3), 0), torch.float64)
    return n.cast(convolution(n, x, weight, None), torch.int32)
