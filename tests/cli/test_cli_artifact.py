"""``plait artifact check``, without any server."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
import torch
from support.graphs import SIDE, graph_of, wide
from typer.testing import CliRunner

from backend.cli.exits import ExitCode
from backend.cli.main import app
from workers.devices import open_device
from workers.graph.graph import Graph
from workers.graph.serialize import graph_hash
from workers.schedules.artifact import write_artifact
from workers.schedules.lower import lower
from workers.schedules.schedule import ScheduleKey, Stage, StageSchedule

GRAPH = graph_of(wide(2), "twins")
SCHEDULE = StageSchedule("ios", (Stage((("u0",),)), Stage((("u1",), ("u2",))), Stage((("u3",),))))


def check(*arguments: str) -> tuple[int, str, str]:
    """The exit code, and standard output and error with their lines joined."""
    finished = CliRunner().invoke(app, ["artifact", "check", *arguments])
    return (
        finished.exit_code,
        re.sub(r"\s+", " ", finished.stdout),
        re.sub(r"\s+", " ", finished.stderr),
    )


def made(path: Path, graph: Graph, fingerprint: str, versions: dict[str, str]) -> str:
    key = ScheduleKey(graph_hash(graph), fingerprint, "float32", 1, versions)
    plan = lower(SCHEDULE, graph, 2)
    weights = {"w": torch.eye(SIDE) / 2}
    write_artifact(path, graph, weights, SCHEDULE, key, plan, {"latency_ms": 1.25}, 2)
    return str(path)


@pytest.fixture
def here(tmp_path: Path) -> str:
    with closing(open_device("cpu")) as device:
        facts = device.facts
    return made(tmp_path / "here.zip", GRAPH, facts.fingerprint, dict(facts.versions))


def test_an_artifact_of_this_device_passes(here: str) -> None:
    code, said, _ = check(here, "--device", "cpu")
    assert code == ExitCode.OK
    for words in ("model twins", "scheduler ios", "provider aten", "latency ms 1.25"):
        assert words in said
    assert "verified yes, on cpu with 2 fresh inputs" in said


def test_an_artifact_of_another_device_runs_but_is_not_for_this_one(tmp_path: Path) -> None:
    path = made(tmp_path / "there.zip", GRAPH, "cuda-1", {"torch": "9.9"})
    code, said, _ = check(path)
    assert code == ExitCode.OK
    assert "device fingerprint cuda-1" in said
    code, said, problem = check(path, "--device", "cpu")
    assert code == ExitCode.JOB_FAILED
    assert "verified yes" in said
    assert "device_fingerprint is 'cuda-1'" in problem
    assert "plait schedule MODEL --device cpu --batch 1" in problem


def test_programs_get_json(here: str) -> None:
    code, said, _ = check(here, "--json")
    found = json.loads(said)
    assert code == ExitCode.OK
    assert found["verified"] is found["made_for_this_device"] is True
    assert found["cases"] == 2
    assert found["max_abs_error"] < 1e-6
    assert found["mismatch"] is found["difference"] is None
    assert found["graph_hash"] == found["original_graph_hash"] == graph_hash(GRAPH)
    assert found["summary"] == {"latency_ms": 1.25}


def test_what_is_no_artifact_is_told_in_a_line(tmp_path: Path) -> None:
    code, _, problem = check(str(tmp_path / "none.zip"))
    assert code == ExitCode.USAGE
    assert "no such file" in problem
    (tmp_path / "text.zip").write_text("text")
    code, _, problem = check(str(tmp_path / "text.zip"))
    assert code == ExitCode.JOB_FAILED
    assert "cannot be read as a zip" in problem


def test_an_unknown_device_is_told(here: str) -> None:
    code, _, problem = check(here, "--device", "abacus")
    assert code == ExitCode.JOB_FAILED
    assert "abacus" in problem
