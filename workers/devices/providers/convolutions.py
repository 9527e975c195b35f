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

from math import prod

from workers.devices.providers.reading import Convolution, read_convolution
from workers.graph.fused import FusedCall, Packed, UnitKernels, only_reader
from workers.graph.graph import Graph, Operator, Unit, ValueRef

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


def fused_convolutions(graph: Graph, unit: Unit) -> UnitKernels:
    """The calls that stand for the Unit's larger convolutions; the weights of the others are laid
    out channels last. Nothing but for float32, as float16 was not measured."""
    calls = []
    channels_last = []
    for operator in unit.operators:
        convolution = read_convolution(operator, graph)
        if convolution is None or graph.values[convolution.value].dtype != "float32":
            continue
        if _flops(operator, convolution, graph) >= LEAST_FLOPS:
            calls.append(_fused(graph, unit, operator, convolution))
        else:
            channels_last.append(convolution.weight)
    return UnitKernels(tuple(calls), tuple(dict.fromkeys(channels_last)))


def _flops(operator: Operator, convolution: Convolution, graph: Graph) -> int:
    _, *window = graph.values[convolution.weight].shape
    return 2 * graph.values[operator.outputs[0]].numel * prod(window)


def _fused(graph: Graph, unit: Unit, operator: Operator, convolution: Convolution) -> FusedCall:
    activation = _activation(graph, unit, operator)
    last = activation or operator
    attribute = _ACTIVATIONS[activation.target] if activation else "none"
    scalars = _bounds(activation) if attribute == "hardtanh" else ()
    sizes = (
        convolution.padding,
        convolution.stride,
        convolution.dilation,
        convolution.groups,
    )
    shape = graph.values[convolution.value].shape
    return FusedCall(
        operators=tuple(dict.fromkeys((operator.name, last.name))),
        target="mkldnn._convolution_pointwise.default",
        arguments=(
            ValueRef(convolution.value),
            Packed(
                convolution.weight,
                "mkldnn._reorder_convolution_weight.default",
                (*sizes, shape),
            ),
            convolution.bias_argument,
            *sizes,
            attribute,
            scalars,
            "",
        ),
        output=last.outputs[0],
    )


def _activation(graph: Graph, unit: Unit, convolution: Operator) -> Operator | None:
    """The operator that alone reads the convolution's result, if it can be fused to it."""
    reader = only_reader(graph, unit, convolution.outputs[0])
    if reader is None or reader.target not in _ACTIVATIONS or reader.keywords:
        return None
    if len(reader.arguments) > 1 and reader.target != "aten.hardtanh.default":
        return None
    return reader


def _bounds(hardtanh: Operator | None) -> tuple[float, float]:
    """Lowest and highest result; torch's defaults are -1 and 1."""
    given = hardtanh.arguments[1:] if hardtanh else ()
    low, high = (
        *(float(n) for n in given if isinstance(n, int | float)),
        *(-1.0, 1.0)[len(given) :],
    )
    return low, high
