"""Shapes, and views of the same elements."""

from __future__ import annotations

import math

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
)
from workers.graph.importers.onnx.recorder import Value


@onnx_operator("Constant")
def _constant(n: Node) -> Value:
    kinds = {
        "value_int": torch.int64, "value_ints": torch.int64,
        "value_float": torch.float32, "value_floats": torch.float32,
    }  # fmt: skip
    if n.has("value"):
        return Value(n.get("value"))
    for name, dtype in kinds.items():
        if n.has(name):
            return n.constant(n.get(name), dtype)
    raise n.refuse(f"a constant given by {', '.join(n.attributes) or 'nothing'}")


@onnx_operator("ConstantOfShape")
def _constant_of_shape(n: Node) -> Value:
    value = n.get("value", torch.zeros(1))
    return Value(torch.full(n.known_ints(0), value.reshape(()).item(), dtype=value.dtype))


@onnx_operator("Shape")
def _shape(n: Node) -> Value:
    start, end = n.integer("start", 0), n.integer("end", n[0].rank)
    return n.constant(list(n[0].shape)[start:end], torch.int64)


@onnx_operator("Size")
def _size(n: Node) -> Value:
    return n.constant(math.prod(n[0].shape), torch.int64)


@onnx_operator("Reshape")
def _reshape(n: Node) -> Value:
    shape = n.integers("shape") if n.has("shape") else n.known_ints(1)
    if not n.integer("allowzero", 0):
        shape = [n[0].shape[i] if size == 0 else size for i, size in enumerate(shape)]
    if -1 in shape and 0 in n[0].shape:
        rest = math.prod(size for size in shape if size != -1)
        shape = [math.prod(n[0].shape) // max(rest, 1) if s == -1 else s for s in shape]
    return n.call("reshape.default", n[0], shape)


@onnx_operator("Flatten")
def _flatten(n: Node) -> Value:
    shape = n[0].shape
    axis = n.integer("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return n.call("reshape.default", n[0], [math.prod(shape[:axis]), math.prod(shape[axis:])])


@onnx_operator("Transpose")
def _transpose(n: Node) -> Value:
    order = n.integers("perm", list(reversed(range(n[0].rank))))
    return n.call("permute.default", n[0], order)


@onnx_operator("Squeeze")
def _squeeze(n: Node) -> Value:
    axes = n.integers_from("axes", 1)
    shape = n[0].shape
    gone = {n.on(axis, len(shape)) for axis in axes} if axes is not None else None
    for axis in gone or ():
        if shape[axis] != 1:
            raise n.refuse(f"axis {axis} of shape {list(shape)} is not of length 1")
    kept = [s for i, s in enumerate(shape) if (s != 1 if gone is None else i not in gone)]
    return n.reshape(n[0], kept)


@onnx_operator("Unsqueeze")
def _unsqueeze(n: Node) -> Value:
    axes = n.integers_from("axes", 1) or []
    rank = n[0].rank + len(axes)
    new = {n.on(axis, rank) for axis in axes}
    old = iter(n[0].shape)
    return n.reshape(n[0], [1 if i in new else next(old) for i in range(rank)])


@onnx_operator("Concat")
def _concat(n: Node) -> Value:
    values = [v for v in n.inputs if v.shape != (0,)] or [n[0]]
    return n.call("cat.default", values, n.axis("axis", values[0].rank))


@onnx_operator("Expand")
def _expand(n: Node) -> Value:
    """Unlike ATen's, in both directions: a wanted size of 1 leaves the operand's size."""
    wanted = n.known_ints(1)
    own = [1] * (len(wanted) - n[0].rank) + list(n[0].shape)
    wanted = [1] * (len(own) - len(wanted)) + wanted
    shape = [mine if want == 1 else want for mine, want in zip(own, wanted, strict=True)]
    return n[0] if list(n[0].shape) == shape else n.call("expand.default", n[0], shape)


@onnx_operator("Tile")
def _tile(n: Node) -> Value:
    return n.call("repeat.default", n[0], n.known_ints(1))


@onnx_operator("DepthToSpace")
def _depth_to_space(n: Node) -> Value:
    batch, channels, height, width = n[0].shape
    block = n.integer("blocksize")
    depth = channels // (block * block)
    if n.text("mode", "DCR") == "CRD":
        split, order = [batch, depth, block, block, height, width], [0, 1, 4, 2, 5, 3]
    else:
        split, order = [batch, block, block, depth, height, width], [0, 3, 4, 1, 5, 2]
    moved = n.call("permute.default", n.reshape(n[0], split), order)
    return n.reshape(moved, [batch, depth, height * block, width * block])


@onnx_operator("SpaceToDepth")
def _space_to_depth(n: Node) -> Value:
    batch, depth, height, width = n[0].shape
    block = n.integer("blocksize")
    high, wide = height // block, width // block
    split = n.reshape(n[0], [batch, depth, high, block, wide, block])
    order = [0, 3, 5, 1, 2, 4] if n.text("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    moved = n.call("permute.default", split, order)
    return n.reshape(moved, [batch, depth * block * block, high, wide])
