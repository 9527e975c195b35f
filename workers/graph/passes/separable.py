"""Separable convolutions: each channel filtered on its own, then channels mixed point by point."""

from __future__ import annotations

from collections.abc import Mapping

from workers.graph.graph import Argument, Operator, TensorSpec, ValueRef

_GROUPS = {"aten.conv1d.default": 6, "aten.conv2d.default": 6, "aten.conv3d.default": 6}
"""Where the number of groups stands: (input, weight, bias, stride, padding, dilation, groups)."""


def is_depthwise(operator: Operator, values: Mapping[str, TensorSpec]) -> bool:
    """Whether it is a convolution with a group for each input channel, and more than one."""
    weight = _weight(operator)
    return _groups(operator) > 1 and weight is not None and values[weight].shape[1] == 1


def is_pointwise_convolution(operator: Operator, values: Mapping[str, TensorSpec]) -> bool:
    """Whether it is a convolution of kernel 1 in a single group."""
    weight = _weight(operator)
    return _groups(operator) == 1 and weight is not None and set(values[weight].shape[2:]) == {1}


def _groups(operator: Operator) -> int:
    """The number of groups; 0 if it is not a convolution."""
    if operator.target not in _GROUPS:
        return 0
    position = _GROUPS[operator.target]
    groups: Argument = 1
    if position < len(operator.arguments):
        groups = operator.arguments[position]
    groups = dict(operator.keywords).get("groups", groups)
    return groups if isinstance(groups, int) else 0


def _weight(operator: Operator) -> str | None:
    """The name of the filters, (outputs, inputs / groups, *kernel)."""
    weight = operator.arguments[1] if len(operator.arguments) > 1 else None
    return weight.name if isinstance(weight, ValueRef) else None
