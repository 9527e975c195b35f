"""How a Graph is computed: each Unit compiled once into a Python function without look-ups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workers.graph.bindings import binding, in_place_binding, returns_sequence
from workers.graph.graph import (
    Argument,
    DtypeRef,
    Graph,
    GraphError,
    Operator,
    Unit,
    ValueRef,
    references,
)
from workers.graph.operators import KINDS

# Operators of these kinds never return memory that belongs to their operands, for any arguments.
_FRESH = {"conv", "linear", "matmul", "normalization"}


@dataclass(frozen=True, slots=True)
class CompiledUnit:
    """``function`` takes the tensors named by ``inputs`` and returns those named by ``outputs``."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., tuple[Tensor, ...]]


def compile_unit(graph: Graph, unit: Unit, weights: Mapping[str, Tensor]) -> CompiledUnit:
    """Compile a Unit, with its weights bound, for repeated calls.

    Before: ``conv2d(x, w, b) → c``, ``relu(c) → r``. After::

        def unit(v0):
            v1 = f0(v0, c0, c1, ...)
            v2 = f1(v1)          # in place: v1 is fresh and nobody else reads it
            return (v2,)

    The source holds no text of the graph, only numbered names; values are bound by position.
    """
    return _Compiler(graph, unit, weights).compile()


def run_graph(
    graph: Graph, weights: Mapping[str, Tensor], inputs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Run every Unit in order and return the outputs by name: the reference for every device."""
    values: dict[str, Tensor] = {**weights, **inputs}
    with torch.inference_mode():
        for unit in graph.units:
            compiled = compile_unit(graph, unit, weights)
            results = compiled.function(*(values[name] for name in compiled.inputs))
            values.update(zip(compiled.outputs, results, strict=True))
    return {name: values[name] for name in graph.outputs}


class _Compiler:
    def __init__(self, graph: Graph, unit: Unit, weights: Mapping[str, Tensor]) -> None:
        self._graph, self._unit, self._weights = graph, unit, weights
        self._bound: dict[str, Any] = {}
        self._variables: dict[str, str] = {}

    def compile(self) -> CompiledUnit:
        unit = self._unit
        parameters = [self._variable(name) for name in unit.inputs]
        body = [self._statement(operator) for operator in unit.operators]
        results = "".join(f"{self._variable(name)}, " for name in unit.outputs)
        lines = [f"def unit({', '.join(parameters)}):", *body, f"    return ({results})"]
        namespace: dict[str, Any] = dict(self._bound)
        exec("\n".join(lines), namespace)  # noqa: S102  # the text is made here, of numbered names
        # Not left among its own globals, or the weights would outlive it until a collection.
        return CompiledUnit(unit.name, unit.inputs, unit.outputs, namespace.pop("unit"))

    def _statement(self, operator: Operator) -> str:
        arguments = [self._expression(argument) for argument in operator.arguments]
        arguments += [
            f"{_identifier(name)}={self._expression(value)}" for name, value in operator.keywords
        ]
        function = self._bind("f", self._function(operator))
        call = f"{function}({', '.join(arguments)})"
        names = [self._variable(name) for name in operator.outputs]
        targets = names[0] if len(names) == 1 else ", ".join(names)
        if len(names) == 1 and returns_sequence(operator.target):
            targets += ","
        return f"    {targets} = {call}"

    def _function(self, operator: Operator) -> Callable[..., Any]:
        in_place = in_place_binding(operator.target)
        if in_place is not None and self._owns(operator.inputs[0]):
            return in_place
        return binding(operator.target)

    def _owns(self, value: str) -> bool:
        """Whether ``value`` is a fresh tensor of this Unit with exactly one reader."""
        if value in self._unit.outputs or value in self._graph.outputs:
            return False
        readers = sum(value in operator.inputs for operator in self._unit.operators)
        makers = [o for o in self._unit.operators if value in o.outputs]
        return readers == 1 and bool(makers) and KINDS[makers[0].target] in _FRESH

    def _expression(self, argument: Argument) -> str:
        if isinstance(argument, ValueRef):
            if argument.name in self._weights:
                return self._bind("w", self._weights[argument.name])
            return self._variable(argument.name)
        if isinstance(argument, tuple) and any(references(argument)):
            return f"[{', '.join(self._expression(item) for item in argument)}]"
        return self._bind("c", _constant(argument))

    def _bind(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self._bound)}"
        self._bound[name] = value
        return name

    def _variable(self, name: str) -> str:
        return self._variables.setdefault(name, f"v{len(self._variables)}")


def _constant(argument: Argument) -> Any:
    """An argument without tensors as torch takes it; operators do not change their arguments, so
    that one list serves every call."""
    if isinstance(argument, tuple):
        return [_constant(item) for item in argument]
    return getattr(torch, argument.name) if isinstance(argument, DtypeRef) else argument


def _identifier(name: str) -> str:
    if not name.isidentifier():
        raise GraphError(f"{name!r} is not a keyword of an operator")
    return name
