"""Products of matrices and tensors."""

from __future__ import annotations

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
)
from workers.graph.importers.onnx.recorder import Value


@onnx_operator("Gemm")
def _gemm(n: Node) -> Value:
    a, b, c = n[0], n[1], n.optional(2)
    alpha, beta = n.number("alpha", 1.0), n.number("beta", 1.0)
    if n.integer("transA", 0):
        a = n.call("transpose.int", a, 0, 1)
    if not a.dtype.is_floating_point:
        return _integer_gemm(n, a, b, c, alpha, beta)
    transposed = n.integer("transB", 0)
    weight = b if transposed else _transposed(n, b)
    is_bias = c is None or (c.rank == 1 and c.shape[0] in (1, weight.shape[0]))
    if alpha == beta == 1.0 and is_bias:
        if c is not None and c.shape != (weight.shape[0],):
            c = n.call("expand.default", c, [weight.shape[0]])
        return n.call("linear.default", a, weight, c)
    product = n.call("mm.default", a, n.call("transpose.int", b, 0, 1) if transposed else b)
    if alpha != 1.0:
        product = n.call("mul.Tensor", product, alpha)
    if c is None:
        return product
    return n.call("add.Tensor", product, c if beta == 1.0 else n.call("mul.Tensor", c, beta))


def _transposed(n: Node, b: Value) -> Value:
    return n.recorder.transposed(b) if b.constant else n.call("transpose.int", b, 0, 1)


def _integer_gemm(n: Node, a: Value, b: Value, c: Value | None, alpha: float, beta: float) -> Value:
    if n.integer("transB", 0):
        b = n.call("transpose.int", b, 0, 1)
    product = n.call("mm.default", n.cast(a, torch.int64), n.cast(b, torch.int64))
    if alpha != 1.0:
        product = n.cast(n.call("mul.Tensor", product, alpha), torch.int64)
    if c is not None:
        added = n.cast(c, torch.int64)
        if beta != 1.0:
            added = n.cast(n.call("mul.Tensor", added, beta), torch.int64)
        product = n.call("add.Tensor", product, added)
    return n.cast(product, n[0].dtype)


@onnx_operator("MatMul")
def _matmul(n: Node) -> Value:
    return matmul(n, n[0], n[1])


def matmul(n: Node, a: Value, b: Value) -> Value:
    """A product with broadcasting; a constant matrix on the right is a linear layer's weight."""
    if not a.dtype.is_floating_point:
        product = n.call("matmul.default", n.cast(a, torch.int64), n.cast(b, torch.int64))
        return n.cast(product, a.dtype)
    if b.constant and b.rank == 2 and a.rank >= 2 and not a.constant:
        return n.call("linear.default", a, n.recorder.transposed(b))
    return n.call("matmul.default", a, b)


@onnx_operator("Det")
def _det(n: Node) -> Value:
    return n.call_all("_linalg_det.default", n[0])[0]


@onnx_operator("Einsum")
def _einsum(n: Node) -> Value:
    equation = n.text("equation")
    (result,) = n.recorder.trace(lambda *tensors: torch.einsum(equation, *tensors), *n.inputs)
    return result
