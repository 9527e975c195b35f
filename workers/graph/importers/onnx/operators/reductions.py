"""Reductions, scans, orderings and soft maxima: along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    onnx_operator_with_outputs,
)
from workers.graph.importers.onnx.operators.slicing import sliced
from workers.graph.importers.onnx.recorder import Value

_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


@onnx_operator(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def _reduce(n: Node) -> Value:
    x = n[0]
    axes = n.integers_from("axes", 1)
    keep = bool(n.integer("keepdims", 1))
    if not axes:
        if axes is not None and not axes and n.integer("noop_with_empty_axes", 0):
            return _elementwise(n, x)
        if axes is None and n.integer("noop_with_empty_axes", 0):
            return _elementwise(n, x)
        axes = list(range(x.rank))
    axes = sorted({n.on(axis, x.rank) for axis in axes})
    kept = x.dtype
    if kept in _UNSIGNED:
        x = n.cast(x, torch.int64)
    return n.cast(_reduced(n, n.op_type, x, axes, keep), kept)


def _elementwise(n: Node, x: Value) -> Value:
    """What a reduction over no axes comes to."""
    if n.op_type in ("ReduceL1", "ReduceL2"):
        return n.call("abs.default", x)
    if n.op_type == "ReduceSumSquare":
        return n.call("mul.Tensor", x, x)
    return n.call("log.default", x) if n.op_type == "ReduceLogSum" else x


def _reduced(  # noqa: PLR0911  # one way a line
    n: Node, name: str, x: Value, axes: Sequence[int], keep: bool
) -> Value:
    shape = [
        1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes
    ]
    if math.prod(x.shape) == 0 or not axes:
        return _of_nothing(n, name, x, axes, keep, shape)
    if name == "ReduceMean":
        if x.dtype.is_floating_point:
            return n.call("mean.dim", x, list(axes), keep)
        total = n.call("sum.dim_IntList", x, list(axes), keep)
        count = math.prod(x.shape[axis] for axis in axes)
        return n.call("div.Tensor_mode", total, count, rounding_mode="trunc")
    if name in ("ReduceMax", "ReduceMin"):
        return n.call("amax.default" if name == "ReduceMax" else "amin.default", x, axes, keep)
    if name == "ReduceProd":
        for axis in reversed(axes):
            x = n.call("prod.dim_int", x, axis, keep)
        return x
    if name == "ReduceLogSumExp":
        return n.call("logsumexp.default", x, list(axes), keep)
    if name == "ReduceL2" and x.dtype.is_floating_point:
        return n.call("linalg_vector_norm.default", x, 2, list(axes), keep)
    if name == "ReduceL1":
        x = n.call("abs.default", x)
    if name in ("ReduceL2", "ReduceSumSquare"):
        x = n.call("mul.Tensor", x, x)
    total = n.call("sum.dim_IntList", x, list(axes), keep)
    if name == "ReduceL2":
        return n.call("sqrt.default", n.cast(total, torch.float64))
    return n.call("log.default", total) if name == "ReduceLogSum" else total


def _of_nothing(
    n: Node, name: str, x: Value, axes: Sequence[int], keep: bool, shape: Sequence[int]
) -> Value:
    """The neutral element, or for a scalar what the reduction makes of the one element."""
    if math.prod(x.shape):
        return _elementwise(n, x)
    if name in ("ReduceMax", "ReduceMin"):
        return Value(torch.full(tuple(shape), _worst(name, x.dtype), dtype=x.dtype))
    filled = {"ReduceProd": 1.0, "ReduceMean": math.nan}.get(name, 0.0)
    if name in ("ReduceLogSum", "ReduceLogSumExp"):
        filled = -math.inf
    return Value(torch.full(tuple(shape), filled, dtype=x.dtype))


def _worst(name: str, dtype: torch.dtype) -> float | bool:
    """What any element beats."""
    if dtype is torch.bool:
        return name == "ReduceMin"
    if dtype.is_floating_point:
        return -math.inf if name == "ReduceMax" else math.inf
    info = torch.iinfo(dtype)
    return info.min if name == "ReduceMax" else info.max


@onnx_operator("ArgMax", "ArgMin")
def _arg(n: Node) -> Value:
    x = n[0]
    axis, keep = n.axis("axis", x.rank, 0), bool(n.integer("keepdims", 1))
    target = f"{n.op_type.lower()}.default"
    if not n.integer("select_last_index", 0):
        return n.call(target, x, axis, keep)
    last = x.shape[axis] - 1
    found = n.call(target, n.call("flip.default", x, [axis]), axis, keep)
    return n.call("rsub.Scalar", found, last)


@onnx_operator("CumSum", "CumProd")
def _cumulative(n: Node) -> Value:
    x = n[0]
    axis = n.on(int(n.known(1).item()), x.rank)
    target = "cumsum.default" if n.op_type == "CumSum" else "cumprod.default"
    neutral = 0 if n.op_type == "CumSum" else 1
    if n.integer("reverse", 0):
        x = n.call("flip.default", x, [axis])
    if n.integer("exclusive", 0):
        shape = list(x.shape)
        shape[axis] = 1
        first = Value(torch.full(shape, neutral, dtype=x.dtype))
        x = n.call("cat.default", [first, sliced(n, x, axis, 0, x.shape[axis] - 1)], axis)
    result = n.call(target, x, axis, dtype=x.dtype)
    return n.call("flip.default", result, [axis]) if n.integer("reverse", 0) else result


@onnx_operator("Softmax", "LogSoftmax", "Hardmax")
def _softmax(n: Node) -> Value:
    """Before version 13 along all axes from ``axis`` on, taken as one."""
    x, shape = n[0], n[0].shape
    axis = n.axis("axis", x.rank, -1 if n.version >= 13 else 1)
    if n.version < 13:
        x = n.reshape(x, [math.prod(shape[:axis]), math.prod(shape[axis:])])
        axis = 1
    if n.op_type == "Hardmax":
        best = n.call("argmax.default", x, axis, True)
        places = torch.arange(x.shape[axis]).reshape(-1, *[1] * (x.rank - axis - 1))
        result = n.cast(n.call("eq.Tensor", best, Value(places)), x.dtype)
    else:
        target = "softmax.int" if n.op_type == "Softmax" else "log_softmax.int"
        result = n.call(target, x, axis)
    return n.reshape(result, shape)


@onnx_operator_with_outputs("TopK")
def _top_k(n: Node) -> Sequence[Value]:
    count = n.integer("k") if n.has("k") else int(n.known(1).item())
    axis = n.axis("axis", n[0].rank, -1)
    largest = bool(n.integer("largest", 1))
    kept = n[0].dtype
    x = n.cast(n[0], torch.int64) if kept in _UNSIGNED else n[0]
    # Of equal elements ONNX takes the first; torch's topk promises nothing, a stable sort does.
    values, places = n.call_all("sort.stable", x, stable=True, dim=axis, descending=largest)
    top, where = (sliced(n, value, axis, 0, count) for value in (values, places))
    return n.cast(top, kept), where
