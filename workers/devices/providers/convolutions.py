"""Convolutions by oneDNN with packed weights, and the activation after them in the same call.

``torch.conv2d`` brings its weights into oneDNN's blocked layout at every call, and its input and
output from and to channels first. Weights packed once, and values that stay channels last from one
convolution to the next, take half to three quarters of the time over a whole network
(docs/devices.md has the table). Alone, on a value that is channels first, a 3 × 3
convolution takes 0.5-0.98 and a 1 × 1 one up to 1.4 of it: the next one makes up for that.

The fused call takes some 25 µs more to make. A small convolution is called as ever, with
its weights channels last, so that values keep their layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from workers.graph.graph import Argument, Graph, Operator, Unit, ValueRef
from workers.graph.interpreter import FusedCall

LEAST_FLOPS = 1_000_000
"""Below, a convolution takes less than the fused call does to make: 8 × 8 values of 16 channels
by 3 × 3 took 17 µs and 35 µs fused."""

_ACTIVATIONS = {
    "aten.relu.default": "relu",
    "aten.sigmoid.default": "sigmoid",
    "aten.tanh.default": "tanh",
    "aten.silu.default": "swish",
    "aten.hardswish.default": "hardswish",
    "aten.hardtanh.default": "hardtanh",
}
"""oneDNN's names, as ``mkldnn::_convolution_pointwise`` takes them."""


@dataclass(frozen=True, slots=True)
class _Convolution:
    """The arguments of ``aten.conv2d``, with its defaults."""

    value: ValueRef
    weight: ValueRef
    bias: ValueRef | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


def fused_convolutions(
    graph: Graph, unit: Unit, weights: Mapping[str, Tensor]
) -> tuple[Mapping[str, Tensor], list[FusedCall]]:
    """The weights with those of convolutions channels last, and the calls that stand for the
    Unit's larger convolutions. Nothing changes but for float32, as float16 was not measured."""
    if not torch._C._has_mkldnn:
        return weights, []
    laid_out = dict(weights)
    calls = []
    for operator in unit.operators:
        convolution = _read(operator)
        if convolution is None or not _fits(convolution, graph, weights):
            continue
        weight = weights[convolution.weight.name]
        laid_out[convolution.weight.name] = weight.contiguous(memory_format=torch.channels_last)
        if _flops(operator, convolution, graph) >= LEAST_FLOPS:
            calls.append(_fused(graph, unit, operator, convolution, weights))
    return laid_out, calls


def _read(operator: Operator) -> _Convolution | None:
    """The operator's arguments, if it is a convolution whose weights and sizes are plain."""
    if operator.target != "aten.conv2d.default" or operator.keywords:
        return None
    given: tuple[Argument, ...] = operator.arguments
    defaults: tuple[Argument, ...] = (None, None, None, (1, 1), (0, 0), (1, 1), 1)
    value, weight, bias, stride, padding, dilation, groups = (*given, *defaults[len(given) :])
    sizes = [_pair(numbers) for numbers in (stride, padding, dilation)]
    if (
        not isinstance(value, ValueRef)
        or not isinstance(weight, ValueRef)
        or not (bias is None or isinstance(bias, ValueRef))
        or not isinstance(groups, int)
        or None in sizes
    ):
        return None
    first, second, third = (size for size in sizes if size is not None)
    return _Convolution(value, weight, bias, first, second, third, groups)


def _pair(numbers: Argument) -> tuple[int, ...] | None:
    if not isinstance(numbers, tuple):
        return None
    found = tuple(number for number in numbers if isinstance(number, int))
    if len(found) != len(numbers) or len(found) not in (1, 2):
        return None
    return found * 2 if len(found) == 1 else found


def _fits(convolution: _Convolution, graph: Graph, weights: Mapping[str, Tensor]) -> bool:
    """Whether weight and bias are bound, as large as the graph says, and all is float32."""
    bound = [convolution.weight] + ([convolution.bias] if convolution.bias else [])
    if any(
        reference.name not in weights
        or tuple(weights[reference.name].shape) != graph.values[reference.name].shape
        or weights[reference.name].dtype != torch.float32
        for reference in bound
    ):
        return False
    value = graph.values[convolution.value.name]
    return value.dtype == "float32" and len(value.shape) == 4 and value.numel > 0


def _flops(operator: Operator, convolution: _Convolution, graph: Graph) -> int:
    _, *window = graph.values[convolution.weight.name].shape
    return 2 * graph.values[operator.outputs[0]].numel * prod(window)


def _fused(
    graph: Graph,
    unit: Unit,
    operator: Operator,
    convolution: _Convolution,
    weights: Mapping[str, Tensor],
) -> FusedCall:
    activation = _activation(graph, unit, operator)
    last = activation or operator
    attribute = _ACTIVATIONS[activation.target] if activation else "none"
    scalars = list(_bounds(activation)) if attribute == "hardtanh" else []
    padding, stride = list(convolution.padding), list(convolution.stride)
    dilation, groups = list(convolution.dilation), convolution.groups
    packed = torch.ops.mkldnn._reorder_convolution_weight(
        weights[convolution.weight.name].detach().contiguous(),
        padding,
        stride,
        dilation,
        groups,
        list(graph.values[convolution.value.name].shape),
    )
    return FusedCall(
        name=f"mkldnn._convolution_pointwise({attribute})",
        operators=tuple(dict.fromkeys((operator.name, last.name))),
        function=torch.ops.mkldnn._convolution_pointwise.default,
        arguments=(
            convolution.value,
            packed,
            weights[convolution.bias.name].detach() if convolution.bias else None,
            padding,
            stride,
            dilation,
            groups,
            attribute,
            scalars,
            "",
        ),
        output=last.outputs[0],
    )


def _activation(graph: Graph, unit: Unit, convolution: Operator) -> Operator | None:
    """The operator that alone reads the convolution's result, if it can be fused to it."""
    (result,) = convolution.outputs
    if result in unit.outputs or result in graph.outputs:
        return None
    readers = [operator for operator in unit.operators if result in operator.inputs]
    if len(readers) != 1 or readers[0].target not in _ACTIVATIONS or readers[0].keywords:
        return None
    if len(readers[0].arguments) > 1 and readers[0].target != "aten.hardtanh.default":
        return None
    return readers[0]


def _bounds(hardtanh: Operator | None) -> tuple[float, float]:
    """Lowest and highest result; torch's defaults are -1 and 1."""
    given = hardtanh.arguments[1:] if hardtanh else ()
    low, high = (
        *(float(n) for n in given if isinstance(n, int | float)),
        *(-1.0, 1.0)[len(given) :],
    )
    return low, high
