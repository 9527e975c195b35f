"""``plait inspect``: what a model's graph, or any graph given as adjacency lists, is made of."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from backend.cli.exits import ExitCode
from backend.cli.importing import model_source, sandbox_limits
from backend.cli.inspect_tables import adjacency_table, blocks_table, totals_table, units_table
from backend.cli.model_files import file_format
from backend.cli.output import Json, console, errors, fail, handles_errors
from backend.jobs.schemas import Granularity
from backend.settings import get_settings

ROWS = 20
"""Rows of a table without ``--all``."""

MAX_TRANSITIONS = 20_000_000


Convention = Literal["paper", "published"]


@handles_errors
def inspect(
    model: Annotated[
        str | None,
        typer.Argument(help="A .onnx, .pt2 or TorchScript file, or zoo:NAME.", show_default=False),
    ] = None,
    adjacency: Annotated[
        Path | None,
        typer.Option(help='A JSON file {"successors": [[1, 2], …]} instead of a model.'),
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", "-b", min=1, max=4096)] = None,
    sequence_length: Annotated[
        int | None, typer.Option(min=1, help="Size of the open dimensions besides the batch.")
    ] = None,
    granularity: Annotated[
        Granularity | None, typer.Option(help="What is one unit [default: fused].")
    ] = None,
    r: Annotated[
        int | None, typer.Option("--r", min=1, help="IOS: most units in a group [default: any].")
    ] = None,
    s: Annotated[
        int | None, typer.Option("--s", min=1, help="IOS: most groups in a stage [default: any].")
    ] = None,
    convention: Annotated[
        Convention | None,
        typer.Option(help="With --adjacency: which endings count [default: both, in turn]."),
    ] = None,
    max_transitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"With --adjacency: where counting is given up [default: {MAX_TRANSITIONS}].",
        ),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="All rows of the tables of units and blocks.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the units, blocks and totals of a model, or the search space of a graph."""
    if (model is None) == (adjacency is None):
        raise fail("give either a model or --adjacency FILE", ExitCode.USAGE)
    if model is None and adjacency is not None:
        _refuse(
            "only with a model",
            {"--batch": batch, "--sequence-length": sequence_length, "--granularity": granularity},
        )
        conventions: list[Convention] = [convention] if convention else ["paper", "published"]
        found = _inspect_adjacency(adjacency, r, s, conventions, max_transitions or MAX_TRANSITIONS)
        if not as_json:
            console.print(adjacency_table(found))
    elif model is not None:
        _refuse(
            "only with --adjacency",
            {"--convention": convention, "--max-transitions": max_transitions},
        )
        found = _inspect_model(model, batch or 1, sequence_length, granularity or "fused", r, s)
        if not as_json:
            most = None if show_all else ROWS
            for table in (totals_table(found), units_table(found, most), blocks_table(found, most)):
                console.print(table)
    if as_json:
        _print_json(found)


def _refuse(when: str, options: dict[str, object]) -> None:
    """End the command if one of ``options`` was given, which would be ignored."""
    for name, value in options.items():
        if value is not None:
            raise fail(f"{name} means something {when}", ExitCode.USAGE)


def _inspect_adjacency(
    file: Path,
    r: int | None,
    s: int | None,
    conventions: list[Convention],
    max_transitions: int,
) -> dict[str, Any]:
    # The workers' side loads only for this command.
    from workers.graph.adjacency import AdjacencyError, parse_adjacency  # noqa: PLC0415
    from workers.runner.inspection import inspect_adjacency  # noqa: PLC0415
    from workers.schedulers.endings import Pruning, TooManyUnitsError  # noqa: PLC0415

    try:
        graph = parse_adjacency(file.read_bytes())
        return inspect_adjacency(graph, Pruning(r, s), conventions, max_transitions)
    except (AdjacencyError, TooManyUnitsError) as error:
        raise fail(f"{file}: {error}", ExitCode.USAGE) from error
    except OSError as error:
        raise fail(f"cannot read {file}: {error.strerror}", ExitCode.USAGE) from error


def _inspect_model(
    model: str,
    batch: int,
    sequence_length: int | None,
    granularity: Granularity,
    r: int | None,
    s: int | None,
) -> dict[str, Any]:
    model_format = None if model.startswith("zoo:") else file_format(Path(model))
    from workers.graph.importers import import_model  # noqa: PLC0415  # torch, for this command
    from workers.graph.passes import optimise  # noqa: PLC0415
    from workers.runner.inspection import Import, inspect_graph  # noqa: PLC0415
    from workers.runner.problems import job_problem  # noqa: PLC0415
    from workers.schedulers.endings import Pruning  # noqa: PLC0415

    try:
        with (
            errors.status("importing in a sandbox"),
            tempfile.TemporaryDirectory(prefix="plait-inspect-") as workdir,
        ):
            directory = Path(workdir)
            name, source = model_source(model, model_format, directory)
            limits = sandbox_limits(get_settings())
            imported = import_model(source, batch, directory / "import", limits, sequence_length)
            graph, _ = optimise(imported.graph, imported.weights, granularity)
    except Exception as error:
        problem = job_problem(error)
        if problem is None:
            raise
        raise fail(problem.detail, ExitCode.JOB_FAILED) from error
    with errors.status("counting"):
        return inspect_graph(
            graph, Import(granularity, batch, sequence_length, name), Pruning(r, s)
        )


def _print_json(found: dict[str, Any]) -> None:
    """Unlike ``print_json``, with integers of any size."""
    indent = 2 if sys.stdout.isatty() else None
    sys.stdout.write(json.dumps(found, indent=indent, ensure_ascii=False) + "\n")
