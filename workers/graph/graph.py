"""The computation graph: ATen operators as data, grouped into the Units that schedulers place.

Nothing here needs torch. A Graph says what is computed; ``workers.graph.interpreter`` says how.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

ITEM_SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
}  # fmt: skip


class GraphError(ValueError):
    """A graph that cannot be what it claims to be; the message names the operator or the value."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and element type of a tensor; ``dtype`` is torch's name without the ``torch.``."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * ITEM_SIZES[self.dtype]


@dataclass(frozen=True, slots=True)
class ValueRef:
    """An argument that is a tensor: an input, a weight, or an operator's output, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class DtypeRef:
    """An argument that is an element type, for example of ``aten._to_copy``."""

    name: str


Argument = None | bool | int | float | str | ValueRef | DtypeRef | tuple["Argument", ...]


def references(argument: Argument) -> Iterator[str]:
    """The names of the values that an argument refers to, in order, repeats included."""
    if isinstance(argument, ValueRef):
        yield argument.name
    elif isinstance(argument, tuple):
        for item in argument:
            yield from references(item)


@dataclass(frozen=True)
class Operator:
    """One call of an ATen operator.

    ``target`` is the overload's qualified name (``aten.conv2d.default``); ``outputs`` names the
    tensors it produces, one for a single result, several for an operator that returns a list.
    """

    name: str
    target: str
    arguments: tuple[Argument, ...]
    keywords: tuple[tuple[str, Argument], ...]
    outputs: tuple[str, ...]

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the values it reads, in order of first use."""
        values = (*self.arguments, *(argument for _, argument in self.keywords))
        return tuple(dict.fromkeys(name for value in values for name in references(value)))


@dataclass(frozen=True)
class Unit:
    """What a scheduler places: operators that run back to back on one stream.

    ``kind`` is the class of its leading operator (``conv``, ``linear``, ``pool``, ``concat``,
    ``elementwise`` …). ``flops`` counts multiply and add separately; ``bytes_moved`` counts every
    input, weight and output once, which is the traffic of a perfectly fused kernel.
    """

    name: str
    kind: str
    operators: tuple[Operator, ...]
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    outputs: tuple[str, ...]
    flops: int
    bytes_moved: int


@dataclass(frozen=True)
class Graph:
    """A DAG of Units in a topological order, with the specification of every value they exchange.

    ``values`` maps the name of every input, weight and operator output to its TensorSpec.
    Raises GraphError on construction if a value is undefined, defined twice or read too early.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...]
    values: Mapping[str, TensorSpec]
    units: tuple[Unit, ...]

    def __post_init__(self) -> None:
        defined = {*self.inputs, *self.weights}
        names: set[str] = set()
        for unit in self.units:
            if unit.name in names:
                raise GraphError(f"two units are named {unit.name!r}")
            names.add(unit.name)
            for operator in unit.operators:
                for name in operator.inputs:
                    if name not in defined:
                        raise GraphError(
                            f"operator {operator.name!r} reads {name!r} before it is computed"
                        )
                for name in operator.outputs:
                    if name in defined:
                        raise GraphError(f"value {name!r} is computed twice")
                    defined.add(name)
        for name in defined | set(self.outputs):
            if name not in self.values:
                raise GraphError(f"value {name!r} has no shape")
        for name in self.outputs:
            if name not in defined:
                raise GraphError(f"output {name!r} is never computed")

    @property
    def operators(self) -> tuple[Operator, ...]:
        return tuple(operator for unit in self.units for operator in unit.operators)

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Position of each Unit by name."""
        return {unit.name: position for position, unit in enumerate(self.units)}

    def unit(self, name: str) -> Unit:
        """The Unit of that name; raises GraphError if there is none."""
        if name not in self.index:
            raise GraphError(f"graph {self.name!r} has no unit {name!r}")
        return self.units[self.index[name]]

    @cached_property
    def producers(self) -> Mapping[str, int]:
        """Position of the Unit that computes each value; inputs and weights have no producer."""
        return {name: i for i, unit in enumerate(self.units) for name in unit.outputs}

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each Unit, the positions of the Units whose outputs it reads, ascending."""
        return tuple(
            tuple(sorted({self.producers[n] for n in unit.inputs if n in self.producers}))
            for unit in self.units
        )

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For each Unit, the positions of the Units that read its outputs, ascending."""
        successors: list[list[int]] = [[] for _ in self.units]
        for position, before in enumerate(self.predecessors):
            for predecessor in before:
                successors[predecessor].append(position)
        return tuple(tuple(after) for after in successors)

    @property
    def flops(self) -> int:
        return sum(unit.flops for unit in self.units)

    def specs(self, names: Iterable[str]) -> tuple[TensorSpec, ...]:
        return tuple(self.values[name] for name in names)
