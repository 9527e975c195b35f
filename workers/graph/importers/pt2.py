"""``torch.export`` programs to Graphs.

Loading a ``.pt2`` file executes code from it, so everything here that takes a path runs only in
the sandboxed child process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from workers.graph.graph import Graph
from workers.graph.importers.archive import ArchiveError, ArchiveTooLargeError, check_archive
from workers.graph.importers.canonical import REWRITTEN
from workers.graph.importers.opened import Sizes
from workers.graph.importers.program_graph import program_graph
from workers.graph.importers.program_inputs import program_inputs
from workers.graph.importers.source import ImportFailure
from workers.graph.operators import KINDS
from workers.graph.random_inputs import random_tensors


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """An exported program at given sizes: an ``OpenedModel``."""

    program: ExportedProgram
    sizes: Sizes

    def graph(self) -> tuple[Graph, dict[str, Tensor]]:
        return import_program(self.program, self.sizes.batch_size)

    def run(self, seeds: Sequence[int]) -> list[dict[str, Tensor]]:
        return run_original(self.program, self.sizes.batch_size, seeds)


def open_model(path: Path, sizes: Sizes, memory_bytes: int) -> ExportedModel:
    """Open a ``.pt2`` file. Executes code from it: only in the sandbox."""
    try:
        check_archive(path, memory_bytes)  # all of it will be in memory
    except ArchiveError as error:
        kind = "too_large" if isinstance(error, ArchiveTooLargeError) else "malformed"
        raise ImportFailure(
            kind, f"not a usable .pt2 archive: {error}; export the model again"
        ) from error
    return ExportedModel(load_program(path), sizes)


def load_program(path: Path) -> ExportedProgram:
    """Load a ``.pt2`` file. Executes code from it: only in the sandbox."""
    try:
        return torch.export.load(path)
    except Exception as error:
        raise ImportFailure(
            "malformed",
            f"torch.export.load refuses the file: {type(error).__name__}: {error}; "
            "write it with torch.export.save of the same torch version "
            f"({torch.__version__.partition('+')[0]})",
        ) from error


def import_program(
    program: ExportedProgram, batch_size: int, name: str = "model"
) -> tuple[Graph, dict[str, Tensor]]:
    """Specialise ``program`` to ``batch_size`` and turn it into a Graph of one operator a Unit.

    Raises ImportFailure naming the operator or the input that cannot be imported.
    """
    inputs = program_inputs(program, batch_size)
    return program_graph(_functional(program), inputs, name)


def run_original(
    program: ExportedProgram, batch_size: int, seeds: Iterable[int]
) -> list[dict[str, Tensor]]:
    """The original program's outputs on ``random_inputs`` of each seed, as ``output_0`` … in the
    order in which it returns them, which is the order of the Graph's outputs."""
    inputs = program_inputs(program, batch_size)
    module = program.module()
    results = []
    for seed in seeds:
        arguments, keywords = inputs.call(program, random_tensors(inputs.tensors, seed))
        with torch.inference_mode():
            found = module(*arguments, **keywords)
        flat, _ = torch.utils._pytree.tree_flatten(found)
        results.append({f"output_{index}": tensor for index, tensor in enumerate(flat)})
    return results


def _functional(program: ExportedProgram) -> ExportedProgram:
    """The program without in-place operators, and with those that Plait does not know decomposed
    into those that it does, where torch has a decomposition."""
    known = KINDS.keys() | REWRITTEN
    decompositions: Mapping[Any, Any] = dict(torch.export.default_decompositions())
    table = {op: decompose for op, decompose in decompositions.items() if str(op) not in known}
    try:
        functional: ExportedProgram = program.run_decompositions(table)
    except Exception as error:
        raise ImportFailure(
            "malformed", f"torch cannot decompose the program: {type(error).__name__}: {error}"
        ) from error
    return functional
