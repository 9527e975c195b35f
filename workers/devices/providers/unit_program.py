"""A Unit as a program for compilers: an FX graph whose weights are arguments like its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from workers.graph.bindings import overload, returns_sequence
from workers.graph.graph import Argument, DtypeRef, Graph, Unit, ValueRef
from workers.graph.signature import parameters


@dataclass(frozen=True, slots=True)
class UnitProgram:
    """The parameters of a Unit's program: ``inputs``, then ``weights``, each in the order in which
    its operators first read them. Units of equal signatures have parameters in the same order."""

    graph: Graph
    unit: Unit
    inputs: tuple[str, ...]
    weights: tuple[str, ...]

    def trace(
        self,
        examples: Mapping[str, Tensor],
        device: str,
        decompositions: dict[OpOverload[..., Any], Callable[..., Any]],
    ) -> tuple[GraphModule, list[Tensor]]:
        """The FX graph of the Unit's operators, decomposed, and fake tensors for its parameters.

        Weights have the strides of ``examples``, inputs are contiguous. Nothing is computed.
        """
        with torch.no_grad(), FakeTensorMode():
            parameters = [
                torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=device)
                for spec in self.graph.specs(self.inputs)
            ] + [
                torch.empty_strided(
                    weight.shape, weight.stride(), dtype=weight.dtype, device=device
                )
                for weight in (examples[name] for name in self.weights)
            ]
            traced = make_fx(self._compute, decomposition_table=decompositions)(*parameters)
        return traced, parameters

    def _compute(self, *parameters: Tensor) -> list[Tensor]:
        values = dict(zip((*self.inputs, *self.weights), parameters, strict=True))
        for operator in self.unit.operators:
            results = overload(operator.target)(
                *(_value(argument, values) for argument in operator.arguments),
                **{name: _value(argument, values) for name, argument in operator.keywords},
            )
            several = returns_sequence(operator.target)
            values.update(zip(operator.outputs, results if several else [results], strict=True))
        return [values[name] for name in self.unit.outputs]


def program_of(graph: Graph, unit: Unit) -> UnitProgram:
    """The Unit's program, with its parameters in the order of the structural signature."""
    inputs, weights = parameters(graph, unit)
    return UnitProgram(graph, unit, inputs, weights)


def _value(argument: Argument, values: Mapping[str, Tensor]) -> Any:
    if isinstance(argument, ValueRef):
        return values[argument.name]
    if isinstance(argument, tuple):
        return [_value(item, values) for item in argument]
    return getattr(torch, argument.name) if isinstance(argument, DtypeRef) else argument
