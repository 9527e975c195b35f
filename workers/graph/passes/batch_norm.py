"""Batch normalisation and other scaling by channel, folded into the layer before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from workers.graph.graph import Argument, Graph, Operator, TensorSpec, ValueRef
from workers.graph.passes.affine import Affine, affine_of
from workers.graph.passes.pointwise import BATCH_NORM
from workers.graph.units import operator_units


def fold_batch_norm(graph: Graph, weights: Mapping[str, Tensor]) -> tuple[Graph, dict[str, Tensor]]:
    """Fold what scales and shifts each channel of a layer's result into the layer's parameters.

    Before: ``conv(x, W, b) → c``, ``batch_norm(c, γ, β, μ, σ², ε) → n``, ``mul(n, 0.5) → y``.
    After: ``conv(x, W·s, b·s + t) → y`` with the scale s and shift t of all of them together for
    each output channel, computed in float64 and stored in W's type under two new names.

    Layers are convolutions, transposed or not, ``linear`` and ``addmm``; what is folded are
    normalisation with stored statistics and arithmetic with numbers or with one weight for each
    channel (``workers.graph.passes.affine``). An operator stays if anything else reads the result
    that it scales, if its own statistics are read, or if a parameter is computed rather than a
    weight. Arithmetic stays too if another operator uses W, which would then be stored twice.

    A normalisation *before* a layer stays: networks that normalise first put a ReLU between.
    """
    readers: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        for name in operator.inputs:
            readers.setdefault(name, []).append(operator)
    values, tensors = dict(graph.values), dict(weights)
    replaced: dict[str, Operator] = {}
    gone: set[str] = set()
    for operator in graph.operators:
        layer = _Layer.match(operator, graph)
        if layer is None:
            continue
        shared = len(readers[layer.weight]) > 1 or layer.weight in graph.outputs
        scaling, affine = _scaling(layer, shared, readers, graph, weights)
        if affine is None:
            continue
        names = []
        for role, tensor in zip(("weight", "bias"), layer.folded(affine, weights), strict=True):
            name = _unused(f"{operator.name}.folded_{role}", values)
            tensors[name] = tensor
            values[name] = TensorSpec(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            names.append(name)
        replaced[operator.name] = layer.rewritten(names, scaling[-1].outputs[0])
        gone.update(scaled.name for scaled in scaling)
    if not gone:
        return graph, dict(weights)
    result = operator_units(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        weights=tuple(tensors),
        values=values,
        operators=[replaced.get(o.name, o) for o in graph.operators if o.name not in gone],
    )
    return result, {name: tensors[name] for name in result.weights}


def _scaling(
    layer: _Layer,
    shared: bool,
    readers: Mapping[str, Sequence[Operator]],
    graph: Graph,
    weights: Mapping[str, Tensor],
) -> tuple[list[Operator], Affine | None]:
    """The operators after the layer that can be folded into it, and what they do together."""
    value = layer.operator.outputs[0]
    found: list[Operator] = []
    together: Affine | None = None
    while len(readers.get(value, ())) == 1 and value not in graph.outputs:
        (reader,) = readers[value]
        if shared and not found and reader.target != BATCH_NORM:
            break
        if any(name in readers or name in graph.outputs for name in reader.outputs[1:]):
            break
        affine = affine_of(reader, value, layer.axis, graph, weights)
        if affine is None:
            break
        together = affine if together is None else together.then(affine)
        found.append(reader)
        value = reader.outputs[0]
    return found, together


def _unused(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name


def _at(operator: Operator, position: int) -> Argument:
    return operator.arguments[position] if position < len(operator.arguments) else None


# Where weight and bias stand, and the axis of the weight that the outputs lie along.
_PLACES = {
    "aten.conv1d.default": (1, 2, 0), "aten.conv2d.default": (1, 2, 0),
    "aten.conv3d.default": (1, 2, 0), "aten.linear.default": (1, 2, 0),
    "aten.conv_transpose1d.default": (1, 2, 1), "aten.conv_transpose2d.input": (1, 2, 1),
    "aten.conv_transpose3d.input": (1, 2, 1), "aten.addmm.default": (2, 0, 1),
}  # fmt: skip
_TRANSPOSED_GROUPS = 6  # (input, weight, bias, stride, padding, output padding, groups, dilation)


@dataclass(frozen=True)
class _Layer:
    """A convolution or product with constant parameters. ``axis`` is that of its result along
    which its outputs lie."""

    operator: Operator
    weight: str
    bias: str | None
    axis: int

    @classmethod
    def match(cls, operator: Operator, graph: Graph) -> _Layer | None:
        if operator.target not in _PLACES or operator.keywords:
            return None
        at_weight, at_bias, _ = _PLACES[operator.target]
        weight, bias = _at(operator, at_weight), _at(operator, at_bias)
        if not isinstance(weight, ValueRef) or weight.name not in graph.weights:
            return None
        if bias is not None and not isinstance(bias, ValueRef):
            return None
        if bias is not None and (
            bias.name not in graph.weights or len(graph.values[bias.name].shape) != 1
        ):
            return None
        rank = len(graph.values[operator.outputs[0]].shape)
        if "conv" in operator.target:
            # Without a batch axis the filters do not lie along the second axis of the result.
            if rank != len(graph.values[weight.name].shape):
                return None
            axis = 1
        else:
            axis = rank - 1
        return cls(operator, weight.name, bias.name if bias else None, axis)

    def folded(self, affine: Affine, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """W·s and b·s + t, in W's type."""
        weight = weights[self.weight]
        bias = affine.shift
        if self.bias is not None:
            bias = weights[self.bias].double() * affine.scale + affine.shift
        scaled = weight.double() * self._along_outputs(affine.scale, weight)
        return scaled.to(weight.dtype).contiguous(), bias.to(weight.dtype)

    def _along_outputs(self, scale: Tensor, weight: Tensor) -> Tensor:
        """The scale in a shape that multiplies each output's part of the weight.

        A transposed convolution's weight is (inputs, outputs / groups, *kernel), and the inputs
        of one group, which follow each other, make the outputs of that group.
        """
        if _PLACES[self.operator.target][2] == 0:
            return scale.reshape(-1, *[1] * (weight.dim() - 1))
        groups = _at(self.operator, _TRANSPOSED_GROUPS) if weight.dim() > 2 else 1
        groups = groups if isinstance(groups, int) else 1
        by_group = scale.reshape(groups, 1, -1).expand(-1, weight.shape[0] // groups, -1)
        return by_group.reshape(weight.shape[0], -1, *[1] * (weight.dim() - 2))

    def rewritten(self, parameters: Sequence[str], output: str) -> Operator:
        """The layer with the new weight and bias, computing ``output``."""
        at_weight, at_bias, _ = _PLACES[self.operator.target]
        arguments = list(self.operator.arguments)
        arguments += [None] * (max(at_weight, at_bias) + 1 - len(arguments))
        arguments[at_weight], arguments[at_bias] = map(ValueRef, parameters)
        return replace(self.operator, arguments=tuple(arguments), outputs=(output,))
