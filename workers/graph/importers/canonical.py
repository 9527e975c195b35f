"""One spelling for each computation, so that what follows need not know several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_CONVOLUTIONS = {
    (3, False): "aten.conv1d.default", (3, True): "aten.conv_transpose1d.default",
    (4, False): "aten.conv2d.default", (4, True): "aten.conv_transpose2d.input",
    (5, False): "aten.conv3d.default", (5, True): "aten.conv_transpose3d.input",
}  # fmt: skip

# A view asks for strides that a Graph says nothing about; reshape gives the same values for any.
_SAME_ARGUMENTS = {
    "aten.view.default": "aten.reshape.default",
    "aten._unsafe_view.default": "aten.reshape.default",
}

_CONVOLUTION = "aten.convolution.default"

REWRITTEN = frozenset({_CONVOLUTION, *_SAME_ARGUMENTS})
"""The targets that ``canonical`` gives another spelling."""


def canonical(
    target: str, arguments: Sequence[Any], dimensions: int
) -> tuple[str, tuple[Any, ...]]:
    """The canonical target and arguments of a call whose result has ``dimensions`` dimensions.

    Before: ``convolution(x, w, b, stride, padding, dilation, transposed=False, …, groups)``.
    After: ``conv2d(x, w, b, stride, padding, dilation, groups)``. A call that has no other
    spelling is returned as it is.
    """
    if target == _CONVOLUTION:
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = arguments
        convolution = _CONVOLUTIONS.get((dimensions, transposed))
        if convolution is None:
            return target, tuple(arguments)
        if transposed:
            return convolution, (x, weight, bias, stride, padding, output_padding, groups, dilation)
        return convolution, (x, weight, bias, stride, padding, dilation, groups)
    return _SAME_ARGUMENTS.get(target, target), tuple(arguments)
