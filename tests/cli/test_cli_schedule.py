"""``plait schedule`` on a file, from the upload's rules to the verified artifact."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import helper
from support.model_files import Tokens, write
from support.onnx_models import model, written
from typer.testing import CliRunner

from backend.cli.exits import ExitCode
from backend.cli.main import app
from backend.settings import get_settings
from workers.schedules.artifact import read_artifact
from workers.schedules.schedule import StageSchedule


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


def expansions(folder: Path) -> Path:
    """What a Fire module expands to: convolutions of 1 x 1 and 3 x 3 on one input, joined."""
    weight = np.random.default_rng(0).standard_normal((64, 16, 3, 3), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "narrow"], ["a"]),
        helper.make_node("Conv", ["x", "wide"], ["b"], pads=[1, 1, 1, 1]),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=1),
    ]
    weights = {"narrow": weight[:32, :, :1, :1], "wide": weight[32:]}
    return written(model(nodes, {"x": [1, 16, 8, 8]}, ["y"], weights), folder)


@pytest.mark.usefixtures("home")
def test_operators_that_a_search_merges_are_verified_and_delivered(tmp_path: Path) -> None:
    path = expansions(tmp_path)
    command = ["schedule", str(path), "--device", "sim:v100", "-s", "ios", "-o", str(tmp_path)]
    options = ["--ios-strategies", "merge", "--ios-mode", "exhaustive", "--json"]
    ended = CliRunner().invoke(app, [*command, *options])
    assert ended.exit_code == ExitCode.OK, ended.output
    found = json.loads(ended.stdout)
    verified = {result["scheduler"]: result["verified"] for result in found["results"]}
    assert verified == {"sequential": True, "ios": True}
    [artifact] = map(read_artifact, map(Path, found["artifacts"]))
    assert isinstance(artifact.schedule, StageSchedule)
    ways = [(stage.strategy, len(stage.units)) for stage in artifact.schedule.stages]
    assert ways == [("merge", 2), ("concurrent", 1)]
    assert len(artifact.graph.units) == 2


@pytest.mark.usefixtures("home")
def test_a_search_that_leaves_threads_to_the_device_has_one_way_for_each_stage(
    tmp_path: Path,
) -> None:
    command = ["schedule", str(expansions(tmp_path)), "-s", "ios", "--allow-noise", "--json"]
    options = ["--ios-threads", "device", "--ios-strategies", "parallel"]
    ended = CliRunner().invoke(app, [*command, *options, "--ios-mode", "exhaustive"])
    assert ended.exit_code == ExitCode.OK, ended.output
    [search] = [
        result["search"]
        for result in json.loads(ended.stdout)["results"]
        if result["scheduler"] == "ios"
    ]
    # a, b, c, a b, a c, b c, and a b c, where c joins a and b
    assert search["stages_total"] == 7


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--ios-gap", "1", "less than 1"),
        ("--ios-mode", "quick", "guided"),
        ("--ios-threads", "2", "searched"),
    ],
)
def test_a_wrong_option_of_ios_is_a_usage_error(option: str, value: str, words: str) -> None:
    ended = CliRunner().invoke(app, ["schedule", "zoo:squeezenet", option, value])
    assert ended.exit_code == ExitCode.USAGE
    assert words in ended.stderr
