"""Which of a program's dimensions is the batch and which a sequence, and what size each gets.

The rule, for a program that does not declare it (``declared``):

- The first dimension of an input is the batch if it is open, unless a later dimension of some input
  has the same symbol. The first open one among the inputs is the batch in any case.
- Every other open dimension is a sequence's. Without a sequence length it keeps the size that the
  program was exported with.
- If no first dimension is open, that of the first input is the batch, at one fixed size. Inputs
  whose first dimension has the same size belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]

from workers.graph.importers.declared import BATCH, SEQUENCE, DeclaredInput
from workers.graph.importers.open_sizes import OpenSizes, Wanted
from workers.graph.importers.opened import Sizes
from workers.graph.importers.source import ImportFailure

Shape = tuple[int | sympy.Expr, ...]
_Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class FixedBatch:
    """The one batch size that a program takes, and where: the dimension of each batched input."""

    size: int
    axes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class InputSizes:
    """The shapes for a job. With ``fixed``, the program itself takes only that batch size, so that
    it has to be specialised again."""

    shapes: Mapping[str, tuple[int, ...]]
    fixed: FixedBatch | None


@dataclass(frozen=True, slots=True)
class ExportedShapes:
    """The inputs' shapes as exported, the sizes that an open dimension was exported with, and the
    constraints on the symbols."""

    shapes: Mapping[str, Shape]
    hints: Mapping[_Place, int]
    ranges: Mapping[Any, Any]


def input_sizes(
    exported: ExportedShapes, sizes: Sizes, declared: Mapping[str, DeclaredInput]
) -> InputSizes:
    """The size of every dimension of every input. Raises ImportFailure naming what cannot be."""
    roles = _declared_roles(exported, declared) if declared else _default_roles(exported)
    _refuse_useless_length(exported, roles, sizes)
    solved = OpenSizes(exported.ranges)
    for place, wanted in _wishes(exported, roles, sizes):
        if declared or solved.unknown(_dimension(exported, place)):
            solved.settle(_dimension(exported, place), wanted)
    fixed = _fixed_batch(exported, roles, sizes)
    shapes = {
        name: tuple(
            sizes.batch_size
            if fixed and fixed.axes.get(name) == axis
            else _positive(solved.size(sympy.sympify(size)), name, axis)
            for axis, size in enumerate(shape)
        )
        for name, shape in exported.shapes.items()
    }
    return InputSizes(shapes, fixed)


def _default_roles(exported: ExportedShapes) -> dict[_Place, str | int]:
    later: set[sympy.Symbol] = set()
    for (_, axis), size in _open(exported):
        if axis:
            later |= size.free_symbols
    first_open = [(place, size) for place, size in _open(exported) if place[1] == 0]
    batch = [
        place
        for number, (place, size) in enumerate(first_open)
        if number == 0 or not size.free_symbols <= later
    ]
    roles: dict[_Place, str | int] = {
        place: BATCH if place in batch else SEQUENCE for place, _ in _open(exported)
    }
    if not batch:
        sized = {name: shape[0] for name, shape in exported.shapes.items() if shape}
        for name, size in sized.items():
            if size == next(iter(sized.values())):
                roles[name, 0] = BATCH
    return roles


def _declared_roles(
    exported: ExportedShapes, declared: Mapping[str, DeclaredInput]
) -> dict[_Place, str | int]:
    if declared.keys() != exported.shapes.keys():
        raise ImportFailure(
            "malformed",
            f"the file declares the inputs {', '.join(declared)}, but the model has "
            f"{', '.join(exported.shapes) or 'none'}; declare each of them once",
        )
    roles: dict[_Place, str | int] = {}
    for name, shape in exported.shapes.items():
        given = declared[name].shape
        fits = len(given) == len(shape) and all(
            size == own for size, own in zip(given, shape, strict=True) if _both_fixed(size, own)
        )
        if not fits:
            raise ImportFailure(
                "malformed",
                f"the file declares input {name!r} with the shape {list(given)}, but the model was "
                f"exported with {[str(size) for size in shape]}",
            )
        roles.update({(name, axis): size for axis, size in enumerate(given)})
    return roles


def _both_fixed(given: int | str, own: int | sympy.Expr) -> bool:
    return isinstance(given, int) and isinstance(own, int)


def _wishes(
    exported: ExportedShapes, roles: Mapping[_Place, str | int], sizes: Sizes
) -> Iterator[tuple[_Place, Wanted]]:
    """What each open dimension should be: batches first, plain symbols before expressions."""

    def rank(item: tuple[_Place, sympy.Expr]) -> tuple[bool, bool]:
        place, size = item
        return roles[place] != BATCH, not size.is_Symbol

    for place, _ in sorted(_open(exported), key=rank):
        role = roles[place]
        where = f"dimension {place[1]} of input {place[0]!r}"
        if role == BATCH:
            yield place, Wanted(sizes.batch_size, "batch size", where, "unsupported_batch")
        elif role == SEQUENCE and sizes.sequence_length is not None:
            length = sizes.sequence_length
            yield place, Wanted(length, "sequence length", where, "unsupported_input")
        else:
            size = role if isinstance(role, int) else exported.hints[place]
            yield place, Wanted(size, "size", where, "unsupported_input")


def _fixed_batch(
    exported: ExportedShapes, roles: Mapping[_Place, str | int], sizes: Sizes
) -> FixedBatch | None:
    batch = [place for place, role in roles.items() if role == BATCH]
    fixed = {
        place: _dimension(exported, place) for place in batch if place not in _places(exported)
    }
    if not batch and sizes.batch_size != 1 and any(exported.shapes.values()):
        raise ImportFailure(
            "unsupported_batch",
            f"no input of the model has a batch dimension, but the job asks for {sizes.batch_size}",
        )
    found = {int(size) for size in fixed.values()}
    if found <= {sizes.batch_size}:
        return None
    if len(found) > 1 or len(fixed) < len(batch):
        raise ImportFailure(
            "unsupported_batch",
            f"some inputs are fixed to the batch size {', '.join(map(str, sorted(found)))}, but "
            f"the job asks for {sizes.batch_size}; export the model with one open batch dimension",
        )
    return FixedBatch(found.pop(), dict(fixed.keys()))


def _refuse_useless_length(
    exported: ExportedShapes, roles: Mapping[_Place, str | int], sizes: Sizes
) -> None:
    if sizes.sequence_length is None:
        return
    places = [place for place, role in roles.items() if role == SEQUENCE]
    fixed = {int(_dimension(exported, place)) for place in places if place not in _places(exported)}
    if not places or fixed - {sizes.sequence_length}:
        shapes = {name: [str(size) for size in shape] for name, shape in exported.shapes.items()}
        raise ImportFailure(
            "unsupported_input",
            f"the job asks for the sequence length {sizes.sequence_length}, but the model leaves "
            f"no such dimension open ({shapes}); ask for none, or export the model with one",
        )


def _positive(size: int, name: str, axis: int) -> int:
    if size < 1:
        raise ImportFailure(
            "unsupported_input",
            f"with these sizes, dimension {axis} of input {name!r} would be {size}",
        )
    return size


def _open(exported: ExportedShapes) -> Iterator[tuple[_Place, sympy.Expr]]:
    for name, shape in exported.shapes.items():
        for axis, size in enumerate(shape):
            if isinstance(size, sympy.Expr) and size.free_symbols:
                yield (name, axis), size


def _places(exported: ExportedShapes) -> set[_Place]:
    return {place for place, _ in _open(exported)}


def _dimension(exported: ExportedShapes, place: _Place) -> sympy.Expr:
    return sympy.sympify(exported.shapes[place[0]][place[1]])
