"""``plait profiles export | import | summary``: the ProfileIndex of a service, or of this machine.

With ``--local``, it is the file that ``plait schedule`` keeps its measurements in.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from backend.cli.client import Client
from backend.cli.exits import ExitCode
from backend.cli.output import Json, console, fail, handles_errors, print_json
from backend.settings import Settings, get_settings

if TYPE_CHECKING:
    from workers.measure.measurement import Measurement
    from workers.measure.profile_index import FileIndex
    from workers.measure.profile_lines import ProfileKey

app = typer.Typer(
    help="Measurements that are never taken twice: carry them from one machine to another.",
    no_args_is_help=True,
)

LOCAL_INDEX_FILE = "profile-index.jsonl"

Local = Annotated[
    bool, typer.Option("--local", help="Of `plait schedule` on this machine, without a service.")
]
Fingerprint = Annotated[
    str | None, typer.Option(help="Only of the device of this fingerprint; see the summary.")
]
OfProvider = Annotated[str | None, typer.Option("--provider", help="Only of its kernels.")]


@app.command()
@handles_errors
def export(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File [default: standard output].")
    ] = None,
    fingerprint: Fingerprint = None,
    provider: OfProvider = None,
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Write the measurements, one JSON object a line; with --json, also name the file so."""
    with _writing(output) as file:
        for line in _lines(fingerprint, provider, local):
            file.write(line)
    if output is not None and as_json:
        print_json({"wrote": str(output)})
    elif output is not None:
        console.print(f"wrote {output}", highlight=False)


def _lines(fingerprint: str | None, provider: str | None, local: bool) -> Iterator[bytes]:
    if not local:
        client = Client.from_environment(get_settings())
        yield from client.stream("/profiles", device_fingerprint=fingerprint, provider=provider)
        return
    from workers.measure.profile_lines import to_line  # noqa: PLC0415  # the core, if it is needed

    for key, measurement in open_local_index(get_settings()).entries(fingerprint):
        if provider in (None, key.provider):
            yield to_line(key, measurement).encode()


@contextlib.contextmanager
def _writing(path: Path | None) -> Iterator[IO[bytes]]:
    """The file, which a broken export leaves as it was; standard output without a path."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    scratch = path.with_name(path.name + ".part")
    try:
        with scratch.open("wb") as file:
            yield file
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


@app.command("import")
@handles_errors
def import_(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An export.")],
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Add measurements; those that are known stay as they are. All are added, or none."""
    done = (
        _import_here(file)
        if local
        else Client.from_environment(get_settings()).send_file("/profiles", file)
    )
    if as_json:
        print_json(done)
    else:
        console.print(f"{done['imported']} of {done['lines']} measurements are new")


def _import_here(file: Path) -> dict[str, int]:
    from workers.measure.profile_lines import (  # noqa: PLC0415  # the core, if it is needed
        ProfileLineError,
        read_lines,
    )

    index = open_local_index(get_settings())
    try:
        with file.open("rb") as given:
            entries = list(read_lines(given, str(file)))
    except ProfileLineError as error:
        raise fail(f"{error}; nothing was imported", ExitCode.REFUSED) from error
    known = index.lookup([key for key, _ in entries])
    fresh: dict[ProfileKey, Measurement] = {}
    for key, measurement in entries:
        if key not in known:
            fresh.setdefault(key, measurement)
    index.record(fresh)
    return {"lines": len(entries), "imported": len(fresh)}


@app.command()
@handles_errors
def summary(local: Local = False, as_json: Json = False) -> None:
    """Count the measurements by device and provider."""
    counted = (
        _count_here() if local else Client.from_environment(get_settings()).get("/profiles/summary")
    )
    if as_json:
        print_json(counted)
        return
    table = Table()
    for column in ("device", "fingerprint", "kernels", "measurements", "of them failed"):
        table.add_column(column, overflow="fold")
    for row in counted:
        names = ", ".join(row["devices"]) or "–"
        table.add_row(
            f"{names} (simulated)" if row["simulated"] else names,
            row["device_fingerprint"],
            row["provider"],
            str(row["entries"]),
            str(row["failures"]),
        )
    console.print(table)


def _count_here() -> list[dict[str, Any]]:
    """The form of the service's summary, without its times."""
    from workers.devices import discover  # noqa: PLC0415  # the core, if it is needed

    entries, failures = Counter[tuple[str, str, bool]](), Counter[tuple[str, str, bool]]()
    for key, measurement in open_local_index(get_settings()).entries():
        group = (key.device_fingerprint, key.provider, measurement.simulated)
        entries[group] += 1
        failures[group] += measurement.failure is not None
    here = [(facts.fingerprint, facts.name) for facts in discover()]
    return [
        {
            "device_fingerprint": fingerprint,
            "provider": provider,
            "simulated": simulated,
            "devices": sorted(name for known, name in here if known == fingerprint),
            "entries": entries[fingerprint, provider, simulated],
            "failures": failures[fingerprint, provider, simulated],
        }
        for fingerprint, provider, simulated in sorted(entries)
    ]


def open_local_index(settings: Settings) -> FileIndex:
    """Where ``plait schedule`` keeps its measurements."""
    from workers.measure.profile_index import FileIndex  # noqa: PLC0415  # the core

    try:
        return FileIndex(settings.home / LOCAL_INDEX_FILE)
    except ValueError as error:
        raise fail(str(error), ExitCode.JOB_FAILED) from error
