"""Padding: by a value, or by what the tensor itself has."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
)
from workers.graph.importers.onnx.recorder import Value


@onnx_operator("Pad")
def _pad(n: Node) -> Value:
    x = n[0]
    pads = n.integers_from("pads", 1) or []
    axes = n.known_ints(3) if n.optional(3) is not None else list(range(x.rank))
    mode = n.text("mode", "constant")
    before, after = [0] * x.rank, [0] * x.rank
    for place, axis in enumerate(axes):
        before[n.on(axis, x.rank)] = pads[place]
        after[n.on(axis, x.rank)] = pads[place + len(axes)]
    if mode == "constant":
        return padded(n, x, before, after, _fill(n, x))
    for axis in range(x.rank):
        x = _padded_by_index(n, x, axis, before[axis], after[axis], mode)
    return x


def _fill(n: Node, x: Value) -> float:
    if n.has("value"):
        return n.number("value")
    value = n.optional(2)
    if value is None:
        return 0
    number: float = n.known(2).item()
    return number if x.dtype.is_floating_point else int(number)


def padded(n: Node, x: Value, before: Sequence[int], after: Sequence[int], value: float) -> Value:
    """``x`` with ``value`` put before and after along each axis, or cut where that is negative."""
    if not any(before) and not any(after):
        return x
    if x.dtype is torch.bool:
        grown = padded(n, n.cast(x, torch.uint8), before, after, int(value))
        return n.cast(grown, torch.bool)
    ends = [count for axis in reversed(range(x.rank)) for count in (before[axis], after[axis])]
    while len(ends) > 2 and ends[-1] == ends[-2] == 0:
        ends = ends[:-2]
    return n.call("constant_pad_nd.default", x, ends, value)


def _padded_by_index(n: Node, x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    size = x.shape[axis]
    if before == after == 0:
        return x
    places = torch.arange(-before, size + after)
    if mode == "edge":
        places = places.clamp(0, size - 1)
    elif mode == "wrap":
        places = places.remainder(size)
    elif mode == "reflect":
        period = max(2 * (size - 1), 1)
        places = places.remainder(period)
        places = torch.where(places >= size, period - places, places)
    else:
        raise n.refuse(f"padding of mode {mode!r}")
    return n.call("index_select.default", x, axis, Value(places))
