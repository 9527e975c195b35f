"""Writes down the ATen operators that an ONNX model comes to, and computes what is constant.

There is one pass and one description of each ONNX operator: called on values that are all known,
an operator is computed at once; otherwise it runs on torch's meta device, which gives the shapes,
and is recorded. Shape arithmetic and weights made by nodes vanish on the way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from workers.graph.bindings import overload
from workers.graph.graph import (
    ITEM_SIZES,
    Argument,
    DtypeRef,
    Graph,
    Operator,
    TensorSpec,
    ValueRef,
)
from workers.graph.importers.canonical import canonical
from workers.graph.importers.source import ImportFailure
from workers.graph.operators import KINDS
from workers.graph.units import operator_units

_UNFIT = re.compile(r"[^A-Za-z0-9_.:+-]")
_LONGEST_NAME = 200


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A tensor of the model: its elements if they are constant, else its shape and type only.

    ``name`` is the recorded value's, or of a constant the one that it should get as a weight.
    """

    tensor: Tensor
    name: str | None = None

    @property
    def constant(self) -> bool:
        return self.tensor.device.type != "meta"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def rank(self) -> int:
        return self.tensor.dim()

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype


class Recorder:
    """The operators so far. ``label`` names those that are recorded next."""

    def __init__(self) -> None:
        self.label = "operator"
        self._values: dict[str, TensorSpec] = {}
        self._operators: list[Operator] = []
        self._inputs: list[str] = []
        self._weights: dict[str, Tensor] = {}
        self._transposed: dict[int, tuple[Value, Value]] = {}
        self._numbers: Counter[str] = Counter()
        self._weight_names: dict[int, tuple[Value, str]] = {}

    def input(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Value:
        """Define the next input of the model."""
        unique = self._unused(name)
        tensor = torch.empty(tuple(shape), dtype=dtype, device="meta")
        self._values[unique] = _spec(tensor)
        self._inputs.append(unique)
        return Value(tensor, unique)

    def call(self, target: str, *arguments: Any, **keywords: Any) -> Value:
        """The one result of an ATen operator, for example ``call("add.Tensor", x, 1)``."""
        (result,) = self.call_all(target, *arguments, **keywords)
        return result

    def call_all(self, target: str, *arguments: Any, **keywords: Any) -> tuple[Value, ...]:
        """All results of an ATen operator: computed if all its tensors are constant, else recorded.

        Raises whatever torch raises for arguments that do not fit.
        """
        target = f"aten.{target}"
        function = overload(target)
        if all(value.constant for value in _values_in((arguments, *keywords.values()))):
            with torch.inference_mode():
                computed = function(*_mapped(arguments, _real), **_mapped(keywords, _real))
            return tuple(Value(tensor) for tensor in _as_tensors(computed))
        shapes = function(*_mapped(arguments, _meta), **_mapped(keywords, _meta))
        return self._record(target, arguments, keywords, _as_tensors(shapes))

    def transposed(self, matrix: Value) -> Value:
        """A constant matrix the other way round, the same value each time, so that nodes which
        share it share a weight."""
        if id(matrix) not in self._transposed:
            self._transposed[id(matrix)] = matrix, Value(matrix.tensor.t(), matrix.name)
        return self._transposed[id(matrix)][1]

    def trace(self, function: Callable[..., Any], *values: Value) -> tuple[Value, ...]:
        """All results of a torch function of tensors, recorded operator by operator."""
        if all(value.constant for value in values):
            with torch.inference_mode():
                return tuple(Value(t) for t in _as_tensors(function(*(v.tensor for v in values))))
        tensors = [_meta(value) for value in values]
        mode = _Tracing(self, dict(zip(map(id, tensors), values, strict=True)))
        with torch.no_grad(), mode:
            found = function(*tensors)
        return tuple(mode.value(tensor) for tensor in _as_tensors(found))

    def graph(self, name: str, outputs: Mapping[str, Value]) -> tuple[Graph, dict[str, Tensor]]:
        """The Graph of what the outputs, by name, need; and its weights."""
        returned = self._returned(outputs)
        needed = set(returned)
        live = []
        for operator in reversed(self._operators):
            if needed.intersection(operator.outputs):
                needed.update(operator.inputs)
                live.append(operator)
        graph = operator_units(
            name=name,
            inputs=self._inputs,
            outputs=returned,
            weights=[weight for weight in self._weights if weight in needed],
            values=self._values,
            operators=live[::-1],
        )
        return graph, {weight: self._weights[weight] for weight in graph.weights}

    def _returned(self, outputs: Mapping[str, Value]) -> list[str]:
        """The names of the outputs' values, renamed to the model's where that can be done.

        An output that is an input, a constant or another output's value is copied.
        """
        computed = {name for operator in self._operators for name in operator.outputs}
        renamed: dict[str, str] = {}
        names = []
        for output, value in outputs.items():
            name = None if value.constant else value.name
            if name not in computed or name in renamed:
                self.label = output
                copied = torch.empty_like(_meta(value))
                (copy,) = self._record("aten.clone.default", (value,), {}, [copied])
                name = copy.name
            assert name is not None  # noqa: S101  # recorded values have one
            clean = _clean(output)
            wanted = name if clean == name else self._unused(clean)
            renamed[name] = wanted
            names.append(wanted)
        self._operators = [_renamed(operator, renamed) for operator in self._operators]
        self._values = {renamed.get(name, name): spec for name, spec in self._values.items()}
        return names

    def _record(
        self,
        target: str,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        tensors: Sequence[Tensor],
    ) -> tuple[Value, ...]:
        if target not in KINDS:
            raise ImportFailure(
                "unsupported_operator",
                f"it comes to {target}, which Plait does not support",
            )
        read = tuple(self._argument(argument) for argument in arguments)
        named = tuple(
            (key, self._argument(value)) for key, value in keywords.items() if value is not None
        )
        name = self._unused(self.label)
        outputs = [name] if len(tensors) == 1 else [f"{name}.{i}" for i in range(len(tensors))]
        operator = Operator(
            name=name,
            target=target,
            arguments=read,
            keywords=named,
            outputs=tuple(outputs),
        )
        self._values[name] = _spec(tensors[0])
        for output, tensor in zip(outputs, tensors, strict=True):
            self._values[output] = _spec(tensor)
        self._operators.append(operator)
        return tuple(Value(t, output) for t, output in zip(tensors, outputs, strict=True))

    def _argument(self, item: Any) -> Argument:
        if isinstance(item, Value):
            return ValueRef(self._weight(item) if item.constant else cast("str", item.name))
        if isinstance(item, (list, tuple)):
            return tuple(self._argument(part) for part in item)
        if isinstance(item, torch.dtype):
            return DtypeRef(str(item).removeprefix("torch."))
        if item is None or isinstance(item, (bool, int, float, str)):
            return item
        raise TypeError(f"an operator of a Graph cannot take a {type(item).__name__}")

    def _weight(self, value: Value) -> str:
        if id(value) not in self._weight_names:
            name = self._unused(value.name or f"{self.label}.constant")
            self._weights[name] = value.tensor
            self._values[name] = _spec(value.tensor)
            self._weight_names[id(value)] = (value, name)  # keeps the value, hence its id, alive
        return self._weight_names[id(value)][1]

    def _unused(self, name: str) -> str:
        base = unique = _clean(name)
        while unique in self._values:
            self._numbers[base] += 1
            unique = f"{base}.{self._numbers[base]}"
        return unique


class _Tracing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operators that torch dispatches on meta tensors."""

    def __init__(self, recorder: Recorder, known: dict[int, Value]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder, self._known = recorder, known
        self._alive: list[Tensor] = []

    def value(self, tensor: Tensor) -> Value:
        """The value of a tensor that was given or dispatched; a constant if it was neither."""
        return self._known.get(id(tensor)) or Value(tensor)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        keywords = {
            key: value
            for key, value in (kwargs or {}).items()
            if key not in ("device", "layout", "pin_memory", "memory_format")
        }
        result = function(*args, **(kwargs or {}))
        tensors = _as_tensors(result)
        as_values = lambda item: self.value(item) if isinstance(item, Tensor) else item  # noqa: E731
        arguments = _mapped(args, as_values, Tensor)
        named = _mapped(keywords, as_values, Tensor)
        if all(value.constant for value in _values_in((arguments, *named.values()))) and all(
            tensor.device.type != "meta" for tensor in tensors
        ):
            return result
        target, positional = canonical(str(function), arguments, tensors[0].dim())
        for tensor, value in zip(
            tensors, self._recorder._record(target, positional, named, tensors), strict=True
        ):
            self._known[id(tensor)] = value
            self._alive.append(tensor)
        return result


def _values_in(item: Any) -> Iterator[Value]:
    if isinstance(item, Value):
        yield item
    elif isinstance(item, (list, tuple)):
        for part in item:
            yield from _values_in(part)


def _mapped(item: Any, function: Callable[[Any], Any], leaf: type = Value) -> Any:
    if isinstance(item, leaf):
        return function(item)
    if isinstance(item, dict):
        return {key: _mapped(part, function, leaf) for key, part in item.items()}
    if isinstance(item, (list, tuple)):
        return [_mapped(part, function, leaf) for part in item]
    return item


def _real(value: Value) -> Tensor:
    return value.tensor


def _meta(value: Value) -> Tensor:
    return torch.empty_like(value.tensor, device="meta") if value.constant else value.tensor


def _as_tensors(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def _spec(tensor: Tensor) -> TensorSpec:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in ITEM_SIZES:
        raise ImportFailure("unsupported_operator", f"it computes with {dtype}")
    return TensorSpec(tuple(tensor.shape), dtype)


def _clean(name: str) -> str:
    """A name of the letters that a Graph's names are made of."""
    return _UNFIT.sub("_", name.strip("/").replace("/", "."))[:_LONGEST_NAME] or "unnamed"


def _renamed(operator: Operator, names: Mapping[str, str]) -> Operator:
    def argument(item: Argument) -> Argument:
        if isinstance(item, ValueRef):
            return ValueRef(names.get(item.name, item.name))
        if isinstance(item, tuple):
            return tuple(argument(part) for part in item)
        return item

    return Operator(
        name=operator.name,
        target=operator.target,
        arguments=tuple(argument(item) for item in operator.arguments),
        keywords=tuple((key, argument(item)) for key, item in operator.keywords),
        outputs=tuple(names.get(name, name) for name in operator.outputs),
    )
