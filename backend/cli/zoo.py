"""``plait zoo list | export``: the models that need no upload."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from backend.cli.exits import ExitCode
from backend.cli.output import Json, console, fail, handles_errors, print_json

if TYPE_CHECKING:
    from workers.zoo import Input

app = typer.Typer(help="The papers' models, by name.", no_args_is_help=True)


@app.command("list")
@handles_errors
def list_(as_json: Json = False) -> None:
    """List the models, their inputs, and where each was published."""
    from workers import zoo  # noqa: PLC0415  # without torch

    entries = [zoo.find(name) for name in zoo.names()]
    if as_json:
        print_json(
            [
                {
                    "name": entry.name,
                    "source": entry.source,
                    "parameters": entry.parameters,
                    "inputs": [
                        {"name": given.name, "shape": ["N", *given.shape], "dtype": given.dtype}
                        for given in entry.inputs
                    ],
                }
                for entry in entries
            ]
        )
        return
    table = Table()
    table.add_column("model", no_wrap=True)
    table.add_column("parameters", justify="right")
    table.add_column("inputs", overflow="fold")
    table.add_column("source", overflow="fold")
    for entry in entries:
        inputs = "\n".join(_input(given) for given in entry.inputs)
        parameters = f"{entry.parameters / 1e6:.2f} M" if entry.parameters else "–"
        table.add_row(f"zoo:{entry.name}", parameters, inputs, entry.source)
    console.print(table)


@app.command()
@handles_errors
def export(
    name: Annotated[str, typer.Argument(help="As `plait zoo list` shows it, with or without zoo:")],
    file_format: Annotated[Literal["onnx", "pt2"], typer.Option("--format", "-f")],
    batch: Annotated[
        int | None, typer.Option("--batch", "-b", min=1, help="Fix the batch size.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file or a directory; else NAME.FORMAT.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model to a file; it takes batches of any size unless one is given."""
    from workers import zoo  # noqa: PLC0415  # without torch

    name = name.removeprefix("zoo:")
    if not zoo.known(name):
        known = ", ".join(zoo.names())
        raise fail(f"the zoo has no model {name!r}; it has {known}", ExitCode.USAGE)
    path = _target(output, f"{name}.{file_format}")
    from workers.zoo.files import FileFormat  # noqa: PLC0415  # imports torch
    from workers.zoo.files import export as export_file  # noqa: PLC0415

    try:
        export_file(name, FileFormat(file_format), path, batch)
    except OSError as error:
        raise fail(f"cannot write {path}: {error}", ExitCode.JOB_FAILED) from error
    except ImportError as error:
        raise fail(
            f"writing {file_format} files needs a package that is missing: {error}; install it, "
            "or choose --format pt2",
            ExitCode.JOB_FAILED,
        ) from error
    size = path.stat().st_size
    if as_json:
        print_json({"path": str(path), "bytes": size, "batch_size": batch})
    else:
        console.print(f"wrote {path} ({size / 1e6:.1f} MB)", highlight=False, soft_wrap=True)


def _target(output: Path | None, file_name: str) -> Path:
    """The file to write, known to be in a directory that can be written to."""
    path = output or Path(file_name)
    if path.is_dir():
        path /= file_name
    if not path.parent.is_dir():
        raise fail(f"no such directory: {path.parent}; create it first", ExitCode.USAGE)
    if not os.access(path.parent, os.W_OK):
        raise fail(f"cannot write into {path.parent}: permission denied", ExitCode.USAGE)
    return path


def _input(given: Input) -> str:
    return f"{given.name} (N, {', '.join(map(str, given.shape))}) {given.dtype}"
