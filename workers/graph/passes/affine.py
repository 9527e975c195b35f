"""Operators that scale and shift each channel by constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.graph.graph import Argument, Graph, Operator, ValueRef
from workers.graph.passes.pointwise import BATCH_NORM

_ARITHMETIC = {
    "aten.add.Tensor": "+", "aten.add.Scalar": "+", "aten.sub.Tensor": "-", "aten.sub.Scalar": "-",
    "aten.mul.Tensor": "*", "aten.mul.Scalar": "*", "aten.div.Tensor": "/", "aten.div.Scalar": "/",
}  # fmt: skip


@dataclass(frozen=True)
class Affine:
    """y = scale · x + shift, a float64 number for each channel."""

    scale: Tensor
    shift: Tensor

    def then(self, other: Affine) -> Affine:
        """``other`` after this one."""
        return Affine(self.scale * other.scale, self.shift * other.scale + other.shift)


def affine_of(
    operator: Operator, value: str, axis: int, graph: Graph, weights: Mapping[str, Tensor]
) -> Affine | None:
    """What ``operator`` does to each channel of ``value``, whose channels lie along ``axis``.

    None unless it is batch normalisation with stored statistics, or a sum, difference, product or
    quotient with a number or with a weight that differs along ``axis`` only, and unless the result
    has ``value``'s shape and type.
    """
    spec = graph.values[value]
    if graph.values[operator.outputs[0]] != spec or "float" not in spec.dtype:
        return None
    if operator.target == BATCH_NORM:
        return _normalisation(operator, value, axis, graph, weights)
    return _arithmetic(operator, value, axis, graph, weights)


def _arithmetic(
    operator: Operator, value: str, axis: int, graph: Graph, weights: Mapping[str, Tensor]
) -> Affine | None:
    sign = _ARITHMETIC.get(operator.target)
    if sign is None or operator.keywords or len(operator.arguments) != 2:
        return None
    first, second = operator.arguments
    if first != ValueRef(value) and sign in "+*":
        first, second = second, first
    constant = _per_channel(second, axis, value, graph, weights)
    if first != ValueRef(value) or constant is None:
        return None
    if not constant.isfinite().all() or (sign == "/" and not constant.all()):
        return None  # an infinite factor would make NaN of a weight that is 0
    if sign in "+-":
        return Affine(torch.ones_like(constant), constant if sign == "+" else -constant)
    return Affine(constant if sign == "*" else 1 / constant, torch.zeros_like(constant))


def _normalisation(
    norm: Operator, value: str, axis: int, graph: Graph, weights: Mapping[str, Tensor]
) -> Affine | None:
    """(x, γ, β, μ, σ², momentum, ε): the scale is γ / √(σ² + ε) and the shift β - μ · scale."""
    source, gamma, beta, mean, variance, _, epsilon = norm.arguments
    if source != ValueRef(value) or axis != 1 or not isinstance(epsilon, float | int):
        return None
    channels = graph.values[value].shape[1]
    found: list[Tensor] = []
    for parameter, default in ((gamma, 1), (beta, 0), (mean, None), (variance, None)):
        if isinstance(parameter, ValueRef) and parameter.name in graph.weights:
            found.append(weights[parameter.name].double())
        elif parameter is None and default is not None:
            found.append(torch.full((channels,), default, dtype=torch.float64))
        else:
            return None
    scale = found[0] / torch.sqrt(found[3] + epsilon)
    return Affine(scale, found[1] - found[2] * scale)


def _per_channel(
    constant: Argument, axis: int, value: str, graph: Graph, weights: Mapping[str, Tensor]
) -> Tensor | None:
    """The constant as a number for each channel; None if it differs along another axis."""
    shape = graph.values[value].shape
    if isinstance(constant, int | float) and not isinstance(constant, bool):
        return torch.full((shape[axis],), constant, dtype=torch.float64)
    if not isinstance(constant, ValueRef) or constant.name not in graph.weights:
        return None
    spec = graph.values[constant.name]
    aligned = (1,) * (len(shape) - len(spec.shape)) + spec.shape
    if any(size != 1 and place != axis for place, size in enumerate(aligned)):
        return None
    return weights[constant.name].double().reshape(-1).expand(shape[axis])
