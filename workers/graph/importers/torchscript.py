"""TorchScript archives to Graphs, through torch's own converter to exported programs.

Loading an archive executes code from it, so everything here runs only in the sandboxed child
process.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor
from torch.export import ExportedProgram

from workers.graph.graph import Graph
from workers.graph.importers.archive import ArchiveError, ArchiveTooLargeError, check_archive
from workers.graph.importers.fixed_batch import check_batch, refusal, run_in_order
from workers.graph.importers.input_sizes import FixedBatch
from workers.graph.importers.opened import Sizes
from workers.graph.importers.program_graph import functional, program_graph
from workers.graph.importers.program_inputs import exported_inputs
from workers.graph.importers.script_inputs import ScriptInputs, load_script, script_inputs
from workers.graph.importers.source import ImportFailure
from workers.graph.random_inputs import random_tensors

_SEED = 0
_INSTEAD = (
    "save it with torch.jit.save(torch.jit.trace(model.eval(), example), path), or better with "
    "torch.export.export and torch.export.save as .pt2"
)


@dataclass(frozen=True, slots=True)
class ScriptModel:
    """A TorchScript module at given sizes: an ``OpenedModel``."""

    module: torch.jit.ScriptModule
    inputs: ScriptInputs
    batch_size: int

    def graph(self) -> tuple[Graph, dict[str, Tensor]]:
        graph, weights = self._converted()
        fixed = self.inputs.fixed
        if fixed:
            names = dict(zip(self.inputs.tensors, graph.inputs, strict=True))
            axes = {names[name]: axis for name, axis in fixed.axes.items()}
            renamed = FixedBatch(fixed.size, axes)
            check_batch(graph, weights, self._original, renamed, self.batch_size)
        return graph, weights

    def run(self, seeds: Sequence[int]) -> list[dict[str, Tensor]]:
        shapes: list[tuple[int, ...]] = []
        if self.inputs.fixed:
            graph, _ = self._converted()
            shapes = [spec.shape for spec in graph.specs(graph.outputs)]
        cases = (random_tensors(self.inputs.tensors, seed) for seed in seeds)
        return run_in_order(self._original, cases, self.inputs.fixed, self.batch_size, shapes)

    def _converted(self) -> tuple[Graph, dict[str, Tensor]]:
        program = _converted(self.module, self._example())
        return program_graph(functional(program), exported_inputs(program), "model")

    def _original(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        try:
            # What is called a few times only is not worth torch's compiling it.
            with torch.inference_mode(), torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
                found = self.module(*tensors.values())
        except Exception as error:
            shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
            raise ImportFailure(
                "unsupported_batch",
                f"the module cannot be called with inputs of the shapes {shapes}: {_last(error)}",
            ) from error
        leaves = torch.utils._pytree.tree_leaves(found)
        for number, leaf in enumerate(leaves):
            if not isinstance(leaf, Tensor):
                raise ImportFailure(
                    "unsupported_input",
                    f"output {number} of the module is a {type(leaf).__name__}; let it return "
                    "tensors only",
                )
        return leaves

    def _example(self) -> tuple[Tensor, ...]:
        """Inputs at the job's sizes that the module has been called with."""
        tensors = random_tensors(self.inputs.tensors, _SEED)
        try:
            self._original(tensors)
        except ImportFailure as failure:
            fixed = self.inputs.fixed
            if fixed is None:
                raise
            raise refusal(fixed.size, self.batch_size, failure.detail) from failure
        return tuple(tensors.values())


def open_model(path: Path, sizes: Sizes, memory_bytes: int) -> ScriptModel:
    """Open a TorchScript archive. Executes code from it: only in the sandbox."""
    try:
        names = check_archive(path, memory_bytes)
    except ArchiveError as error:
        kind = "too_large" if isinstance(error, ArchiveTooLargeError) else "malformed"
        raise ImportFailure(kind, f"not a usable TorchScript archive: {error}; {_INSTEAD}") from (
            error
        )
    _refuse_others(names)
    module, declared = load_script(path)
    return ScriptModel(module, script_inputs(path, module, declared, sizes), sizes.batch_size)


def _refuse_others(names: Sequence[str]) -> None:
    members = {PurePosixPath(*PurePosixPath(name).parts[1:]).as_posix() for name in names}
    if "constants.pkl" in members and any(name.startswith("code/") for name in members):
        return
    what = "no TorchScript archive"
    if "archive_format" in members:
        what = "a torch.export archive, which is imported under a name that ends in .pt2"
    elif "data.pkl" in members:
        what = "what torch.save wrote, weights or a pickled module, and says not what to compute"
    raise ImportFailure("malformed", f"the file is {what}; {_INSTEAD}")


def _converted(module: torch.jit.ScriptModule, example: tuple[Tensor, ...]) -> ExportedProgram:
    # Imported here, for it is not part of torch's public interface and takes a while.
    from torch._export.converter import TS2EPConverter  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of weights that are not used
            program: ExportedProgram = TS2EPConverter(module, example).convert()
    except Exception as error:
        raise ImportFailure(
            "unsupported_operator",
            f"torch cannot convert the TorchScript ({type(error).__name__}: {_last(error)}); "
            "export the model with torch.export.export and save it as .pt2",
        ) from error
    return program


def _last(error: Exception) -> str:
    """The last line of a message, which is where TorchScript puts the reason."""
    return str(error).strip().rpartition("\n")[2]
