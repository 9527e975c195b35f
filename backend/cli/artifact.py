"""``plait artifact check``: whether a downloaded schedule is whole, right, and for this device."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from backend.cli.exits import ExitCode
from backend.cli.output import Json, console, errors, fail, handles_errors, print_json

if TYPE_CHECKING:
    from workers.measure.verify import Verification
    from workers.schedules.artifact import Artifact

CASES = 2
"""Fresh random inputs that the schedule is verified on."""

app = typer.Typer(help="Downloaded schedules.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Downloaded schedules."""


@app.command()
@handles_errors
def check(
    file: Annotated[Path, typer.Argument(help="An artifact: the zip of a schedule and its model.")],
    device: Annotated[
        str | None,
        typer.Option(
            help="Also require that it was made for this device, and run it there [default: run it"
            " on the CPU, whatever it was made for]."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove that an artifact fits together, and run its plan against the sequential order."""
    # The workers' side loads only for this command.
    from workers.devices import open_device  # noqa: PLC0415
    from workers.devices.base import DeviceError  # noqa: PLC0415
    from workers.schedules.artifact import read_artifact, require_made_for  # noqa: PLC0415
    from workers.schedules.schedule import ScheduleError  # noqa: PLC0415

    if not file.is_file():
        raise fail(f"no such file: {file}", ExitCode.USAGE)
    try:
        with errors.status("reading"):
            artifact = read_artifact(file)
        with closing(open_device(device or "cpu")) as opened, errors.status("running"):
            verification = _verify(artifact, opened)
            made_here = opened.facts.fingerprint == artifact.key.device_fingerprint
            mismatch = None
            if device is not None:
                try:
                    facts = opened.facts
                    require_made_for(artifact, device, facts.fingerprint, facts.versions)
                except ScheduleError as error:
                    mismatch = str(error)
    except (ScheduleError, DeviceError) as error:
        raise fail(str(error), ExitCode.JOB_FAILED) from error
    if as_json:
        print_json(_json(artifact, verification, made_here, mismatch))
    else:
        console.print(_table(artifact, verification, device or "cpu"))
    if not verification.passed:
        raise fail(f"its outputs are wrong: {verification.difference}", ExitCode.JOB_FAILED)
    if mismatch is not None:
        raise fail(mismatch, ExitCode.JOB_FAILED)


def _verify(artifact: Artifact, device: Any) -> Verification:
    """Run the plan on fresh inputs against the interpreter, one Unit after the other. With the
    kernels that it was measured with, where the device has them."""
    from workers.measure.verify import fresh_seeds, reference_cases, verify  # noqa: PLC0415

    provider = artifact.provider if artifact.provider in device.facts.providers else "aten"
    cases = reference_cases(artifact.graph, artifact.weights, fresh_seeds(CASES))
    return verify(device, artifact.graph, artifact.weights, artifact.plan, cases, provider)


def _facts(artifact: Artifact) -> Mapping[str, Any]:
    key = artifact.key
    return {
        "model": artifact.graph.name,
        "scheduler": artifact.schedule.scheduler,
        "batch_size": key.batch_size,
        "dtype": key.dtype,
        "device_fingerprint": key.device_fingerprint,
        "provider": artifact.provider,
        "versions": dict(key.versions),
        "graph_hash": artifact.graph_hash,
        "original_graph_hash": key.graph_hash,
        "units": len(artifact.graph.units),
        "streams": len(artifact.plan.streams),
    }


def _json(
    artifact: Artifact, verification: Verification, made_here: bool, mismatch: str | None
) -> dict[str, Any]:
    return {
        **_facts(artifact),
        "summary": dict(artifact.summary),
        "verified": verification.passed,
        "cases": verification.cases,
        "max_abs_error": verification.max_abs_error,
        "difference": verification.difference,
        "made_for_this_device": made_here,
        "mismatch": mismatch,
    }


def _table(artifact: Artifact, verification: Verification, device: str) -> Table:
    table = Table(show_header=False, box=None)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in {**_facts(artifact), **artifact.summary}.items():
        table.add_row(name.replace("_", " "), _text(value))
    table.add_row(
        "verified",
        f"{'yes' if verification.passed else 'NO'}, on {device} with {verification.cases} fresh"
        f" inputs (largest error {verification.max_abs_error:.3g})",
    )
    return table


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(entry)}" for name, entry in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
