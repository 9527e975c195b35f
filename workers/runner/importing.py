"""A job's first step, and an inspection's only one: from a model to its Graph and what is known
of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from backend.jobs.schemas import JobSpec, Purpose
from workers.graph.graph import Graph
from workers.graph.importers import import_model
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelSource
from workers.graph.passes import optimise
from workers.runner.inspection import CountLimits, Import, inspect_graph
from workers.runner.recorder import Recorder
from workers.runner.reporting import Reporter

if TYPE_CHECKING:
    from torch import Tensor

COUNT_LIMITS = {
    Purpose.INSPECT: CountLimits(),
    **dict.fromkeys(
        (Purpose.TUNE, Purpose.KERNELS), CountLimits(max_transitions=200_000, max_seconds=0.5)
    ),
}
"""Whoever tunes waits for schedules and not for counts."""


def run_inspection(
    spec: JobSpec, source: ModelSource, recorder: Recorder, workdir: Path, limits: SandboxLimits
) -> None:
    """Import the model at every batch size and report its Graph; nothing is run on a device.

    Raises ImportFailure, and whatever the Recorder raises to end it.
    """
    for batch_size in spec.batch_sizes:
        import_graph(spec, source, Reporter(recorder, batch_size), workdir, limits)
    recorder.succeed([])


def import_graph(
    spec: JobSpec, source: ModelSource, reporter: Reporter, workdir: Path, limits: SandboxLimits
) -> tuple[Graph, Mapping[str, Tensor]]:
    """The optimised Graph for the reporter's batch size and its weights; reports what is known.

    Raises ImportFailure.
    """
    batch_size = reporter.batch_size
    reporter.step("importing", 0, 2, f"importing at batch {batch_size} in a sandbox")
    directory = workdir / f"import-{batch_size}"
    imported = import_model(source, batch_size, directory, limits, spec.sequence_length)
    reporter.log(f"the import was isolated by: {', '.join(imported.isolation)}")
    graph, weights = optimise(imported.graph, imported.weights, spec.granularity)
    reporter.step("importing", 1, 2, f"counting what there is to search at batch {batch_size}")
    made = Import(spec.granularity, batch_size, spec.sequence_length)
    facts = inspect_graph(graph, made, limits=COUNT_LIMITS[spec.purpose])
    reporter.recorder.graph(facts)
    reporter.log(
        f"imported at batch {batch_size}: {len(imported.graph.operators)} operators became "
        f"{len(graph.units)} units in {len(facts['blocks'])} blocks, {graph.flops / 1e9:.2f} GFLOPs"
    )
    return graph, weights
