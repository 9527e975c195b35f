"""Several layers as one: their filters side by side.

A convolution's smaller kernels lie among zeros in the largest (IOS, Section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workers.graph.graph import Argument, Graph, Operator, TensorSpec, ValueRef
from workers.schedules.layers import (
    CONVOLUTION_ARGUMENTS,
    DILATION,
    PADDING,
    STRIDE,
    Layer,
)


@dataclass(frozen=True, slots=True)
class Paste:
    """Copy a weight into a larger one; its first element goes to ``at``."""

    weight: str
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MergedWeight:
    """A weight that is zero but for what is pasted into it."""

    spec: TensorSpec
    pastes: tuple[Paste, ...]


Frame = tuple[tuple[int, ...], tuple[int, ...]]
"""Kernel and padding on each axis; empty for a product."""


def frame_of(layer: Layer, graph: Graph) -> Frame:
    if not layer.is_convolution:
        return (), ()
    return graph.values[layer.weight].shape[2:], layer.numbers(PADDING)


def layer_differences(first: Layer, other: Layer, graph: Graph) -> Iterator[str]:
    """Why two layers, which read the same value, cannot be one, whatever their frames."""
    both = f"{first.name!r} and {other.name!r}"
    if first.operator.target != other.operator.target:
        yield f"{both} are {first.operator.target} and {other.operator.target}"
        return
    if first.weight_at != other.weight_at:
        yield f"{both} have their weights on different sides"
    if first.keywords != other.keywords:
        yield f"{both} have the keywords {first.keywords} and {other.keywords}"
    for what, name_of in _TENSORS.items():
        names = name_of(first), name_of(other)
        types = [graph.values[name].dtype for name in names if name is not None]
        if len(set(types)) > 1:
            yield f"the {what} of {both} have the types {types[0]} and {types[1]}"
    if first.is_convolution:
        for argument in (STRIDE, DILATION):
            numbers = first.numbers(argument), other.numbers(argument)
            if numbers[0] != numbers[1]:
                what = CONVOLUTION_ARGUMENTS[argument]
                yield f"the {what} of {both} is {numbers[0]} and {numbers[1]}"
    else:
        sizes = _apart_from_filters(first, graph), _apart_from_filters(other, graph)
        if sizes[0] != sizes[1]:
            yield f"the weights of {both} have different sizes: {sizes[0]} and {sizes[1]}"
        if len({graph.values[b].shape[:-1] for b in (first.bias, other.bias) if b}) > 1:
            yield f"the biases of {both} have different shapes"
    results = [
        _without(graph.values[layer.result].shape, layer.result_axis) for layer in (first, other)
    ]
    if results[0] != results[1]:
        yield f"the results of {both} have different sizes: {results[0]} and {results[1]}"


def _apart_from_filters(layer: Layer, graph: Graph) -> tuple[int, ...]:
    return _without(graph.values[layer.weight].shape, layer.filter_axis)


_TENSORS: Mapping[str, Callable[[Layer], str | None]] = {
    "weights": lambda layer: layer.weight,
    "biases": lambda layer: layer.bias,
    "results": lambda layer: layer.result,
}


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def misfit(layers: Sequence[Layer], graph: Graph) -> str | None:
    """Why the kernel of one of the layers, which differ in nothing else, cannot lie in the largest
    so that the result stays the same; None if all can."""
    if not layers[0].is_convolution:
        return None
    kernel, padding = _frame(layers, graph)
    for layer in layers:
        own_kernel, own_padding = frame_of(layer, graph)
        for axis, dilation in enumerate(layer.numbers(DILATION)):
            shift = padding[axis] - own_padding[axis]
            if shift % dilation or shift // dilation > kernel[axis] - own_kernel[axis]:
                return (
                    f"kernel {own_kernel[axis]} with padding {own_padding[axis]} of"
                    f" {layer.name!r} does not lie in kernel {kernel[axis]} with padding"
                    f" {padding[axis]} on axis {axis}"
                )
    return None


def _frame(layers: Sequence[Layer], graph: Graph) -> Frame:
    """Kernel and padding of the merged convolution: the largest on each axis."""
    kernels, paddings = zip(*(frame_of(layer, graph) for layer in layers), strict=True)
    return (
        tuple(max(sizes) for sizes in zip(*kernels, strict=True)),
        tuple(max(sizes) for sizes in zip(*paddings, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class MergedLayer:
    """The one layer, its arguments still with the first part's weight and bias. ``sizes`` are the
    filters of each part, along ``axis`` of ``result``; ``bias`` is None if no part has one."""

    first: Layer
    arguments: tuple[Argument, ...]
    weight: MergedWeight
    bias: MergedWeight | None
    result: TensorSpec
    sizes: tuple[int, ...]

    @property
    def axis(self) -> int:
        return self.first.result_axis

    def operator(self, name: str, weight: str, bias: str | None) -> Operator:
        """The operator of that name, which reads its weight and its bias by these."""
        arguments = list(self.arguments)
        arguments[self.first.weight_at] = ValueRef(weight)
        if self.first.bias_at is not None:
            arguments[self.first.bias_at] = None if bias is None else ValueRef(bias)
        target, keywords = self.first.operator.target, self.first.keywords
        return Operator(name, target, tuple(arguments), keywords, (name,))


def merged_layer(layers: Sequence[Layer], graph: Graph) -> MergedLayer:
    """One layer with the filters of all, in their order. Needs layers of which
    ``layer_differences`` and ``misfit`` say nothing.

    Before: ``conv2d(x, a, kernel 1)``, ``conv2d(x, b, kernel 3, padding 1)``. After:
    ``conv2d(x, ab, kernel 3, padding 1)``, where ``ab`` has the filters of ``a`` in the middle of
    zeros and then those of ``b``.

    Tap t of a kernel k with padding p and dilation d reads the input at position i · stride - p +
    t · d for the result at position i. In a kernel K with padding P it does as tap t + (P - p) / d,
    which must be whole and within 0 ≤ (P - p) / d ≤ K - k on every axis.
    """
    first = layers[0]
    arguments = list(first.arguments)
    starts = [[0] * len(graph.values[layer.weight].shape) for layer in layers]
    shape = list(graph.values[first.weight].shape)
    if first.is_convolution:
        kernel, padding = _frame(layers, graph)
        shape[2:], arguments[PADDING] = kernel, padding
        for layer, start in zip(layers, starts, strict=True):
            start[2:] = [
                (largest - own) // dilation
                for largest, own, dilation in zip(
                    padding, layer.numbers(PADDING), layer.numbers(DILATION), strict=True
                )
            ]
    sizes = [graph.values[layer.weight].shape[layer.filter_axis] for layer in layers]
    offsets = [sum(sizes[:number]) for number in range(len(sizes))]
    for offset, start in zip(offsets, starts, strict=True):
        start[first.filter_axis] = offset
    shape[first.filter_axis] = sum(sizes)
    result = graph.values[first.result]
    wide = list(result.shape)
    wide[first.result_axis] = sum(sizes)
    return MergedLayer(
        first=first,
        arguments=tuple(arguments),
        weight=MergedWeight(
            TensorSpec(tuple(shape), graph.values[first.weight].dtype),
            tuple(
                Paste(layer.weight, tuple(start))
                for layer, start in zip(layers, starts, strict=True)
            ),
        ),
        bias=_merged_bias(layers, graph, offsets, sum(sizes)),
        result=TensorSpec(tuple(wide), result.dtype),
        sizes=tuple(sizes),
    )


def _merged_bias(
    layers: Sequence[Layer], graph: Graph, offsets: Sequence[int], filters: int
) -> MergedWeight | None:
    """The biases one after another along the last axis, zero for a layer without."""
    given = [layer.bias for layer in layers if layer.bias is not None]
    if not given:
        return None
    spec = graph.values[given[0]]
    before = spec.shape[:-1]
    return MergedWeight(
        TensorSpec((*before, filters), spec.dtype),
        tuple(
            Paste(layer.bias, (*(0 for _ in before), offset))
            for layer, offset in zip(layers, offsets, strict=True)
            if layer.bias is not None
        ),
    )
