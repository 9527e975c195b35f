"""The inputs of a TorchScript module: what shapes it is to be called with.

``torch.jit.trace`` keeps the shapes of its example inputs, and ``torch.jit.save`` writes them down;
a module that was scripted or frozen has none. Such a file declares them (``declared``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from workers.graph.graph import TensorSpec
from workers.graph.importers.declared import (
    BATCH,
    ENTRY,
    EXAMPLE,
    SEQUENCE,
    DeclaredInput,
    declared_inputs,
)
from workers.graph.importers.input_sizes import ExportedShapes, FixedBatch, input_sizes
from workers.graph.importers.opened import Sizes
from workers.graph.importers.program_inputs import dtype_name
from workers.graph.importers.source import ImportFailure

_DECLARE = f"torch.jit.save(module, path, _extra_files={{'{ENTRY}': '{EXAMPLE}'}})"

_load: Callable[..., Any] = torch.jit.load  # which has no annotations


@dataclass(frozen=True, slots=True)
class ScriptInputs:
    """The inputs in the order of the call. With ``fixed``, the module was traced with only that
    batch size, and the shapes are those of another."""

    tensors: Mapping[str, TensorSpec]
    fixed: FixedBatch | None = None


def load_script(path: Path) -> tuple[torch.jit.ScriptModule, dict[str, DeclaredInput]]:
    """The module, and what its file declares. Executes code from it: only in the sandbox."""
    extra = {ENTRY: ""}
    try:
        module = _load(path, map_location="cpu", _extra_files=extra)
    except Exception as error:
        raise ImportFailure(
            "malformed",
            f"torch.jit.load refuses the file: {str(error).strip().partition(chr(10))[0]}; write "
            f"it with torch.jit.save of torch {torch.__version__.partition('+')[0]} or older",
        ) from error
    return module, declared_inputs(extra[ENTRY])


def script_inputs(
    path: Path,
    module: torch.jit.ScriptModule,
    declared: Mapping[str, DeclaredInput],
    sizes: Sizes,
) -> ScriptInputs:
    """The inputs at ``sizes``: as declared, or as traced and then at the batch size of the job.

    Raises ImportFailure if they are not known, or not tensors.
    """
    names = _input_names(module)
    if declared:
        return ScriptInputs(_declared(names, declared, sizes))
    traced = _traced(path, names)
    shapes = {name: spec.shape for name, spec in traced.items()}
    found = input_sizes(ExportedShapes(shapes, {}, {}), sizes, {})
    tensors = {name: TensorSpec(found.shapes[name], spec.dtype) for name, spec in traced.items()}
    return ScriptInputs(tensors, found.fixed)


def _input_names(module: torch.jit.ScriptModule) -> list[str]:
    if not hasattr(module, "forward"):
        raise ImportFailure("malformed", "the TorchScript module has no method forward")
    names = []
    forward: Any = module.forward
    for argument in forward.schema.arguments[1:]:
        if str(argument.type) != "Tensor":
            raise ImportFailure(
                "unsupported_input",
                f"input {argument.name!r} of the module is of the type {argument.type}; trace a "
                "module that takes tensors only, each as an argument of its own",
            )
        names.append(argument.name)
    return names


def _declared(
    names: list[str], declared: Mapping[str, DeclaredInput], sizes: Sizes
) -> dict[str, TensorSpec]:
    if sorted(names) != sorted(declared):
        raise ImportFailure(
            "malformed",
            f"the file declares the inputs {', '.join(declared)}, but the module takes "
            f"{', '.join(names) or 'none'}; declare each of them once",
        )
    words = {word for given in declared.values() for word in given.shape}
    if BATCH not in words and sizes.batch_size != 1:
        raise ImportFailure(
            "unsupported_batch",
            f"the file declares no dimension as the batch, but the job asks for {sizes.batch_size}",
        )
    if (SEQUENCE in words) != (sizes.sequence_length is not None):
        asked = sizes.sequence_length
        raise ImportFailure(
            "unsupported_input",
            f"the job asks for the sequence length {asked}, but the file declares none"
            if asked is not None
            else "the file declares a sequence dimension; ask for a sequence length",
        )

    def size(given: int | str) -> int:
        if isinstance(given, int):
            return given
        return sizes.batch_size if given == BATCH else sizes.sequence_length or 1

    return {
        name: TensorSpec(tuple(map(size, declared[name].shape)), declared[name].dtype)
        for name in names
    }


def _traced(path: Path, names: list[str]) -> dict[str, TensorSpec]:
    """The shapes of the example inputs, which torch restores as the types of the graph's inputs."""
    try:
        graph = _load(path, map_location="cpu", _restore_shapes=True).graph
    except Exception as error:
        raise ImportFailure(
            "unsupported_input",
            f"torch cannot restore the traced shapes ({str(error).partition(chr(10))[0]}); declare "
            f"them: {_DECLARE}",
        ) from error
    specs = {}
    for name, value in zip(names, list(graph.inputs())[1:], strict=True):
        shape, dtype = value.type().sizes(), value.type().dtype()
        if shape is None or dtype is None:
            raise ImportFailure(
                "unsupported_input",
                f"the file does not say what shape input {name!r} has, as one that torch.jit.trace "
                f"made and that was not frozen does; declare the inputs: {_DECLARE}",
            )
        specs[name] = TensorSpec(tuple(shape), dtype_name(dtype, f"input {name!r}"))
    return specs
