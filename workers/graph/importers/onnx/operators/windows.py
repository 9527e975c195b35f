"""Where the windows of convolutions and pooling lie."""

from __future__ import annotations

from collections.abc import Sequence

from workers.graph.importers.onnx.node import Node


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
