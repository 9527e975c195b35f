"""Layers: operators that multiply one value with weights.

Every layer has filters along one axis of its weight and, on one axis of its result, the outputs of
these filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.graph.graph import Argument, Graph, Operator, ValueRef

CONVOLUTIONS = {"aten.conv1d.default": 1, "aten.conv2d.default": 2, "aten.conv3d.default": 3}
"""How many axes the kernel has."""

CONVOLUTION_ARGUMENTS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_PRODUCTS = {"aten.mm.default", "aten.bmm.default", "aten.matmul.default"}


@dataclass(frozen=True, slots=True)
class Layer:
    """``source`` is the value that is multiplied, at argument ``source_at``; ``weight`` is what
    with, its filters along ``filter_axis``, at argument ``weight_at``. The bias, if any, is at
    ``bias_at``, its filters along the last axis. ``result_axis`` is that of the filters in the
    result, from the front. Of a convolution ``arguments`` are all seven, defaults filled in, and
    stride, padding and dilation have a number for each axis of the kernel."""

    operator: Operator
    arguments: tuple[Argument, ...]
    keywords: tuple[tuple[str, Argument], ...]
    source: str
    source_at: int
    weight: str
    weight_at: int
    filter_axis: int
    bias: str | None
    bias_at: int | None
    result_axis: int

    @property
    def name(self) -> str:
        return self.operator.name

    @property
    def result(self) -> str:
        return self.operator.outputs[0]

    @property
    def is_convolution(self) -> bool:
        return self.operator.target in CONVOLUTIONS

    def numbers(self, argument: int) -> tuple[int, ...]:
        """A convolution's stride, padding or dilation."""
        given = self.arguments[argument]
        numbers = given if isinstance(given, tuple) else (given,)
        return tuple(number for number in numbers if isinstance(number, int))


_BIAS, STRIDE, PADDING, DILATION, GROUPS = 2, 3, 4, 5, 6


def read_layer(operator: Operator, graph: Graph) -> Layer | str:
    """The operator as a layer, or why it is none, in words."""
    if operator.target in CONVOLUTIONS:
        return _convolution(operator, graph)
    if operator.target == "aten.linear.default":
        arguments = _filled(operator, ("input", "weight", "bias"), (None,))
        return _layer(operator, graph, arguments, 0, 1, _BIAS, filter_axis=0, result_axis=-1)
    if operator.target == "aten.addmm.default":
        return _layer(operator, graph, operator.arguments, 1, 2, 0, filter_axis=-1, result_axis=-1)
    if operator.target in _PRODUCTS:
        return _product(operator, graph)
    return f"{operator.target} of {operator.name!r} has no filters to put side by side"


def _convolution(operator: Operator, graph: Graph) -> Layer | str:
    axes = CONVOLUTIONS[operator.target]
    arguments = _filled(operator, CONVOLUTION_ARGUMENTS, (None, 1, 0, 1, 1))
    if arguments[GROUPS] != 1:
        return f"convolution {operator.name!r} has {arguments[GROUPS]} groups"
    lists = []
    for argument in arguments[STRIDE:GROUPS]:
        given = argument if isinstance(argument, tuple) else (argument,)
        if len(given) not in (1, axes) or not all(isinstance(n, int) for n in given):
            return f"convolution {operator.name!r} has the argument {argument!r}"
        lists.append(given * axes if len(given) == 1 else given)
    arguments = (*arguments[:STRIDE], *lists, 1)
    return _layer(operator, graph, arguments, 0, 1, _BIAS, filter_axis=0, result_axis=-1 - axes)


def _product(operator: Operator, graph: Graph) -> Layer | str:
    """A product with a weight on its right or, failing that, on its left."""
    shapes = [
        graph.values[argument.name].shape if isinstance(argument, ValueRef) else ()
        for argument in operator.arguments
    ]
    if len(shapes) != 2 or min(map(len, shapes)) < 2:
        return f"{operator.target} of {operator.name!r} is no product of matrices"
    right = operator.arguments[1]
    if isinstance(right, ValueRef) and right.name in graph.weights:
        return _layer(operator, graph, operator.arguments, 0, 1, None, -1, -1)
    return _layer(operator, graph, operator.arguments, 1, 0, None, -2, -2)


def _filled(
    operator: Operator, names: Sequence[str], defaults: Sequence[Argument]
) -> tuple[Argument, ...]:
    """The arguments in the order of ``names``, the last of which have ``defaults``."""
    keywords = dict(operator.keywords)
    filled = list(operator.arguments)
    for position in range(len(filled), len(names)):
        default = position - (len(names) - len(defaults))
        filled.append(keywords.get(names[position], defaults[default] if default >= 0 else None))
    return tuple(filled)


def _layer(
    operator: Operator,
    graph: Graph,
    arguments: tuple[Argument, ...],
    source_at: int,
    weight_at: int,
    bias_at: int | None,
    filter_axis: int,
    result_axis: int,
) -> Layer | str:
    source, weight = arguments[source_at], arguments[weight_at]
    bias = None if bias_at is None else arguments[bias_at]
    if not isinstance(weight, ValueRef) or weight.name not in graph.weights:
        return f"what {operator.name!r} multiplies with is computed, not a weight"
    if not isinstance(source, ValueRef) or source.name in graph.weights:
        return f"{operator.name!r} multiplies weights with each other"
    result = graph.values[operator.outputs[0]].shape
    shape = graph.values[weight.name].shape
    axis = len(result) + result_axis
    if bias is not None:
        if not isinstance(bias, ValueRef) or bias.name not in graph.weights:
            return f"what {operator.name!r} adds is computed, not a weight"
        if graph.values[bias.name].shape[-1:] != shape[filter_axis:][:1]:
            return f"the bias of {operator.name!r} has not one number for each filter"
    if axis < 0 or result[axis] != shape[filter_axis]:
        return f"the result of {operator.name!r} has no axis of its own for the filters"
    return Layer(
        operator=operator,
        arguments=arguments,
        keywords=() if bias_at == _BIAS else operator.keywords,
        source=source.name,
        source_at=source_at,
        weight=weight.name,
        weight_at=weight_at,
        filter_axis=filter_axis % len(shape),
        bias=bias.name if isinstance(bias, ValueRef) else None,
        bias_at=bias_at,
        result_axis=axis,
    )
