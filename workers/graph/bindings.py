"""The torch function that computes an operator.

``torch.ops`` reaches every operator, but boxes its arguments on each call: a small ``conv2d``
takes 10.8 µs through it and 5.4 µs through ``torch.conv2d``. Where torch has a function of its own
with the same positional arguments, and keywords of the same names, that is called instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from workers.graph.graph import GraphError
from workers.graph.operators import KINDS

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "aten.conv1d.default": torch.conv1d,
    "aten.conv2d.default": torch.conv2d,
    "aten.conv3d.default": torch.conv3d,
    "aten.linear.default": torch._C._nn.linear,
    "aten.addmm.default": torch.addmm,
    "aten.mm.default": torch.mm,
    "aten.bmm.default": torch.bmm,
    "aten.matmul.default": torch.matmul,
    "aten.max_pool2d.default": torch.max_pool2d,
    "aten.avg_pool2d.default": torch._C._nn.avg_pool2d,
    "aten.adaptive_avg_pool2d.default": torch._C._nn.adaptive_avg_pool2d,
    "aten.cat.default": torch.cat,
    "aten.stack.default": torch.stack,
    "aten.relu.default": torch.relu,
    "aten.gelu.default": torch._C._nn.gelu,
    "aten.silu.default": torch._C._nn.silu,
    "aten.sigmoid.default": torch.sigmoid,
    "aten.tanh.default": torch.tanh,
    "aten.hardtanh.default": torch._C._nn.hardtanh,
    "aten.softmax.int": torch.softmax,
    "aten.layer_norm.default": torch.layer_norm,
    "aten.group_norm.default": torch.group_norm,
    "aten.scaled_dot_product_attention.default": torch._C._nn.scaled_dot_product_attention,
    "aten.mean.dim": torch.mean,
    "aten.add.Tensor": torch.add,
    "aten.sub.Tensor": torch.sub,
    "aten.mul.Tensor": torch.mul,
    "aten.div.Tensor": torch.div,
    "aten.reshape.default": torch.reshape,
    "aten.flatten.using_ints": torch.flatten,
    "aten.permute.default": torch.permute,
    "aten.transpose.int": torch.transpose,
    "aten.unsqueeze.default": torch.unsqueeze,
    "aten.squeeze.dim": torch.squeeze,
    "aten.select.int": torch.select,
}

_IN_PLACE: dict[str, Callable[..., Any]] = {
    "aten.relu.default": torch.relu_,
    "aten.hardtanh.default": torch._C._nn.hardtanh_,
    "aten.silu.default": torch._C._nn.silu_,
    "aten.sigmoid.default": torch.sigmoid_,
    "aten.tanh.default": torch.tanh_,
}


def overload(target: str) -> OpOverload[..., Any]:
    """The operator of a qualified name. Raises GraphError if it is not allowed."""
    if target not in KINDS:
        raise GraphError(f"operator {target!r} is not allowed")
    _, name, variant = target.split(".")
    found: OpOverload[..., Any] = getattr(getattr(torch.ops.aten, name), variant)
    return found


def binding(target: str) -> Callable[..., Any]:
    """The quickest function that computes ``target``. Raises GraphError if it is not allowed."""
    return _FUNCTIONS.get(target) or overload(target)


def in_place_binding(target: str) -> Callable[..., Any] | None:
    """The function that computes ``target`` into its first operand, where there is one."""
    return _IN_PLACE.get(target)


def returns_sequence(target: str) -> bool:
    """Whether the operator returns a list or a tuple, even of one tensor."""
    returns = overload(target)._schema.returns
    return len(returns) > 1 or str(returns[0].type).startswith("List")
