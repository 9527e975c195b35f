"""``plait devices``: what can be tuned for."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from backend.cli.client import Client
from backend.cli.output import Json, console, handles_errors, print_json
from backend.settings import get_settings


@handles_errors
def devices(as_json: Json = False) -> None:
    """List the service's devices: the real ones first, then the simulated."""
    listed = Client.from_environment(get_settings()).get("/devices")
    if as_json:
        print_json(listed)
        return
    for title, simulated in (("Devices", False), ("Simulated devices", True)):
        rows = [device for device in listed if is_simulated(device) is simulated]
        if rows:
            console.print(_table(title, rows))


def is_simulated(device: dict[str, Any]) -> bool:
    return bool(device["facts"].get("simulated"))


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("device", "description", "kernels", "worker"):
        table.add_column(column, overflow="fold")
    for device in rows:
        table.add_row(
            device["name"],
            device["description"],
            ", ".join(device["capabilities"]["providers"]),
            device["worker"] if device["online"] else f"{device['worker']} (silent)",
        )
    return table
