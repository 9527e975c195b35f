"""What an exported program is called with, at the sizes that a job asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument

from workers.graph.graph import ITEM_SIZES, TensorSpec
from workers.graph.importers.declared import DeclaredInput
from workers.graph.importers.input_sizes import ExportedShapes, FixedBatch, Shape, input_sizes
from workers.graph.importers.opened import Sizes
from workers.graph.importers.source import ImportFailure


@dataclass(frozen=True, slots=True)
class ProgramInputs:
    """``tensors`` maps each tensor input to its shape, in the order of the call; ``constants``
    are the inputs that exporting made part of the program (None, numbers, strings). With ``fixed``
    the program takes only that batch size, and the shapes are those of another."""

    tensors: Mapping[str, TensorSpec]
    constants: Mapping[str, Any]
    order: tuple[str, ...]
    fixed: FixedBatch | None = None

    def call(
        self, program: ExportedProgram, tensors: Mapping[str, Tensor]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments in the nesting that the program was exported with."""
        given = {**self.constants, **tensors}
        arguments, keywords = torch.utils._pytree.tree_unflatten(
            [given[name] for name in self.order], program.call_spec.in_spec
        )
        return tuple(arguments), dict(keywords)


def program_inputs(
    program: ExportedProgram, sizes: Sizes, declared: Mapping[str, DeclaredInput] | None = None
) -> ProgramInputs:
    """The program's inputs at ``sizes``, by the rule of ``input_sizes``; ``declared`` is what the
    file says of them itself. Raises ImportFailure naming the input that does not fit."""
    examples, constants, order = _examples(program)
    dtypes = {name: dtype_name(e.dtype, f"input {name!r}") for name, e in examples.items()}
    _check_dtypes(dtypes, declared or {})
    found = input_sizes(_exported_shapes(program, examples), sizes, declared or {})
    tensors = {name: TensorSpec(shape, dtypes[name]) for name, shape in found.shapes.items()}
    return ProgramInputs(tensors, constants, order, found.fixed)


def exported_inputs(program: ExportedProgram) -> ProgramInputs:
    """The program's inputs at the very sizes that it was exported with. Raises ImportFailure."""
    examples, constants, order = _examples(program)
    tensors = {
        name: TensorSpec(tuple(map(_hint, e.shape)), dtype_name(e.dtype, f"input {name!r}"))
        for name, e in examples.items()
    }
    return ProgramInputs(tensors, constants, order)


def dtype_name(dtype: torch.dtype, what: str) -> str:
    """The dtype as a Graph names it. Raises ImportFailure naming ``what`` if it has no name."""
    name = str(dtype).removeprefix("torch.")
    if name not in ITEM_SIZES:
        raise ImportFailure(
            "unsupported_input", f"{what} is of type {name}; known are {', '.join(ITEM_SIZES)}"
        )
    return name


def _user_inputs(program: ExportedProgram) -> Iterator[tuple[str, Any, Any]]:
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            node: fx.Node = nodes[spec.arg.name]
            yield spec.arg.name, spec.arg, node.meta.get("val")


def _examples(
    program: ExportedProgram,
) -> tuple[dict[str, Tensor], dict[str, Any], tuple[str, ...]]:
    """The fake tensors that stand for the tensor inputs, the other inputs, and all names."""
    examples: dict[str, Tensor] = {}
    constants: dict[str, Any] = {}
    order: list[str] = []
    for name, given, example in _user_inputs(program):
        order.append(name)
        if isinstance(given, ConstantArgument):
            constants[name] = given.value
        elif isinstance(given, TensorArgument) and isinstance(example, Tensor):
            examples[name] = example
        else:
            raise ImportFailure(
                "unsupported_input",
                f"input {name!r} is no tensor but a number that may vary; export the model with "
                "that number fixed",
            )
    return examples, constants, tuple(order)


def _exported_shapes(program: ExportedProgram, examples: Mapping[str, Tensor]) -> ExportedShapes:
    shapes: dict[str, Shape] = {}
    hints: dict[tuple[str, int], int] = {}
    for name, example in examples.items():
        shapes[name] = tuple(
            size if isinstance(size, int) else size.node.expr for size in example.shape
        )
        for axis, size in enumerate(example.shape):
            hints[name, axis] = _hint(size)
    return ExportedShapes(shapes, hints, program.range_constraints)


def _hint(size: Any) -> int:
    return size if isinstance(size, int) else int(size.node.hint)


def _check_dtypes(dtypes: Mapping[str, str], declared: Mapping[str, DeclaredInput]) -> None:
    for name, dtype in dtypes.items():
        if name in declared and declared[name].dtype != dtype:
            raise ImportFailure(
                "malformed",
                f"the file declares input {name!r} as {declared[name].dtype}, but the model takes "
                f"{dtype}",
            )
