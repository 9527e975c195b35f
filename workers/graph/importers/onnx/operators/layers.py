"""Convolutions, pooling, products of matrices and normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    onnx_operator_with_outputs,
)
from workers.graph.importers.onnx.operators.shapes import padded
from workers.graph.importers.onnx.recorder import Value

_MOST_AXES = 3  # that ATen convolves over


def window_pads(
    n: Node, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[list[int], list[int]]:  # fmt: skip
    """How much is put before and after each spatial axis, by ``pads`` or by ``auto_pad``."""
    mode = n.text("auto_pad", "NOTSET")
    axes = len(sizes)
    if mode in ("NOTSET", ""):
        pads = n.integers("pads", [0] * 2 * axes)
        return pads[:axes], pads[axes:]
    if mode == "VALID":
        return [0] * axes, [0] * axes
    before, after = [], []
    for size, length, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        reach = (length - 1) * dilation + 1
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        less = total // 2
        before.append(total - less if mode == "SAME_LOWER" else less)
        after.append(less if mode == "SAME_LOWER" else total - less)
    return before, after


@onnx_operator("Conv")
def _conv(n: Node) -> Value:
    return convolution(n, n[0], n[1], n.optional(2))


def convolution(n: Node, x: Value, weight: Value, bias: Value | None) -> Value:
    """The convolution that the node's attributes describe."""
    axes = x.rank - 2
    if not 1 <= axes <= _MOST_AXES:
        raise n.refuse(f"a convolution over {axes} axes; 1 to {_MOST_AXES} are supported")
    kernel = list(weight.shape[2:])
    strides, dilations = n.integers("strides", [1] * axes), n.integers("dilations", [1] * axes)
    before, after = window_pads(n, x.shape[2:], kernel, strides, dilations)
    if before != after:
        x = padded(n, x, [0, 0, *before], [0, 0, *after], 0)
        before = [0] * axes
    return n.call(
        f"conv{axes}d.default", x, weight, bias, strides, before, dilations, n.integer("group", 1)
    )


@onnx_operator("ConvTranspose")
def _conv_transpose(n: Node) -> Value:
    x, weight, bias = n[0], n[1], n.optional(2)
    axes = x.rank - 2
    if not 1 <= axes <= _MOST_AXES:
        raise n.refuse(f"a convolution over {axes} axes; 1 to {_MOST_AXES} are supported")
    strides, dilations = n.integers("strides", [1] * axes), n.integers("dilations", [1] * axes)
    extra = n.integers("output_padding", [0] * axes)
    full = [
        (size - 1) * stride + (length - 1) * dilation + 1
        for size, stride, length, dilation in zip(
            x.shape[2:], strides, weight.shape[2:], dilations, strict=True
        )
    ]
    before, after = _transposed_pads(n, x.shape[2:], full, strides, extra)
    # Computed in full, then cut at the ends, or grown where more is asked for than there is.
    variant = "default" if axes == 1 else "input"
    zeros = [0] * axes
    whole = n.call(
        f"conv_transpose{axes}d.{variant}", x, weight,
        None if before != after or any(extra) else bias,
        strides, before if before == after and not any(extra) else zeros, zeros,
        n.integer("group", 1), dilations,
    )  # fmt: skip
    if before == after and not any(extra):
        return whole
    ends = [more - cut for more, cut in zip(extra, after, strict=True)]
    cut = padded(n, whole, [0, 0, *(-b for b in before)], [0, 0, *ends], 0)
    if bias is None:
        return cut
    return n.call("add.Tensor", cut, n.reshape(bias, [-1, *[1] * axes]))


def _transposed_pads(
    n: Node, sizes: Sequence[int], full: Sequence[int], strides: Sequence[int], extra: Sequence[int]
) -> tuple[list[int], list[int]]:
    axes = len(sizes)
    mode = n.text("auto_pad", "NOTSET")
    if not n.has("output_shape") and mode in ("NOTSET", "", "VALID"):
        pads = n.integers("pads", [0] * 2 * axes)
        return pads[:axes], pads[axes:]
    wanted = (
        n.integers("output_shape")[-axes:]
        if n.has("output_shape")
        else [size * stride for size, stride in zip(sizes, strides, strict=True)]
    )
    before, after = [], []
    for length, more, target in zip(full, extra, wanted, strict=True):
        total = length + more - target
        half = total // 2
        before.append(half if mode == "SAME_UPPER" else total - half)
        after.append(total - half if mode == "SAME_UPPER" else half)
    return before, after


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


@onnx_operator("Gemm")
def _gemm(n: Node) -> Value:
    a, b, c = n[0], n[1], n.optional(2)
    alpha, beta = n.number("alpha", 1.0), n.number("beta", 1.0)
    if n.integer("transA", 0):
        a = n.call("transpose.int", a, 0, 1)
    if not a.dtype.is_floating_point:
        return _integer_gemm(n, a, b, c, alpha, beta)
    transposed = n.integer("transB", 0)
    weight = b if transposed else _transposed(n, b)
    is_bias = c is None or (c.rank == 1 and c.shape[0] in (1, weight.shape[0]))
    if alpha == beta == 1.0 and is_bias:
        if c is not None and c.shape != (weight.shape[0],):
            c = n.call("expand.default", c, [weight.shape[0]])
        return n.call("linear.default", a, weight, c)
    product = n.call("mm.default", a, n.call("transpose.int", b, 0, 1) if transposed else b)
    if alpha != 1.0:
        product = n.call("mul.Tensor", product, alpha)
    if c is None:
        return product
    return n.call("add.Tensor", product, c if beta == 1.0 else n.call("mul.Tensor", c, beta))


def _transposed(n: Node, b: Value) -> Value:
    return n.recorder.transposed(b) if b.constant else n.call("transpose.int", b, 0, 1)


def _integer_gemm(n: Node, a: Value, b: Value, c: Value | None, alpha: float, beta: float) -> Value:
    if n.integer("transB", 0):
        b = n.call("transpose.int", b, 0, 1)
    product = n.call("mm.default", n.cast(a, torch.int64), n.cast(b, torch.int64))
    if alpha != 1.0:
        product = n.cast(n.call("mul.Tensor", product, alpha), torch.int64)
    if c is not None:
        added = n.cast(c, torch.int64)
        if beta != 1.0:
            added = n.cast(n.call("mul.Tensor", added, beta), torch.int64)
        product = n.call("add.Tensor", product, added)
    return n.cast(product, n[0].dtype)


@onnx_operator("MatMul")
def _matmul(n: Node) -> Value:
    return matmul(n, n[0], n[1])


def matmul(n: Node, a: Value, b: Value) -> Value:
    """A product with broadcasting; a constant matrix on the right is a linear layer's weight."""
    if not a.dtype.is_floating_point:
        product = n.call("matmul.default", n.cast(a, torch.int64), n.cast(b, torch.int64))
        return n.cast(product, a.dtype)
    if b.constant and b.rank == 2 and a.rank >= 2 and not a.constant:
        return n.call("linear.default", a, n.recorder.transposed(b))
    return n.call("matmul.default", a, b)


@onnx_operator("Det")
def _det(n: Node) -> Value:
    return n.call_all("_linalg_det.default", n[0])[0]


@onnx_operator("Einsum")
def _einsum(n: Node) -> Value:
    equation = n.text("equation")
    (result,) = n.recorder.trace(lambda *tensors: torch.einsum(equation, *tensors), *n.inputs)
    return result


@onnx_operator_with_outputs("BatchNormalization")
def _batch_normalization(n: Node) -> Sequence[Value]:
    x, scale, bias, mean, variance = (n[index] for index in range(5))
    epsilon = n.number("epsilon", 1e-5)
    training = bool(n.integer("training_mode", 0)) or (
        n.version < 7 and not n.integer("is_test", 0)
    )
    if not training:
        normalised, _, _ = n.call_all(
            "_native_batch_norm_legit_no_training.default",
            x, scale, bias, mean, variance, 0.0, epsilon,
        )  # fmt: skip
        return (normalised,)
    axes = [axis for axis in range(x.rank) if axis != 1]
    momentum = n.number("momentum", 0.9)
    now = n.call("mean.dim", x, axes)
    spread = n.call("var.correction", x, axes, correction=0)
    normalised, _, _ = n.call_all(
        "_native_batch_norm_legit_no_training.default", x, scale, bias, now, spread, 0.0, epsilon
    )
    running = [
        n.call(
            "add.Tensor",
            n.call("mul.Tensor", old, momentum),
            n.call("mul.Tensor", new, 1 - momentum),
        )
        for old, new in ((mean, now), (variance, spread))
    ]
    return normalised, *running


@onnx_operator("InstanceNormalization")
def _instance_normalization(n: Node) -> Value:
    x = n[0]
    channels = x.shape[1]
    return n.call("group_norm.default", x, channels, n[1], n[2], n.number("epsilon", 1e-5))


@onnx_operator("GroupNormalization", since=21)
def _group_normalization(n: Node) -> Value:
    return n.call(
        "group_norm.default", n[0], n.integer("num_groups"), n[1], n[2], n.number("epsilon", 1e-5)
    )


@onnx_operator_with_outputs("LayerNormalization")
def _layer_normalization(n: Node) -> Sequence[Value]:
    x, scale, bias = n[0], n[1], n.optional(2)
    axis = n.axis("axis", x.rank, -1)
    shape = list(x.shape[axis:])
    epsilon = n.number("epsilon", 1e-5)
    fits = scale.shape == tuple(shape) and (bias is None or bias.shape == tuple(shape))
    if fits and not n.wants(1) and not n.wants(2):
        return (n.call("layer_norm.default", x, shape, scale, bias, epsilon),)
    plain, mean, inverse = n.call_all("native_layer_norm.default", x, shape, None, None, epsilon)
    scaled = n.call("mul.Tensor", plain, scale)
    return scaled if bias is None else n.call("add.Tensor", scaled, bias), mean, inverse


@onnx_operator("RMSNormalization")
def _rms_normalization(n: Node) -> Value:
    x, scale = n[0], n[1]
    axis = n.axis("axis", x.rank, -1)
    shape = list(x.shape[axis:])
    epsilon = n.number("epsilon", 1e-5)
    if scale.shape == tuple(shape):
        return n.call("rms_norm.default", x, shape, scale, epsilon)
    plain = n.call("rms_norm.default", x, shape, None, epsilon)
    return n.call("mul.Tensor", plain, scale)


@onnx_operator("LRN")
def _lrn(n: Node) -> Value:
    x, size = n[0], n.integer("size")
    alpha, beta, bias = n.number("alpha", 1e-4), n.number("beta", 0.75), n.number("bias", 1.0)
    before = (size - 1) // 2
    square = n.call("mul.Tensor", x, x)
    flat = n.reshape(square, [x.shape[0], 1, x.shape[1], math.prod(x.shape[2:])])
    grown = padded(n, flat, [0, 0, before, 0], [0, 0, size - 1 - before, 0], 0)
    mean = n.call("avg_pool2d.default", grown, [size, 1], [1, 1])
    divisor = n.call("add.Tensor", n.call("mul.Tensor", mean, alpha), bias)
    power = n.call("pow.Tensor_Scalar", divisor, beta)
    return n.call("div.Tensor", x, n.reshape(power, x.shape))


@onnx_operator("LpNormalization")
def _lp_normalization(n: Node) -> Value:
    axis = n.axis("axis", n[0].rank, -1)
    norm = n.call("linalg_vector_norm.default", n[0], n.integer("p", 2), [axis], True)
    scaled = n.call("div.Tensor", n[0], norm)
    empty = n.call("eq.Scalar", norm, 0)
    return n.call("where.self", empty, n.constant(0, n[0].dtype), scaled)


@onnx_operator("MeanVarianceNormalization")
def _mean_variance_normalization(n: Node) -> Value:
    axes = n.integers("axes", [0, 2, 3])
    centred = n.call("sub.Tensor", n[0], n.call("mean.dim", n[0], axes, True))
    spread = n.call("std.correction", n[0], axes, correction=0, keepdim=True)
    return n.call("div.Tensor", centred, n.call("add.Tensor", spread, 1e-9))
