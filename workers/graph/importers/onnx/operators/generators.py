"""Tensors made of sizes and numbers."""

from __future__ import annotations

import math

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.indexing import counted_from_front
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
)
from workers.graph.importers.onnx.recorder import Value
from workers.graph.importers.onnx.tensors import dtype_of


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
