"""Convolutions, and their transposes."""

from __future__ import annotations

from collections.abc import Sequence

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.padding import padded
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
)
from workers.graph.importers.onnx.operators.windows import window_pads
from workers.graph.importers.onnx.recorder import Value

_MOST_AXES = 3  # that ATen convolves over


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
