"""One operator as the functions see it that describe it: its arguments by name, and the writer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from workers.graph.bindings import overload
from workers.graph.exporters.onnx.patterns import Patterns
from workers.graph.exporters.onnx.writer import ExportError, ModelWriter, element_type
from workers.graph.graph import Argument, DtypeRef, Operator, TensorSpec, ValueRef

# Arguments that change nothing about what an operator computes when it does not train.
_WITHOUT_EFFECT = {
    "memory_format", "layout", "device", "pin_memory", "non_blocking", "copy", "implicit",
    "cudnn_enable", "momentum", "scale_grad_by_freq", "sparse", "padding_idx",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph by its name in the model."""

    name: str
    spec: TensorSpec

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def rank(self) -> int:
        return len(self.spec.shape)

    @property
    def dtype(self) -> str:
        return self.spec.dtype


class Call:
    """An operator's arguments, by the names and with the defaults of its schema.

    ``results`` are the specifications of what it computes. The methods that read an argument raise
    ExportError if it is of another sort.
    """

    def __init__(
        self,
        operator: Operator,
        results: Sequence[TensorSpec],
        values: Mapping[str, Value],
        writer: ModelWriter,
        patterns: Patterns,
    ) -> None:
        self._operator, self._values, self._writer = operator, values, writer
        self._patterns = patterns
        self.results = results
        self._arguments: dict[str, Any] = {}
        self._defaults: dict[str, Any] = {}
        self._read: set[str] = set()
        parameters = overload(operator.target)._schema.arguments
        for parameter in parameters:
            self._defaults[parameter.name] = _plain(parameter.default_value)
        for parameter, argument in zip(parameters, operator.arguments, strict=False):
            self._arguments[parameter.name] = argument
        self._arguments.update(operator.keywords)

    @property
    def target(self) -> str:
        return self._operator.target

    @property
    def result(self) -> TensorSpec:
        """The specification of the only, or first, result."""
        return self.results[0]

    def error(self, reason: str) -> ExportError:
        return ExportError(
            f"operator {self._operator.name!r} ({self._operator.target}) cannot be exported to"
            f" ONNX: {reason}"
        )

    def check_all_read(self) -> None:
        """Raises ExportError if an argument was given that the description did not look at."""
        for name, argument in self._arguments.items():
            ignored = name in _WITHOUT_EFFECT or argument == self._defaults.get(name)
            if name not in self._read and not ignored:
                raise self.error(f"its argument {name} = {argument!r} has no counterpart")

    # Arguments

    def argument(self, name: str) -> Argument:
        self._read.add(name)
        given: Argument = self._arguments.get(name, self._defaults.get(name))
        return given

    def value(self, name: str) -> Value:
        return self._value(name, self.argument(name))

    def indices(self, name: str, size: int) -> Value:
        """Indices into a dimension of that size, which may count from the end."""
        given = self.value(name)
        argument = self.argument(name)
        if isinstance(argument, ValueRef) and argument.name in self._patterns.shifted:
            before, by = self._patterns.shifted[argument.name]
            if by == size:
                return self._values[before]
        return given

    def root(self, name: str) -> Value | None:
        """What the tensor is the square of, if nothing else reads the square."""
        argument = self.argument(name)
        if isinstance(argument, ValueRef) and argument.name in self._patterns.squares:
            return self._values[self._patterns.squares[argument.name]]
        return None

    def optional(self, name: str) -> Value | None:
        given = self.argument(name)
        return None if given is None else self._value(name, given)

    def values(self, name: str) -> list[Value]:
        given = self.argument(name)
        if not isinstance(given, tuple):
            raise self.error(f"its argument {name} is no list of tensors")
        return [self._value(name, item) for item in given]

    def number(self, name: str) -> float:
        given = self.argument(name)
        if not isinstance(given, int | float):
            raise self.error(f"its argument {name} = {given!r} is no number")
        return given

    def whole(self, name: str) -> int:
        given = self.argument(name)
        if not isinstance(given, int):
            raise self.error(f"its argument {name} = {given!r} is no whole number")
        return given

    def flag(self, name: str) -> bool:
        return bool(self.whole(name))

    def sizes(self, name: str, rank: int) -> tuple[int, ...]:
        """One whole number for each of ``rank`` dimensions; one given stands for all."""
        given = self.argument(name)
        items = given if isinstance(given, tuple) else (given,)
        whole = tuple(item for item in items if isinstance(item, int))
        if len(whole) < len(items) or len(whole) not in (1, rank):
            raise self.error(f"its argument {name} = {given!r} is not {rank} whole numbers")
        return whole * rank if len(whole) == 1 else whole

    def axis(self, name: str, rank: int) -> int:
        """A dimension, counted from the front."""
        return self.whole(name) % max(rank, 1)

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Dimensions, counted from the front; all if none are named."""
        given = self.argument(name)
        items = given if isinstance(given, tuple) else () if given is None else (given,)
        axes = tuple(item % max(rank, 1) for item in items if isinstance(item, int))
        return axes or tuple(range(rank))

    def dtype(self, name: str = "dtype") -> str | None:
        given = self.argument(name)
        return given.name if isinstance(given, DtypeRef) else None

    def _value(self, name: str, given: Argument) -> Value:
        if not isinstance(given, ValueRef):
            raise self.error(f"its argument {name} = {given!r} is no tensor")
        if given.name not in self._values:
            raise self.error(f"it reads {given.name!r}, which has no counterpart")
        return self._values[given.name]

    # Operands: tensors and numbers alike, in one element type

    def operand(self, name: str, dtype: str) -> str:
        """A tensor or a number, as a tensor of that element type."""
        given = self.argument(name)
        if isinstance(given, int | float):
            return self.scalar(given, dtype)
        return self.cast(self._value(name, given), dtype)

    def scalar(self, number: float, dtype: str) -> str:
        return self._writer.constant([_as_element(number, dtype)], (), dtype)

    def filled(self, number: float, count: int, dtype: str) -> str:
        """A vector of one number."""
        return self._writer.constant([_as_element(number, dtype)] * count, (count,), dtype)

    def whole_numbers(self, numbers: Sequence[int]) -> str:
        """A shape, axes, or the like."""
        return self._writer.constant(numbers, (len(numbers),), "int64")

    def index(self, number: int) -> str:
        return self._writer.constant([number], (), "int64")

    def cast(self, value: Value, dtype: str) -> str:
        if value.dtype == dtype:
            return value.name
        return self.node("Cast", value.name, to=element_type(dtype))

    def common_dtype(self, *names: str) -> str:
        """The element type in which torch combines these arguments."""
        examples: list[Any] = []
        for name in names:
            given = self.argument(name)
            if isinstance(given, ValueRef):
                spec = self._value(name, given).spec
                given_dtype = getattr(torch, spec.dtype)
                examples.append(torch.empty(spec.shape, dtype=given_dtype, device="meta"))
            else:
                examples.append(given)
        return str(torch.result_type(*examples)).removeprefix("torch.")

    # Nodes

    def node(self, op_type: str, *inputs: Value | str | None, **attributes: Any) -> str:
        """The result of a node; inputs that are None are left out."""
        return self.split(1, op_type, *inputs, **attributes)[0]

    def split(
        self, count: int, op_type: str, *inputs: Value | str | None, **attributes: Any
    ) -> list[str]:
        """The results of a node of several."""
        names = [given.name if isinstance(given, Value) else given or "" for given in inputs]
        while names and not names[-1]:
            names.pop()
        return self._writer.nodes(op_type, names, count, **attributes)

    def reshaped(self, x: Value | str, shape: Sequence[int]) -> str:
        # A nought in a shape means to ONNX the size that was, unless it is told otherwise.
        literal = {"allowzero": 1} if math.prod(shape) == 0 else {}
        return self.node("Reshape", x, self.whole_numbers(shape), **literal)


Description = Callable[[Call], str | list[str]]
"""Writes an operator's nodes and returns the names of its results."""


def _plain(default: Any) -> Any:
    return tuple(default) if isinstance(default, list) else default


def _as_element(number: float, dtype: str) -> float:
    if dtype == "bool":
        return bool(number)
    return float(number) if dtype.startswith(("float", "bfloat")) else int(number)
