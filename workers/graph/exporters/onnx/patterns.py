"""What several operators compute together, where ONNX has one for it: each node costs about half a
microsecond, which small models notice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from workers.graph.graph import Argument, Operator, Unit, ValueRef


@dataclass(frozen=True, slots=True)
class Patterns:
    """``shifted``: values that are ``where(x < 0, x + size, x)``, with the name of x and the size,
    as importing an ONNX model writes the indices of its Gather. ``squares``: values that are the
    square of another, whose name it is, and are read once."""

    shifted: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    squares: Mapping[str, str] = field(default_factory=dict)


def patterns(unit: Unit) -> Patterns:
    """Those in a Unit."""
    known = {name: operator for operator in unit.operators for name in operator.outputs}
    readers = Counter(unit.outputs)
    for operator in unit.operators:
        readers.update(ref.name for ref in _references(operator.arguments))
        readers.update(ref.name for _, value in operator.keywords for ref in _references((value,)))
    shifted, squares = {}, {}
    for name, operator in known.items():
        if found := _shifted(operator, known):
            shifted[name] = found
        if (square := _squared(operator)) is not None and readers[name] == 1:
            squares[name] = square
    return Patterns(shifted, squares)


def _shifted(operator: Operator, known: Mapping[str, Operator]) -> tuple[str, int] | None:
    if operator.target != "aten.where.self" or len(operator.arguments) != 3:
        return None
    below, moved, indices = operator.arguments
    if not isinstance(indices, ValueRef):
        return None
    compared, added = (
        known.get(ref.name) if isinstance(ref, ValueRef) else None for ref in (below, moved)
    )
    if compared is None or (compared.target, compared.arguments) != (
        "aten.lt.Scalar",
        (indices, 0),
    ):
        return None
    if added is None or added.target != "aten.add.Tensor" or added.keywords:
        return None
    before, size = added.arguments
    return (indices.name, size) if before == indices and isinstance(size, int) else None


def _squared(operator: Operator) -> str | None:
    first, *rest = operator.arguments or (None,)
    if not isinstance(first, ValueRef):
        return None
    known = {
        "aten.square.default": [],
        "aten.pow.Tensor_Scalar": [2],
        "aten.mul.Tensor": [first],
    }
    return first.name if rest == known.get(operator.target) else None


def _references(arguments: Iterable[Argument]) -> Iterator[ValueRef]:
    for argument in arguments:
        if isinstance(argument, ValueRef):
            yield argument
        elif isinstance(argument, tuple):
            yield from _references(argument)
