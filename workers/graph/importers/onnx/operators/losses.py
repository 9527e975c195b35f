"""Losses over classes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from workers.graph.importers.onnx.node import Node
from workers.graph.importers.onnx.operators.registry import (
    onnx_operator,
    onnx_operator_with_outputs,
)
from workers.graph.importers.onnx.recorder import Value

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_IGNORE_NONE = -100  # no class has this number


@onnx_operator("NegativeLogLikelihoodLoss")
def _negative_log_likelihood(n: Node) -> Value:
    return _loss(n, n[0])


@onnx_operator_with_outputs("SoftmaxCrossEntropyLoss")
def _softmax_cross_entropy(n: Node) -> Sequence[Value]:
    logarithms = n.call("log_softmax.int", n[0], 1)
    return _loss(n, logarithms), logarithms


def _loss(n: Node, logarithms: Value) -> Value:
    """The loss of logarithms of probabilities (batch, classes, …) for the classes in input 1,
    (batch, …), weighted by class as input 2 says.

    ATen knows none or two axes behind the classes, so all that there are become one of two.
    """
    target, weight = n.cast(n[1], torch.int64), n.optional(2)
    name = n.text("reduction", "mean")
    if name not in _REDUCTIONS:
        raise n.refuse(f"a loss reduced by {name!r}; known are {', '.join(_REDUCTIONS)}")
    batch, classes, *rest = logarithms.shape
    if target.shape != (batch, *rest):
        raise n.refuse(
            f"classes of shape {list(target.shape)} for scores of {list(logarithms.shape)}"
        )
    operator = "nll_loss_forward.default"
    shaped, places = logarithms, target
    if rest:
        operator = "nll_loss2d_forward.default"
        shaped = n.reshape(logarithms, [batch, classes, 1, math.prod(rest)])
        places = n.reshape(target, [batch, 1, math.prod(rest)])
    ignored = n.integer("ignore_index", _IGNORE_NONE)
    loss, _ = n.call_all(operator, shaped, places, weight, _REDUCTIONS[name], ignored)
    return n.reshape(loss, target.shape) if name == "none" else loss
