"""``torch.export`` programs to Graphs.

Loading a ``.pt2`` file executes code from it, so everything here that takes a path runs only in
the sandboxed child process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from workers.graph.graph import Graph
from workers.graph.importers.archive import ArchiveError, ArchiveTooLargeError, check_archive
from workers.graph.importers.declared import ENTRY, DeclaredInput, declared_inputs
from workers.graph.importers.fixed_batch import (
    Original,
    check_batch,
    refusal,
    run_in_order,
    unbaked,
)
from workers.graph.importers.opened import Sizes
from workers.graph.importers.program_graph import functional, program_graph
from workers.graph.importers.program_inputs import ProgramInputs, program_inputs
from workers.graph.importers.source import ImportFailure
from workers.graph.random_inputs import random_tensors


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """An exported program at given sizes: an ``OpenedModel``. ``declared`` is what its file says
    about its inputs, ``name`` what its Graph is called."""

    program: ExportedProgram
    sizes: Sizes
    declared: Mapping[str, DeclaredInput] = field(default_factory=dict)
    name: str = "model"

    def graph(self) -> tuple[Graph, dict[str, Tensor]]:
        graph, weights = self._specialised()
        fixed = self._inputs().fixed
        if fixed:
            check_batch(graph, weights, self._original(), fixed, self.sizes.batch_size)
        return graph, weights

    def run(self, seeds: Sequence[int]) -> list[dict[str, Tensor]]:
        inputs, shapes = self._inputs(), []
        if inputs.fixed:
            graph, _ = self._specialised()
            shapes = [spec.shape for spec in graph.specs(graph.outputs)]
        cases = (random_tensors(inputs.tensors, seed) for seed in seeds)
        return run_in_order(self._original(), cases, inputs.fixed, self.sizes.batch_size, shapes)

    def _inputs(self) -> ProgramInputs:
        return program_inputs(self.program, self.sizes, self.declared)

    def _specialised(self) -> tuple[Graph, dict[str, Tensor]]:
        inputs, batch_size = self._inputs(), self.sizes.batch_size
        fixed = inputs.fixed
        decomposed = functional(self.program)
        if fixed is None:
            return program_graph(decomposed, inputs, self.name)

        def adapt(node: fx.Node, arguments: Sequence[Any]) -> Any:
            return unbaked(node, arguments, batch_size, fixed)

        try:
            return program_graph(decomposed, inputs, self.name, adapt)
        except ImportFailure as failure:
            if failure.kind != "unsupported_batch":
                raise
            raise refusal(fixed.size, batch_size, failure.detail) from failure

    def _original(self) -> Original:
        module, inputs = self.program.module(), self._inputs()

        def call(tensors: Mapping[str, Tensor]) -> list[Tensor]:
            arguments, keywords = inputs.call(self.program, tensors)
            try:
                with torch.inference_mode():
                    found = module(*arguments, **keywords)
            except Exception as error:
                raise ImportFailure(
                    "unsupported_batch",
                    "the exported program refuses inputs of the shapes "
                    f"{ {name: list(t.shape) for name, t in tensors.items()} }: {error}",
                ) from error
            return list(torch.utils._pytree.tree_leaves(found))

        return call


def open_model(path: Path, sizes: Sizes, memory_bytes: int) -> ExportedModel:
    """Open a ``.pt2`` file. Executes code from it: only in the sandbox."""
    try:
        check_archive(path, memory_bytes)  # all of it will be in memory
    except ArchiveError as error:
        kind = "too_large" if isinstance(error, ArchiveTooLargeError) else "malformed"
        raise ImportFailure(
            kind, f"not a usable .pt2 archive: {error}; export the model again"
        ) from error
    extra = {ENTRY: ""}
    program = load_program(path, extra)
    return ExportedModel(program, sizes, declared_inputs(extra[ENTRY]))


def load_program(path: Path, extra_files: dict[str, str] | None = None) -> ExportedProgram:
    """Load a ``.pt2`` file, and those of the files beside it that ``extra_files`` names into there.
    Executes code from it: only in the sandbox."""
    try:
        return torch.export.load(path, extra_files=extra_files)
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
    return ExportedModel(program, Sizes(batch_size), name=name).graph()


def run_original(
    program: ExportedProgram, batch_size: int, seeds: Iterable[int]
) -> list[dict[str, Tensor]]:
    """The original program's outputs on ``random_inputs`` of each seed, as ``output_0`` … in the
    order in which it returns them, which is the order of the Graph's outputs."""
    return ExportedModel(program, Sizes(batch_size)).run(list(seeds))
