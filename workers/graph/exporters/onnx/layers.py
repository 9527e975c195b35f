"""Convolutions, products, pooling, normalisation, reductions and softmax as ONNX nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from workers.graph.exporters.onnx.call import Call, Description, Value


def _convolution(op_type: str, *more: str) -> Description:
    """Convolutions of any rank; ``more`` are arguments that only this kind has."""

    def describe(call: Call) -> str:
        x, weight, bias = call.value("input"), call.value("weight"), call.optional("bias")
        rank = weight.rank - 2
        if x.rank != weight.rank:
            raise call.error("its input has no batch dimension")
        return call.node(
            op_type,
            x,
            weight,
            bias,
            kernel_shape=weight.shape[2:],
            strides=call.sizes("stride", rank),
            pads=call.sizes("padding", rank) * 2,
            dilations=call.sizes("dilation", rank),
            group=call.whole("groups"),
            **{name: call.sizes(name, rank) for name in more},
        )

    return describe


def _linear(call: Call) -> str:
    x, weight, bias = call.value("input"), call.value("weight"), call.optional("bias")
    if weight.rank != 2:
        raise call.error("its weight is no matrix")
    if x.rank == 2 and (bias is None or bias.rank <= 1):
        return call.node("Gemm", x, weight, bias, transB=1)
    # The runtime transposes a constant once and for all.
    transposed = call.node("Transpose", weight, perm=(1, 0))
    result = call.node("MatMul", x, transposed)
    return call.node("Add", result, bias) if bias else result


def _product(*operands: str) -> Description:
    def describe(call: Call) -> str:
        return call.node("MatMul", *(call.value(name) for name in operands))

    return describe


def _addmm(call: Call) -> str:
    a, b, c = call.value("mat1"), call.value("mat2"), call.value("self")
    return call.node(
        "Gemm",
        a,
        b,
        c,
        alpha=float(call.number("alpha")),
        beta=float(call.number("beta")),
    )


def _max_pool(rank: int) -> Description:
    return lambda call: _pool(call, "MaxPool", rank, call.sizes("dilation", rank))


def _average_pool(rank: int) -> Description:
    def describe(call: Call) -> str:
        include = call.flag("count_include_pad") and any(call.sizes("padding", rank))
        return _pool(call, "AveragePool", rank, (1,) * rank, include)

    return describe


def _pool(
    call: Call, op_type: str, rank: int, dilation: Sequence[int], include: bool = False
) -> str:
    """Pooling whose padding at the end reaches as far as its last window.

    That is what rounding up means to torch; of windows that reach over the stated padding, ONNX's
    own ``ceil_mode`` has had several readings.
    """
    x = _batch(call, rank)
    kernel, padding = call.sizes("kernel_size", rank), call.sizes("padding", rank)
    stride = call.sizes("stride", rank) if call.argument("stride") else kernel
    call.argument("ceil_mode")
    ends = []
    for size, out, k, s, d, p in zip(
        x.shape[2:], call.result.shape[2:], kernel, stride, dilation, padding, strict=True
    ):
        end = max(p, (out - 1) * s + d * (k - 1) + 1 - size - p)
        if end >= k:
            raise call.error(f"its last window would be padded by {end} of {k}")
        if end > p and include:
            raise call.error("its mean counts padding, and its windows reach over the padding")
        ends.append(end)
    attributes: dict[str, Any] = {"count_include_pad": 1} if include else {}
    if any(d > 1 for d in dilation):
        attributes["dilations"] = dilation
    return call.node(
        op_type, x, kernel_shape=kernel, strides=stride, pads=(*padding, *ends), **attributes
    )


def _adaptive_pool(rank: int) -> Description:
    def describe(call: Call) -> str:
        x, sizes = _batch(call, rank), call.result.shape[2:]
        call.argument("output_size")
        if all(size == 1 for size in sizes):
            return call.node("GlobalAveragePool", x)
        if any(out == 0 or size % out for size, out in zip(x.shape[2:], sizes, strict=True)):
            raise call.error(f"its windows differ: {x.shape[2:]} to {sizes}")
        kernel = tuple(size // out for size, out in zip(x.shape[2:], sizes, strict=True))
        return call.node("AveragePool", x, kernel_shape=kernel, strides=kernel)

    return describe


def _batch(call: Call, rank: int) -> Value:
    """The input, a batch of ``rank``-dimensional images, which is all that ONNX pools."""
    x = call.value("self")
    if x.rank != rank + 2:
        raise call.error("its input has no batch dimension")
    return x


def _batch_norm(call: Call) -> str:
    x = call.value("input")
    channels = x.shape[1]
    weight, bias = call.optional("weight"), call.optional("bias")
    return call.node(
        "BatchNormalization",
        x,
        weight or call.filled(1, channels, x.dtype),
        bias or call.filled(0, channels, x.dtype),
        call.value("running_mean"),
        call.value("running_var"),
        epsilon=float(call.number("eps")),
    )


def _layer_norm(call: Call) -> str:
    x, weight, bias = call.value("input"), call.optional("weight"), call.optional("bias")
    given = call.argument("normalized_shape")
    rank = len(given) if isinstance(given, tuple) else 1
    if weight is None and rank != 1:
        raise call.error("it has no weight, and normalises more than one dimension")
    return call.node(
        "LayerNormalization",
        x,
        weight or call.filled(1, x.shape[-1], x.dtype),
        bias,
        axis=-rank,
        epsilon=float(call.number("eps")),
    )


def _group_norm(call: Call) -> str:
    x, weight, bias = call.value("input"), call.optional("weight"), call.optional("bias")
    groups = call.whole("num_groups")
    grouped = call.node(
        "InstanceNormalization",
        call.reshaped(x, (x.shape[0], groups, -1)),
        call.filled(1, groups, x.dtype),
        call.filled(0, groups, x.dtype),
        epsilon=float(call.number("eps")),
    )
    result = call.reshaped(grouped, x.shape)
    per_channel = (x.shape[1], *(1 for _ in x.shape[2:]))
    if weight:
        result = call.node("Mul", result, call.reshaped(weight, per_channel))
    if bias:
        result = call.node("Add", result, call.reshaped(bias, per_channel))
    return result


def _reduction(op_type: str, axes: str | None = "dim") -> Description:
    def describe(call: Call) -> str:
        x = call.value("self")
        reduced = call.axes(axes, x.rank) if axes else tuple(range(x.rank))
        keep = axes is not None and call.flag("keepdim")
        dtype = call.result.dtype
        if dtype == "bool":
            raise call.error("it reduces booleans")
        if op_type in ("ReduceMean", "ReduceSum"):
            call.argument("dtype")
        operand = call.cast(x, dtype)
        if op_type == "ReduceMean" and dtype == "float32" and _is_global(x, reduced):
            # The same mean, which the runtime computes on a convolution's own layout.
            pooled = call.node("GlobalAveragePool", operand)
            return pooled if keep else call.reshaped(pooled, call.result.shape)
        root = call.root("self") if op_type == "ReduceSum" else None
        if root and dtype == root.dtype == "float32":
            numbers = call.whole_numbers(reduced)
            return call.node("ReduceSumSquare", root, numbers, keepdims=int(keep))
        return call.node(op_type, operand, call.whole_numbers(reduced), keepdims=int(keep))

    return describe


def _is_global(x: Value, axes: Sequence[int]) -> bool:
    return x.rank == 4 and sorted(axes) == [2, 3] and all(x.shape)


def _softmax(op_type: str) -> Description:
    def describe(call: Call) -> str:
        x = call.value("self")
        if not x.rank:
            raise call.error("its input has no dimension")
        if call.target.endswith(".int"):
            call.argument("dtype")
        elif call.flag("half_to_float"):
            raise call.error("it changes the element type")
        operand = call.cast(x, call.result.dtype)
        return call.node(op_type, operand, axis=call.axis("dim", x.rank))

    return describe


def _attention(call: Call) -> str:
    """softmax(scale × query × keyᵀ + mask) × value"""
    query, key, value = (call.value(name) for name in ("query", "key", "value"))
    mask = call.optional("attn_mask")
    if not query.rank == key.rank == value.rank:
        raise call.error("its operands are of different ranks")
    scale = query.shape[-1] ** -0.5 if call.argument("scale") is None else call.number("scale")
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = call.node("MatMul", query, call.node("Transpose", key, perm=order))
    scores = call.node("Mul", scores, call.scalar(scale, query.dtype))
    if mask and mask.dtype == "bool":
        scores = call.node("Where", mask, scores, call.scalar(-math.inf, query.dtype))
    elif mask:
        scores = call.node("Add", scores, call.cast(mask, query.dtype))
    shares = call.node("Softmax", scores, axis=-1)
    if mask and mask.dtype == "bool":  # where nothing counts, the result is nought to torch
        shares = call.node("Where", mask, shares, call.scalar(0, query.dtype))
    return call.node("MatMul", shares, value)


LAYERS: dict[str, Description] = {
    **{f"aten.conv{rank}d.default": _convolution("Conv") for rank in (1, 2, 3)},
    "aten.conv_transpose1d.default": _convolution("ConvTranspose", "output_padding"),
    "aten.conv_transpose2d.input": _convolution("ConvTranspose", "output_padding"),
    "aten.conv_transpose3d.input": _convolution("ConvTranspose", "output_padding"),
    "aten.linear.default": _linear,
    "aten.addmm.default": _addmm,
    "aten.mm.default": _product("self", "mat2"),
    "aten.bmm.default": _product("self", "mat2"),
    "aten.matmul.default": _product("self", "other"),
    "aten.scaled_dot_product_attention.default": _attention,
    **{f"aten.max_pool{rank}d.default": _max_pool(rank) for rank in (1, 2, 3)},
    **{f"aten.avg_pool{rank}d.default": _average_pool(rank) for rank in (1, 2, 3)},
    **{f"aten.adaptive_avg_pool{rank}d.default": _adaptive_pool(rank) for rank in (1, 2, 3)},
    "aten._adaptive_avg_pool2d.default": _adaptive_pool(2),
    "aten._adaptive_avg_pool3d.default": _adaptive_pool(3),
    "aten._native_batch_norm_legit_no_training.default": _batch_norm,
    "aten.layer_norm.default": _layer_norm,
    "aten.native_layer_norm.default": _layer_norm,
    "aten.group_norm.default": _group_norm,
    "aten.mean.default": _reduction("ReduceMean", None),
    "aten.mean.dim": _reduction("ReduceMean"),
    "aten.sum.default": _reduction("ReduceSum", None),
    "aten.sum.dim_IntList": _reduction("ReduceSum"),
    "aten.amax.default": _reduction("ReduceMax"),
    "aten.amin.default": _reduction("ReduceMin"),
    "aten.softmax.int": _softmax("Softmax"),
    "aten._softmax.default": _softmax("Softmax"),
    "aten.log_softmax.int": _softmax("LogSoftmax"),
    "aten._log_softmax.default": _softmax("LogSoftmax"),
}  # fmt: skip
