"""Normalisation over batches, channels and layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.padding import padded
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    onnx_operator_with_outputs,
)
from workers.graph.importers.onnx.recorder import Value


@onnx_operator_with_outputs("BatchNormalization")
def _batch_normalization(n: Node) -> Sequence[Value]:
    x, scale, bias, mean, variance = (n[index] for index in range(5))
    epsilon = n.number("epsilon", 1e-5)
    training = bool(n.integer("training_mode", 0)) or (
        n.version < 7 and not n.integer("is_test", 0)
    )
    if not training:
        normalised, _, _ = n.call_all(
            "_native_batch_norm_legit_no_training.default",
            x, scale, bias, mean, variance, 0.0, epsilon,
        )  # fmt: skip
        return (normalised,)
    axes = [axis for axis in range(x.rank) if axis != 1]
    momentum = n.number("momentum", 0.9)
    now = n.call("mean.dim", x, axes)
    spread = n.call("var.correction", x, axes, correction=0)
    normalised, _, _ = n.call_all(
        "_native_batch_norm_legit_no_training.default", x, scale, bias, now, spread, 0.0, epsilon
    )
    running = [
        n.call(
            "add.Tensor",
            n.call("mul.Tensor", old, momentum),
            n.call("mul.Tensor", new, 1 - momentum),
        )
        for old, new in ((mean, now), (variance, spread))
    ]
    return normalised, *running


@onnx_operator("InstanceNormalization")
def _instance_normalization(n: Node) -> Value:
    x = n[0]
    channels = x.shape[1]
    return n.call("group_norm.default", x, channels, n[1], n[2], n.number("epsilon", 1e-5))


@onnx_operator("GroupNormalization", since=21)
def _group_normalization(n: Node) -> Value:
    return n.call(
        "group_norm.default", n[0], n.integer("num_groups"), n[1], n[2], n.number("epsilon", 1e-5)
    )


@onnx_operator_with_outputs("LayerNormalization")
def _layer_normalization(n: Node) -> Sequence[Value]:
    x, scale, bias = n[0], n[1], n.optional(2)
    axis = n.axis("axis", x.rank, -1)
    shape = list(x.shape[axis:])
    epsilon = n.number("epsilon", 1e-5)
    fits = scale.shape == tuple(shape) and (bias is None or bias.shape == tuple(shape))
    if fits and not n.wants(1) and not n.wants(2):
        return (n.call("layer_norm.default", x, shape, scale, bias, epsilon),)
    plain, mean, inverse = n.call_all("native_layer_norm.default", x, shape, None, None, epsilon)
    scaled = n.call("mul.Tensor", plain, scale)
    return scaled if bias is None else n.call("add.Tensor", scaled, bias), mean, inverse


@onnx_operator("RMSNormalization")
def _rms_normalization(n: Node) -> Value:
    x, scale = n[0], n[1]
    axis = n.axis("axis", x.rank, -1)
    shape = list(x.shape[axis:])
    epsilon = n.number("epsilon", 1e-5)
    if scale.shape == tuple(shape):
        return n.call("rms_norm.default", x, shape, scale, epsilon)
    plain = n.call("rms_norm.default", x, shape, None, epsilon)
    return n.call("mul.Tensor", plain, scale)


@onnx_operator("LRN")
def _lrn(n: Node) -> Value:
    x, size = n[0], n.integer("size")
    alpha, beta, bias = n.number("alpha", 1e-4), n.number("beta", 0.75), n.number("bias", 1.0)
    before = (size - 1) // 2
    square = n.call("mul.Tensor", x, x)
    flat = n.reshape(square, [x.shape[0], 1, x.shape[1], math.prod(x.shape[2:])])
    grown = padded(n, flat, [0, 0, before, 0], [0, 0, size - 1 - before, 0], 0)
    mean = n.call("avg_pool2d.default", grown, [size, 1], [1, 1])
    divisor = n.call("add.Tensor", n.call("mul.Tensor", mean, alpha), bias)
    power = n.call("pow.Tensor_Scalar", divisor, beta)
    return n.call("div.Tensor", x, n.reshape(power, x.shape))


@onnx_operator("LpNormalization")
def _lp_normalization(n: Node) -> Value:
    axis = n.axis("axis", n[0].rank, -1)
    norm = n.call("linalg_vector_norm.default", n[0], n.integer("p", 2), [axis], True)
    scaled = n.call("div.Tensor", n[0], norm)
    empty = n.call("eq.Scalar", norm, 0)
    return n.call("where.self", empty, n.constant(0, n[0].dtype), scaled)


@onnx_operator("MeanVarianceNormalization")
def _mean_variance_normalization(n: Node) -> Value:
    axes = n.integers("axes", [0, 2, 3])
    centred = n.call("sub.Tensor", n[0], n.call("mean.dim", n[0], axes, True))
    spread = n.call("std.correction", n[0], axes, correction=0, keepdim=True)
    return n.call("div.Tensor", centred, n.call("add.Tensor", spread, 1e-9))
