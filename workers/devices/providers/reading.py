"""The arguments of convolutions and linear layers, as far as fused calls can take them."""

from __future__ import annotations

from dataclasses import dataclass

from workers.graph.graph import Argument, Graph, Operator, ValueRef


@dataclass(frozen=True, slots=True)
class Convolution:
    """The arguments of ``aten.conv2d``, with its defaults; ``weight`` and ``bias`` are weights of
    the graph, ``stride``, ``padding`` and ``dilation`` pairs."""

    value: str
    weight: str
    bias: str | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def bias_argument(self) -> ValueRef | None:
        return None if self.bias is None else ValueRef(self.bias)


def read_convolution(operator: Operator, graph: Graph) -> Convolution | None:
    """The operator, if it is a convolution of a batch of images, all of one element type, whose
    sizes are plain numbers."""
    if operator.target != "aten.conv2d.default" or operator.keywords:
        return None
    given: tuple[Argument, ...] = operator.arguments
    defaults: tuple[Argument, ...] = (None, None, None, (1, 1), (0, 0), (1, 1), 1)
    value, weight, bias, stride, padding, dilation, groups = (*given, *defaults[len(given) :])
    pairs = [_pair(numbers) for numbers in (stride, padding, dilation)]
    if (
        not isinstance(value, ValueRef)
        or not isinstance(weight, ValueRef)
        or not (bias is None or isinstance(bias, ValueRef))
        or not isinstance(groups, int)
        or None in pairs
    ):
        return None
    bound = [weight.name] + ([bias.name] if bias else [])
    types = {graph.values[name].dtype for name in (value.name, *bound)}
    image = graph.values[value.name]
    if set(bound) - set(graph.weights) or len(types) > 1 or len(image.shape) != 4:
        return None
    if not image.numel:
        return None
    first, second, third = (pair for pair in pairs if pair is not None)
    return Convolution(
        value.name, weight.name, bias.name if bias else None, first, second, third, groups
    )


def _pair(numbers: Argument) -> tuple[int, ...] | None:
    if not isinstance(numbers, tuple):
        return None
    found = tuple(number for number in numbers if isinstance(number, int))
    if len(found) != len(numbers) or len(found) not in (1, 2):
        return None
    return found * 2 if len(found) == 1 else found


@dataclass(frozen=True, slots=True)
class Linear:
    """The arguments of ``aten.linear``; ``weight`` (outputs × inputs) and ``bias`` are weights of
    the graph."""

    value: str
    weight: str
    bias: str | None


def read_linear(operator: Operator, graph: Graph) -> Linear | None:
    """The operator, if it is a linear layer, all of one element type, with something to compute."""
    if operator.target != "aten.linear.default" or operator.keywords:
        return None
    value, weight, *bias = operator.inputs
    types = {graph.values[name].dtype for name in (*operator.inputs, *operator.outputs)}
    if {weight, *bias} - set(graph.weights) or len(types) > 1:
        return None
    if not graph.values[value].numel or not graph.values[weight].numel:
        return None
    return Linear(value, weight, bias[0] if bias else None)
