"""Reading and writing at indices that are themselves data."""

from __future__ import annotations

import math

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    refuse_operators,
)
from workers.graph.importers.onnx.recorder import Value


@onnx_operator("Gather")
def _gather(n: Node) -> Value:
    x, indices = n[0], n[1]
    axis = n.axis("axis", x.rank, 0)
    size = x.shape[axis]
    if indices.constant and indices.rank == 0:
        return n.call("select.int", x, axis, int(indices.tensor.item()) % max(size, 1))
    flat = n.reshape(counted_from_front(n, indices, size), [math.prod(indices.shape)])
    if axis == 0 and x.rank == 2 and x.dtype.is_floating_point and not indices.constant:
        return n.call("embedding.default", x, counted_from_front(n, indices, size))
    taken = n.call("index_select.default", x, axis, flat)
    return n.reshape(taken, [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def counted_from_front(n: Node, indices: Value, size: int) -> Value:
    """Indices as int64; those below zero count from the end."""
    indices = n.cast(indices, torch.int64)
    if indices.constant:
        return Value(torch.where(indices.tensor < 0, indices.tensor + size, indices.tensor))
    below = n.call("lt.Scalar", indices, 0)
    return n.call("where.self", below, n.call("add.Tensor", indices, size), indices)


@onnx_operator("GatherElements")
def _gather_elements(n: Node) -> Value:
    axis = n.axis("axis", n[0].rank, 0)
    return n.call("gather.default", n[0], axis, counted_from_front(n, n[1], n[0].shape[axis]))


@onnx_operator("GatherND")
def _gather_nd(n: Node) -> Value:
    x, indices, batch = n[0], n[1], n.integer("batch_dims", 0)
    depth = indices.shape[-1]
    outer = x.shape[:batch]
    flat_x = n.reshape(x, [math.prod(outer), *x.shape[batch:]])
    flat = n.reshape(indices, [math.prod(outer), *indices.shape[batch:]])
    parts = [
        counted_from_front(n, n.call("select.int", flat, flat.rank - 1, i), x.shape[batch + i])
        for i in range(depth)
    ]
    if batch:
        rows = torch.arange(math.prod(outer)).reshape(-1, *[1] * (parts[0].rank - 1))
        found = n.call("index.Tensor", flat_x, [Value(rows), *parts])
    else:
        squeezed = [n.reshape(part, part.shape[1:]) for part in parts]
        found = n.call("index.Tensor", n.reshape(x, x.shape), squeezed)
    return n.reshape(found, [*indices.shape[:-1], *x.shape[batch + depth :]])


@onnx_operator("ScatterElements", "Scatter")
def _scatter_elements(n: Node) -> Value:
    x, source = n[0], n[2]
    axis = n.axis("axis", x.rank, 0)
    indices = counted_from_front(n, n[1], x.shape[axis])
    reduction = n.text("reduction", "none")
    if reduction == "none":
        return n.call("scatter.src", x, axis, indices, source)
    named = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
    return n.call("scatter_reduce.two", x, axis, indices, source, named)


@onnx_operator("ScatterND")
def _scatter_nd(n: Node) -> Value:
    x, indices, updates = n[0], n[1], n[2]
    depth = indices.shape[-1]
    parts = [
        counted_from_front(n, n.call("select.int", indices, indices.rank - 1, i), x.shape[i])
        for i in range(depth)
    ]
    reduction = n.text("reduction", "none")
    if reduction == "none":
        return n.call("index_put.default", x, parts, updates)
    if reduction == "add":
        return n.call("index_put.default", x, parts, updates, True)
    # Every addressed slice as one row, so that rows can be combined where indices repeat.
    named = {"mul": "prod", "max": "amax", "min": "amin"}[reduction]
    rows, length = math.prod(x.shape[:depth]), math.prod(x.shape[depth:])
    flat = n.constant(0, torch.int64)
    for size, part in zip(x.shape, parts, strict=False):
        flat = n.call("add.Tensor", n.call("mul.Tensor", flat, size), part)
    count = math.prod(indices.shape[:-1])
    spread = n.call("expand.default", n.reshape(flat, [count, 1]), [count, length])
    table = n.reshape(x, [rows, length])
    source = n.reshape(updates, [count, length])
    done = n.call("scatter_reduce.two", table, 0, spread, source, named)
    return n.reshape(done, x.shape)


@onnx_operator("TensorScatter")
def _tensor_scatter(n: Node) -> Value:
    """Writes ``update`` into a cache at each batch's own position, wrapping around if circular."""
    cache, update, where = n[0], n[1], n.optional(2)
    axis = n.axis("axis", cache.rank, -2)
    steps = Value(torch.arange(update.shape[axis]))
    starts = n.constant([0] * cache.shape[0], torch.int64) if where is None else where
    places = n.call("add.Tensor", n.reshape(starts, [cache.shape[0], 1]), steps)
    if n.text("mode", "linear") == "circular":
        places = n.call("remainder.Scalar", places, cache.shape[axis])
    shape = [1] * cache.rank
    shape[0], shape[axis] = cache.shape[0], update.shape[axis]
    spread = n.call("expand.default", n.reshape(places, shape), list(update.shape))
    return n.call("scatter.src", cache, axis, spread, update)


@onnx_operator("ReverseSequence")
def _reverse_sequence(n: Node) -> Value:
    x, lengths = n[0], n[1]
    time, batch = n.axis("time_axis", x.rank, 0), n.axis("batch_axis", x.rank, 1)
    steps = torch.arange(x.shape[time]).reshape(-1, 1)
    length = n.reshape(n.cast(lengths, torch.int64), [1, x.shape[batch]])
    back = n.call("sub.Tensor", n.call("sub.Tensor", length, 1), Value(steps))
    inside = n.call("ge.Scalar", back, 0)
    places = n.call("where.self", inside, back, Value(steps.expand(-1, x.shape[batch])))
    shape = [1] * x.rank
    shape[time], shape[batch] = x.shape[time], x.shape[batch]
    if time > batch:
        places = n.call("permute.default", places, [1, 0])
    spread = n.call("expand.default", n.reshape(places, shape), list(x.shape))
    return n.call("gather.default", x, time, spread)


@onnx_operator("NonZero")
def _non_zero(n: Node) -> Value:
    """How many elements are not zero must be known: the shape of the result depends on it."""
    return Value(torch.nonzero(n.known(0)).t())


@onnx_operator("Compress")
def _compress(n: Node) -> Value:
    """Static if the condition is constant."""
    x, condition = n[0], n.known(1)
    if not n.has("axis"):
        x = n.reshape(x, [math.prod(x.shape)])
    axis = n.axis("axis", x.rank, 0)
    return n.call("index_select.default", x, axis, Value(torch.nonzero(condition).reshape(-1)))


refuse_operators(
    "Unique", "NonMaxSuppression",
    because="the shape of its result depends on the data, and Plait needs every shape to be known "
    "before; leave this step to the program around the model",
)  # fmt: skip
