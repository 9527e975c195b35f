"""Parts of tensors by place."""

from __future__ import annotations

from collections.abc import Sequence

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.padding import padded
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    onnx_operator_with_outputs,
)
from workers.graph.importers.onnx.recorder import Value


@onnx_operator_with_outputs("Split")
def _split(n: Node) -> Sequence[Value]:
    axis = n.axis("axis", n[0].rank, 0)
    sizes = n.integers_from("split", 1)
    if sizes is None:
        count = n.integer("num_outputs", len(n.outputs))
        size = -(-n[0].shape[axis] // count)
        left, sizes = n[0].shape[axis], []
        for _ in range(count):
            sizes.append(min(size, left))
            left -= sizes[-1]
    return n.call_all("split_with_sizes.default", n[0], sizes, axis)


@onnx_operator("Slice")
def _slice(n: Node) -> Value:
    x = n[0]
    starts, ends = n.integers_from("starts", 1), n.integers_from("ends", 2)
    axes, steps = n.integers_from("axes", 3), n.integers_from("steps", 4)
    assert starts is not None  # noqa: S101  # required
    assert ends is not None  # noqa: S101
    axes = axes if axes is not None else list(range(len(starts)))
    for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(starts), strict=True):
        x = sliced(n, x, n.on(axis, x.rank), start, end, step)
    return x


def sliced(n: Node, x: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
    """``x[start:end:step]`` along an axis, with Python's meaning, steps below zero included."""
    size = x.shape[axis]
    places = range(*slice(start, end, step).indices(size))
    if step < 0:
        places = range(*slice(min(start, size - 1), _end(end, size), step).indices(size))
        reverse = places[::-1]
        if not len(reverse):
            return n.call("slice.Tensor", x, axis, 0, 0, 1)
        part = sliced(n, x, axis, reverse[0], reverse[-1] + 1, -step)
        return n.call("flip.default", part, [axis])
    if len(places) == size and step == 1:
        return x
    stop = places[-1] + 1 if places else places.start
    return n.call("slice.Tensor", x, axis, places.start, stop, step)


def _end(end: int, size: int) -> int | None:
    """Where a slice that goes backwards ends: None if it takes the first element too."""
    return None if end < -size else end


@onnx_operator("CenterCropPad")
def _center_crop_pad(n: Node) -> Value:
    x, sizes = n[0], n.known_ints(1)
    axes = n.integers("axes", list(range(x.rank)))
    for axis, size in zip((n.on(a, x.rank) for a in axes), sizes, strict=True):
        spare = size - x.shape[axis]
        if spare < 0:
            start = -spare // 2
            x = sliced(n, x, axis, start, start + size)
        else:
            before, after = [0] * x.rank, [0] * x.rank
            before[axis], after[axis] = spare // 2, spare - spare // 2
            x = padded(n, x, before, after, 0)
    return x
