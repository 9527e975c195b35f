"""Batch normalisation folded into the convolution or linear layer before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workers.graph.graph import Argument, Graph, Operator, TensorSpec, ValueRef
from workers.graph.units import operator_units

BATCH_NORM = "aten._native_batch_norm_legit_no_training.default"
# Their filters lie along the first axis of the weight, as BN's channels do along the result's
# second; a transposed convolution's do not.
_FOLDABLE = {
    "aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default", "aten.linear.default",
}  # fmt: skip


def fold_batch_norm(graph: Graph, weights: Mapping[str, Tensor]) -> tuple[Graph, dict[str, Tensor]]:
    """Fold each normalisation with stored statistics into the operator that it normalises.

    Before: ``conv(x, W, b) → c``, ``batch_norm(c, γ, β, μ, σ², ε) → y``. After:
    ``conv(x, W·s, (b - μ)·s + β) → y`` with ``s = γ / √(σ² + ε)`` for each output channel, computed
    in float64 and stored in W's type under two new names.

    A normalisation stays if anything else reads ``c``, if its own statistics are read, or if a
    parameter of either operator is computed rather than a weight.
    """
    readers = Counter(name for operator in graph.operators for name in operator.inputs)
    readers.update(graph.outputs)
    maker = {name: operator for operator in graph.operators for name in operator.outputs}
    values = dict(graph.values)
    tensors = dict(weights)
    replaced: dict[str, Operator] = {}
    gone: set[str] = set()
    for operator in graph.operators:
        pair = _Pair.match(operator, maker, readers, graph)
        if pair is None:
            continue
        folded = pair.fold(tensors)
        names = []
        for role, tensor in zip(("weight", "bias"), folded, strict=True):
            name = _unused(f"{pair.producer.name}.folded_{role}", values)
            tensors[name] = tensor
            values[name] = TensorSpec(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            names.append(name)
        replaced[pair.producer.name] = pair.rewritten(*names)
        gone.add(operator.name)
    result = operator_units(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        weights=tuple(tensors),
        values=values,
        operators=[replaced.get(o.name, o) for o in graph.operators if o.name not in gone],
    )
    return result, {name: tensors[name] for name in result.weights}


def _unused(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name


def _at(operator: Operator, position: int) -> Argument:
    return operator.arguments[position] if position < len(operator.arguments) else None


@dataclass(frozen=True)
class _Pair:
    """A convolution or linear layer and the batch normalisation that alone reads it."""

    producer: Operator
    norm: Operator
    weight: str
    epsilon: float

    @classmethod
    def match(
        cls,
        norm: Operator,
        maker: Mapping[str, Operator],
        readers: Counter[str],
        graph: Graph,
    ) -> _Pair | None:
        source, epsilon = _at(norm, 0), _at(norm, 6)
        producer = maker.get(source.name) if isinstance(source, ValueRef) else None
        if norm.target != BATCH_NORM or producer is None or producer.target not in _FOLDABLE:
            return None
        weight = _at(producer, 1)
        required = (weight, _at(norm, 3), _at(norm, 4))
        optional = (_at(producer, 2), _at(norm, 1), _at(norm, 2))
        fixed = all(
            isinstance(parameter, ValueRef) and parameter.name in graph.weights
            for parameter in (*required, *(p for p in optional if p is not None))
        )
        if not fixed or not isinstance(weight, ValueRef) or not isinstance(epsilon, float | int):
            return None
        (before, *more), (after, *statistics) = producer.outputs, norm.outputs
        alone = readers[before] == 1 and not any(readers[name] for name in (*more, *statistics))
        # Without a batch axis, or with several, the filters are not the normalised channels.
        rank = len(graph.values[before].shape)
        fits = rank == len(graph.values[weight.name].shape)
        fits = fits and graph.values[before] == graph.values[after]
        return cls(producer, norm, weight.name, epsilon) if alone and fits else None

    def fold(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """W·s and (b - μ)·s + β, in W's type."""

        def parameter(operator: Operator, position: int, default: float) -> Tensor:
            argument = _at(operator, position)
            if isinstance(argument, ValueRef):
                return weights[argument.name].double()
            return torch.tensor(default, dtype=torch.float64)

        weight = weights[self.weight]
        bias = parameter(self.producer, 2, 0)
        gamma, beta = parameter(self.norm, 1, 1), parameter(self.norm, 2, 0)
        mean, variance = parameter(self.norm, 3, 0), parameter(self.norm, 4, 1)
        scale = gamma / torch.sqrt(variance + self.epsilon)
        per_filter = scale.reshape(-1, *[1] * (weight.dim() - 1))
        shifted = (bias - mean) * scale + beta
        return (weight.double() * per_filter).to(weight.dtype), shifted.to(weight.dtype)

    def rewritten(self, weight: str, bias: str) -> Operator:
        """The producer with the new parameters, computing what the normalisation computed."""
        source, _, *rest = self.producer.arguments
        return replace(
            self.producer,
            arguments=(source, ValueRef(weight), ValueRef(bias), *rest[1:]),
            outputs=self.norm.outputs[:1],
        )
