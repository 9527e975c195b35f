"""Activations with parameters, dropout, and what draws random numbers."""

from __future__ import annotations

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    onnx_operator_with_outputs,
    refuse_operators,
)
from workers.graph.importers.onnx.recorder import Value


@onnx_operator("Elu")
def _elu(n: Node) -> Value:
    return n.call("elu.default", n[0], n.number("alpha", 1.0))


@onnx_operator("Celu")
def _celu(n: Node) -> Value:
    return n.call("celu.default", n[0], n.number("alpha", 1.0))


@onnx_operator("Selu")
def _selu(n: Node) -> Value:
    alpha = n.number("alpha", 1.6732632423543772848170429916717)
    gamma = n.number("gamma", 1.0507009873554804934193349852946)
    return n.call("elu.default", n[0], alpha, gamma, 1.0)


@onnx_operator("LeakyRelu")
def _leaky_relu(n: Node) -> Value:
    return n.call("leaky_relu.default", n[0], n.number("alpha", 0.01))


@onnx_operator("ThresholdedRelu")
def _thresholded_relu(n: Node) -> Value:
    return n.call("threshold.default", n[0], n.number("alpha", 1.0), 0.0)


@onnx_operator("PRelu")
def _prelu(n: Node) -> Value:
    x, slope = n[0], n[1]
    negative = n.call("mul.Tensor", x, slope)
    below = n.call("lt.Scalar", x, 0)
    return n.call("where.self", below, negative, x)


@onnx_operator("HardSigmoid")
def _hard_sigmoid(n: Node) -> Value:
    scaled = n.call("mul.Tensor", n[0], n.number("alpha", 0.2))
    return n.call("clamp.default", n.call("add.Tensor", scaled, n.number("beta", 0.5)), 0.0, 1.0)


@onnx_operator("Softsign")
def _softsign(n: Node) -> Value:
    return n.call("div.Tensor", n[0], n.call("add.Tensor", n.call("abs.default", n[0]), 1))


@onnx_operator("Shrink")
def _shrink(n: Node) -> Value:
    x, bias, bound = n[0], n.number("bias", 0.0), n.number("lambd", 0.5)
    zero = n.call("zeros_like.default", x)
    raised = n.cast(n.call("add.Tensor", x, bias), x.dtype)
    lowered = n.cast(n.call("sub.Tensor", x, bias), x.dtype)
    above = n.call("where.self", n.call("gt.Scalar", x, bound), lowered, zero)
    return n.call("where.self", n.call("lt.Scalar", x, -bound), raised, above)


@onnx_operator("Gelu")
def _gelu(n: Node) -> Value:
    return n.call("gelu.default", n[0], approximate=n.text("approximate", "none"))


@onnx_operator("Swish")
def _swish(n: Node) -> Value:
    alpha = n.number("alpha", 1.0)
    if alpha == 1.0:
        return n.call("silu.default", n[0])
    gate = n.call("sigmoid.default", n.call("mul.Tensor", n[0], alpha))
    return n.call("mul.Tensor", n[0], gate)


@onnx_operator_with_outputs("Dropout")
def _dropout(n: Node) -> tuple[Value, ...]:
    training = n.optional(2)
    if training is not None and bool(n.known(2).item()):
        ratio = n.optional(1)
        if ratio is None or float(n.known(1).item()) != 0.0:
            raise n.refuse("it drops elements at random; export the model in eval mode")
    if not n.wants(1):
        return (n[0],)
    return n[0], Value(torch.ones(n[0].shape, dtype=torch.bool))


refuse_operators(
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
    "Bernoulli",
    because="it draws random numbers, so that no schedule could be verified",
)  # fmt: skip
