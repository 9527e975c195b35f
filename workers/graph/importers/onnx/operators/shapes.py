"""Shapes, indexing and the movement of data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    onnx_operator_with_outputs,
    refuse_operators,
)
from workers.graph.importers.onnx.recorder import Value
from workers.graph.importers.onnx.tensors import dtype_of

_MAX_INT = (1 << 63) - 1


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


@onnx_operator("Range")
def _range(n: Node) -> Value:
    start, limit, step = (n.known(i).item() for i in range(3))
    count = max(math.ceil((limit - start) / step), 0)
    return Value((start + torch.arange(count) * step).to(n[0].dtype))


@onnx_operator("OneHot")
def _one_hot(n: Node) -> Value:
    indices, values = n[0], n[2]
    depth = int(n.known(1).item())
    axis = n.on(n.integer("axis", -1), indices.rank + 1)
    places = n.cast(n.cast(indices, torch.float32), torch.int64)
    front = counted_from_front(n, places, depth)
    rows = Value(torch.arange(depth).reshape(-1, *[1] * (indices.rank - axis)))
    shape = [*indices.shape[:axis], 1, *indices.shape[axis:]]
    chosen = n.call("eq.Tensor", n.reshape(front, shape), rows)
    off, on = (n.call("select.int", values, 0, i) for i in range(2))
    return n.call("where.self", chosen, on, off)


@onnx_operator("EyeLike")
def _eye_like(n: Node) -> Value:
    rows, columns = n[0].shape
    dtype = dtype_of(n.integer("dtype"), "its result") if n.has("dtype") else n[0].dtype
    offset = torch.arange(columns) - torch.arange(rows).reshape(-1, 1)
    return Value((offset == n.integer("k", 0)).to(dtype))


@onnx_operator("Trilu")
def _trilu(n: Node) -> Value:
    offset = int(n.known(1).item()) if n.optional(1) is not None else 0
    target = "triu.default" if n.integer("upper", 1) else "tril.default"
    return n.call(target, n[0], offset)


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
