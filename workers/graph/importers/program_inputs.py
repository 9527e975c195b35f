"""What an exported program is called with, at the batch size that a job asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument

from workers.graph.graph import ITEM_SIZES, TensorSpec
from workers.graph.importers.source import ImportFailure

_EXPORT_BATCH = "torch.export.export(…, dynamic_shapes={name: {0: torch.export.Dim('batch')}})"


@dataclass(frozen=True, slots=True)
class ProgramInputs:
    """``tensors`` maps each tensor input to its shape, in the order of the call; ``constants``
    are the inputs that exporting made part of the program (None, numbers, strings)."""

    tensors: Mapping[str, TensorSpec]
    constants: Mapping[str, Any]
    order: tuple[str, ...]

    def call(
        self, program: ExportedProgram, tensors: Mapping[str, Tensor]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments in the nesting that the program was exported with."""
        given = {**self.constants, **tensors}
        arguments, keywords = torch.utils._pytree.tree_unflatten(
            [given[name] for name in self.order], program.call_spec.in_spec
        )
        return tuple(arguments), dict(keywords)


def program_inputs(program: ExportedProgram, batch_size: int) -> ProgramInputs:
    """The program's inputs at ``batch_size``.

    A dynamic first dimension is the batch; any other dynamic one takes the size it was exported
    with. If no first dimension is dynamic, that of the first tensor is the batch and must be
    ``batch_size``. Raises ImportFailure naming the input that does not fit.
    """
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
    _check_batch(program, examples, batch_size)
    return ProgramInputs(
        {name: _spec(name, example, batch_size) for name, example in examples.items()},
        constants,
        tuple(order),
    )


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


def _check_batch(program: ExportedProgram, examples: Mapping[str, Tensor], batch_size: int) -> None:
    batched = {name: example for name, example in examples.items() if example.dim()}
    dynamic = [name for name, e in batched.items() if isinstance(e.shape[0], torch.SymInt)]
    for name in dynamic:
        _check_range(program, name, batched[name].shape[0], batch_size)
    if dynamic or not batched:
        return
    name, example = next(iter(batched.items()))
    if example.shape[0] != batch_size:
        raise ImportFailure(
            "unsupported_batch",
            f"the model was exported for batch size {example.shape[0]} only (input {name!r} has "
            f"the shape {list(example.shape)}), but the job asks for {batch_size}; ask for "
            f"{example.shape[0]}, or export it with {_EXPORT_BATCH}",
        )


def _check_range(program: ExportedProgram, name: str, size: Any, batch_size: int) -> None:
    allowed = program.range_constraints.get(size.node.expr)
    if allowed is None:
        return
    # Exporting takes sizes 0 and 1 apart, so that 2 is the least lower bound that it writes.
    too_few = allowed.lower > 2 and batch_size < allowed.lower
    if too_few or batch_size > allowed.upper:
        raise ImportFailure(
            "unsupported_batch",
            f"the model was exported for batch sizes from {allowed.lower} to {allowed.upper} "
            f"(input {name!r}), but the job asks for {batch_size}; widen the range of its Dim",
        )


def _spec(name: str, example: Tensor, batch_size: int) -> TensorSpec:
    shape = tuple(
        size if isinstance(size, int) else batch_size if axis == 0 else int(size.node.hint)
        for axis, size in enumerate(example.shape)
    )
    return TensorSpec(shape, dtype_name(example.dtype, f"input {name!r}"))
