"""``plait profiles``: a service's index, and the file of ``plait schedule``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.profile_index import FAILED, KEY, MEASURED
from typer.testing import CliRunner, Result

from backend.cli.exits import ExitCode
from backend.cli.main import app
from backend.settings import Settings, get_settings
from workers.measure.profile_lines import to_line

LINES = (
    to_line(KEY, MEASURED)
    + to_line(KEY, MEASURED)
    + to_line(KEY.__class__("cpu-2", "inductor", KEY.context, KEY.signature), FAILED)
)

Run = Callable[..., Result]


@pytest.fixture
def plait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    """Runs a command without a service; ``server`` in a test gives it one."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLAIT_URL", "http://127.0.0.1:1")
    get_settings.cache_clear()
    yield lambda *arguments: CliRunner().invoke(app, list(arguments))
    get_settings.cache_clear()


@pytest.fixture
def service(
    plait: Run,
    server: str,
    settings: Settings,
    token: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLAIT_URL", server)
    monkeypatch.setenv("PLAIT_TOKEN", token("read", "upload:trusted"))


def check(plait: Run, tmp_path: Path, *where: str) -> None:
    """Import, count, export; the same for a service and for a file."""
    given = tmp_path / "given.jsonl"
    given.write_text(LINES)
    said = plait("profiles", "import", str(given), *where, "--json")
    assert said.exit_code == ExitCode.OK, said.output
    assert json.loads(said.stdout) == {"lines": 3, "imported": 2}
    again = plait("profiles", "import", str(given), *where)
    assert "0 of 3 measurements are new" in again.stdout

    counted = json.loads(plait("profiles", "summary", *where, "--json").stdout)
    assert [
        (row["device_fingerprint"], row["provider"], row["simulated"], row["entries"])
        for row in counted
    ] == [("cpu-1", "aten", True, 1), ("cpu-2", "inductor", False, 1)]
    assert [row["failures"] for row in counted] == [0, 1]
    assert "simulated" in plait("profiles", "summary", *where).stdout

    target = tmp_path / "exported.jsonl"
    assert plait("profiles", "export", "-o", str(target), *where).exit_code == ExitCode.OK
    assert [json.loads(line) for line in target.read_text().splitlines()] == [
        json.loads(line) for line in LINES.splitlines()[1:]
    ]
    chosen = plait("profiles", "export", "--fingerprint", "cpu-2", *where).stdout
    assert json.loads(chosen) == json.loads(LINES.splitlines()[2])
    assert plait("profiles", "export", "--provider", "none", *where).stdout == ""

    given.write_text(LINES + "{}\n")
    refused = plait("profiles", "import", str(given), *where)
    assert refused.exit_code == ExitCode.REFUSED
    assert "line 4" in " ".join(refused.stderr.split())


@pytest.mark.usefixtures("service")
def test_of_a_service(plait: Run, tmp_path: Path) -> None:
    check(plait, tmp_path)


def test_of_this_machine_without_a_service(plait: Run, tmp_path: Path) -> None:
    check(plait, tmp_path, "--local")
    assert plait("profiles", "summary").exit_code == ExitCode.UNREACHABLE
