"""``plait schedule`` on a file, from the upload's rules to the verified artifact."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.model_files import Tokens, write
from typer.testing import CliRunner

from backend.cli.exits import ExitCode
from backend.cli.main import app
from backend.settings import get_settings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "home"))
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.mark.usefixtures("home")
def test_a_job_s_batch_and_sequence_length_reach_the_graph(tmp_path: Path) -> None:
    words = ("batch", "sequence")
    example = torch.zeros(2, 5, dtype=torch.int64)
    path = write("onnx", Tokens(), example, words, tmp_path / "tokens.v2.onnx")
    options = ["--batch", "3", "--sequence-length", "7", "--scheduler", "sequential"]
    options += ["--allow-noise", "--trace", str(tmp_path)]
    command = ["schedule", str(path), *options, "--budget", "5", "-o", str(tmp_path), "--json"]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == ExitCode.OK, ended.output
    found = json.loads(ended.stdout)
    assert [result["verified"] for result in found["results"]] == [True]
    [artifact] = map(Path, found["artifacts"])
    assert artifact.name == "tokens-v2-batch3-sequential.zip"
    [result] = found["results"]
    assert (result["simulated"], result["provider"]) == (False, "aten")
    assert result["environment"]["noise"]["allowed"] is True
    [written] = map(Path, found["traces"])
    assert written.name == "tokens-v2-batch3-sequential.trace.json"
    assert json.loads(written.read_text())["otherData"]["simulated"] is False
    with zipfile.ZipFile(artifact) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("graph.json")]
        graph = json.loads(archive.read(name))
    [given] = graph["inputs"]
    assert graph["values"][given]["shape"] == [3, 7]


@pytest.mark.usefixtures("home")
def test_several_traces_need_a_directory(tmp_path: Path) -> None:
    command = ["schedule", "zoo:squeezenet", "-b", "1", "-b", "2", "--trace", str(tmp_path / "t")]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == ExitCode.USAGE
    assert "directory" in ended.stderr
