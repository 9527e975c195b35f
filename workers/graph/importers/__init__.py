"""Models of others to Graphs, in a sandbox: nothing of an upload is ever opened outside of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.graph.importers.catalog import FORMATS
from workers.graph.importers.sandbox import Answer, SandboxLimits, outputs_file, sandboxed
from workers.graph.importers.source import ImportFailure, ModelFile, ModelSource, ZooModel

if TYPE_CHECKING:
    from torch import Tensor

    from workers.graph.graph import Graph

MAX_GRAPH_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """A Graph, its weights by name, and the layers of isolation it was imported behind."""

    graph: Graph
    weights: Mapping[str, Tensor]
    isolation: tuple[str, ...]


def import_model(
    source: ModelSource,
    batch_size: int,
    workdir: Path,
    limits: SandboxLimits,
    sequence_length: int | None = None,
) -> ImportedModel:
    """Turn the model into a Graph for ``batch_size``, and for ``sequence_length`` in every other
    dimension that the model leaves open.

    ``workdir`` is made if it is missing, and holds the sandbox's files for as long as this takes.
    Raises ImportFailure.
    """
    from workers.graph.serialize import GRAPH_FILE, WEIGHTS_FILE, load_graph  # noqa: PLC0415

    request = {"task": "import", **model_request(source, batch_size, sequence_length)}
    with sandboxed(request, model_path(source), workdir, limits) as answer:
        answer.file(GRAPH_FILE, MAX_GRAPH_BYTES)
        answer.file(WEIGHTS_FILE, limits.memory_bytes)
        try:
            graph, weights = load_graph(answer.scratch)
        except (ValueError, RecursionError) as error:
            raise ImportFailure(
                "crashed", f"what was read from the model is no graph ({error})"
            ) from error
        return ImportedModel(graph, weights, answer.isolation)


def reference_outputs(
    source: ModelSource,
    batch_size: int,
    seeds: Sequence[int],
    workdir: Path,
    limits: SandboxLimits,
    sequence_length: int | None = None,
) -> list[dict[str, Tensor]]:
    """What the original model computes, for each seed, from ``random_inputs`` of that seed.

    The tensors are named ``output_0`` … in the order in which the model returns them. Raises
    ImportFailure.
    """
    which = model_request(source, batch_size, sequence_length)
    request = {"task": "run", "seeds": list(seeds), **which}
    with sandboxed(request, model_path(source), workdir, limits) as answer:
        return [_outputs(answer, index, limits) for index in range(len(seeds))]


def model_request(
    source: ModelSource, batch_size: int, sequence_length: int | None
) -> dict[str, Any]:
    """What an order for the sandbox says about the model. Raises ImportFailure for an unknown
    format."""
    sizes = {"batch_size": batch_size, "sequence_length": sequence_length}
    if isinstance(source, ZooModel):
        return {**sizes, "zoo": source.name, "format": None}
    if source.format not in FORMATS:
        raise ImportFailure(
            "malformed",
            f"{source.path.name} has the format {source.format!r}, which cannot be imported; "
            f"known: {', '.join(FORMATS)}",
        )
    return {**sizes, "zoo": None, "format": source.format}


def model_path(source: ModelSource) -> Path | None:
    """The file that the sandbox must be able to read."""
    return source.path if isinstance(source, ModelFile) else None


def _outputs(answer: Answer, index: int, limits: SandboxLimits) -> dict[str, Tensor]:
    from safetensors import SafetensorError  # noqa: PLC0415  # torch loads only for an import
    from safetensors.torch import load_file  # noqa: PLC0415

    path = answer.file(outputs_file(index), limits.memory_bytes)
    try:
        outputs: dict[str, Tensor] = load_file(path)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ImportFailure("crashed", f"the model's outputs cannot be read ({error})") from error
    return outputs
