"""How a Graph is computed: each Unit compiled once into a Python function without look-ups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from types import FunctionType
from typing import Any, cast

import torch
from torch import Tensor

from workers.graph.bindings import binding, in_place_binding, returns_sequence
from workers.graph.fused import (
    CALLS,
    CHANNELS_LAST,
    PACKINGS,
    PLAIN,
    TRANSPOSED,
    FusedCall,
    Packed,
    UnitKernels,
)
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
    """``function`` takes the tensors named by ``inputs`` and returns those named by ``outputs``.

    ``calls`` says what the functions are that it calls, by their names among its globals; it is
    empty if ``function`` is itself the one that computes the Unit, called ``kernel``.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., tuple[Tensor, ...]]
    calls: Mapping[str, str] = field(default_factory=dict)
    kernel: str = ""


Seen = Callable[[str, int, int, Sequence[Tensor]], object]
"""Told of a call: its name, when it began and ended in ns, and the tensors that it returned."""


def compile_unit(
    graph: Graph,
    unit: Unit,
    weights: Mapping[str, Tensor],
    kernels: UnitKernels = PLAIN,
) -> CompiledUnit:
    """Compile a Unit, with its weights bound, for repeated calls. Operators that are in none of
    the calls of ``kernels`` are called one by one. Weights are packed for as many threads as the
    caller may use.

    Before: ``conv2d(x, w, b) → c``, ``relu(c) → r``. After::

        def unit(v0):
            v1 = f0(v0, c0, c1, ...)
            v2 = f1(v1)          # in place: v1 is fresh and nobody else reads it
            return (v2,)

    The source holds no text of the graph, only numbered names; values are bound by position.
    """
    return _Compiler(graph, unit, weights, kernels).compile()


def observed(unit: CompiledUnit, seen: Seen) -> CompiledUnit:
    """The Unit with ``seen`` told of every call that it makes, in their order."""
    if not unit.calls:
        return replace(unit, function=_observed(unit.function, unit.kernel, seen))
    function = unit.function
    if not isinstance(function, FunctionType):
        raise TypeError(f"unit {unit.name!r} names what it calls but is no Python function")
    watched = {
        variable: _observed(function.__globals__[variable], name, seen)
        for variable, name in unit.calls.items()
    }
    return replace(
        unit, function=FunctionType(function.__code__, {**function.__globals__, **watched})
    )


def _observed(function: Callable[..., Any], name: str, seen: Seen) -> Callable[..., Any]:
    def call(*arguments: Any, **keywords: Any) -> Any:
        start = perf_counter_ns()
        result = function(*arguments, **keywords)
        seen(name, start, perf_counter_ns(), [result] if isinstance(result, Tensor) else result)
        return result

    return call


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
    def __init__(
        self,
        graph: Graph,
        unit: Unit,
        weights: Mapping[str, Tensor],
        kernels: UnitKernels,
    ) -> None:
        self._graph, self._unit, self._weights = graph, unit, weights
        self._laid_out = {
            name: weights[name].contiguous(memory_format=torch.channels_last)
            for name in kernels.channels_last
        }
        self._fused = {call.operators[-1]: call for call in kernels.calls}
        self._skipped = {name for call in kernels.calls for name in call.operators[:-1]}
        self._bound: dict[str, Any] = {}
        self._calls: dict[str, str] = {}
        self._variables: dict[str, str] = {}

    def compile(self) -> CompiledUnit:
        unit = self._unit
        parameters = [self._variable(name) for name in unit.inputs]
        body = [
            self._fused_statement(self._fused[operator.name])
            if operator.name in self._fused
            else self._statement(operator)
            for operator in unit.operators
            if operator.name not in self._skipped
        ]
        results = "".join(f"{self._variable(name)}, " for name in unit.outputs)
        lines = [f"def unit({', '.join(parameters)}):", *body, f"    return ({results})"]
        namespace: dict[str, Any] = dict(self._bound)
        exec("\n".join(lines), namespace)  # noqa: S102  # the text is made here, of numbered names
        # Not left among its own globals, or the weights would outlive it until a collection.
        return CompiledUnit(
            unit.name, unit.inputs, unit.outputs, namespace.pop("unit"), dict(self._calls)
        )

    def _statement(self, operator: Operator) -> str:
        arguments = [self._expression(argument) for argument in operator.arguments]
        arguments += [
            f"{_identifier(name)}={self._expression(value)}" for name, value in operator.keywords
        ]
        function = self._bind("f", self._function(operator))
        self._calls[function] = operator.target
        call = f"{function}({', '.join(arguments)})"
        names = [self._variable(name) for name in operator.outputs]
        targets = names[0] if len(names) == 1 else ", ".join(names)
        if len(names) == 1 and returns_sequence(operator.target):
            targets += ","
        return f"    {targets} = {call}"

    def _fused_statement(self, call: FusedCall) -> str:
        function = self._bind("f", fused_function(call))
        self._calls[function] = call.name
        arguments = [
            self._bind("p", packed(argument, self._weights[argument.weight]))
            if isinstance(argument, Packed)
            else self._expression(argument)
            for argument in call.arguments
        ]
        arguments += [
            f"{_identifier(name)}={self._expression(value)}" for name, value in call.keywords
        ]
        return f"    {self._variable(call.output)} = {function}({', '.join(arguments)})"

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
                held = self._laid_out.get(argument.name, self._weights[argument.name])
                return self._bind("w", held)
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


def fused_function(call: FusedCall) -> Callable[..., Tensor]:
    """What ``call`` calls. Raises GraphError if it is not allowed, AttributeError if this PyTorch
    has no such operator."""
    return _named(call.target, CALLS)


def packed(packing: Packed, weight: Tensor) -> Tensor:
    """The weight made ready for the number of threads that the caller may use."""
    if packing.recipe == CHANNELS_LAST:
        return weight.contiguous(memory_format=torch.channels_last)
    if packing.recipe == TRANSPOSED:
        return weight.t()
    function = _named(packing.recipe, PACKINGS)
    return function(weight.detach().contiguous(), *map(_constant, packing.arguments))


def _named(target: str, allowed: Collection[str]) -> Callable[..., Tensor]:
    if target not in allowed:
        raise GraphError(f"fused call {target!r} is not allowed")
    found: Any = torch.ops
    for name in target.split("."):
        found = getattr(found, name)
    return cast("Callable[..., Tensor]", found)


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
