"""The artifact, unpacked and run by a Python that sees nothing of Plait."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support.graphs import SIDE, graph_of, wide
from torch import Tensor

from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.graph.serialize import graph_hash
from workers.schedules import run
from workers.schedules.artifact import write_artifact
from workers.schedules.lower import lower
from workers.schedules.schedule import ScheduleKey, Stage, StageSchedule, schedule_from_json

GRAPH = graph_of(wide(3), "model")
WEIGHTS = {"w": torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(1)) / 3}
SCHEDULE = StageSchedule(
    "ios", (Stage((("u0",),)), Stage((("u1",), ("u2", "u3"))), Stage((("u4",),)))
)
KEY = ScheduleKey(graph_hash(GRAPH), "cpu-1", "float32", 1, {"torch": torch.__version__})


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """The unpacked artifact."""
    path = tmp_path / "model.zip"
    plan = lower(SCHEDULE, GRAPH, 2)
    write_artifact(path, GRAPH, WEIGHTS, SCHEDULE, KEY, plan, {"latency_ms": 1.5}, parallelism=2)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    return tmp_path / "unpacked"


def execute(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "run.py", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def change(path: Path, edit: Any) -> None:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def test_it_holds_what_it_says_and_leaves_nothing_beside_it(artifact: Path) -> None:
    files = sorted(str(path.relative_to(artifact)) for path in artifact.rglob("*.*"))
    assert files == [
        "README.txt", "model/graph.json", "model/weights.safetensors", "run.py", "schedule.json",
    ]  # fmt: skip
    assert sorted(path.name for path in artifact.parent.iterdir()) == ["model.zip", "unpacked"]
    document = json.loads((artifact / "schedule.json").read_text())
    assert schedule_from_json(document) == (SCHEDULE, KEY)
    assert document["summary"] == {"latency_ms": 1.5}
    assert "scheduled by Plait (ios, batch size 1)" in (artifact / "README.txt").read_text()


@pytest.mark.parametrize("order", [(), ("--sequential",)], ids=["schedule", "sequential"])
def test_it_computes_what_the_interpreter_does(artifact: Path, order: tuple[str, ...]) -> None:
    inputs = random_inputs(GRAPH, 7)
    torch.save(inputs, artifact / "in.pt")
    finished = execute(artifact, "--input", "in.pt", "--output", "out.pt", *order)
    assert finished.stdout == "u4: float32 (8, 8)\n", finished.stderr
    outputs: dict[str, Tensor] = torch.load(artifact / "out.pt")
    expected = run_graph(GRAPH, WEIGHTS, inputs)
    assert outputs.keys() == expected.keys()
    torch.testing.assert_close(outputs["u4"], expected["u4"])


def test_random_inputs_are_those_of_its_seed(artifact: Path) -> None:
    assert execute(artifact, "--seed", "3", "--output", "out.pt").returncode == 0
    expected = run_graph(GRAPH, WEIGHTS, random_inputs(GRAPH, 3))
    torch.testing.assert_close(torch.load(artifact / "out.pt")["u4"], expected["u4"])


def test_bench_prints_both_medians(artifact: Path) -> None:
    finished = execute(artifact, "--bench", "--repeats", "5")
    assert [line.split()[0] for line in finished.stdout.splitlines()] == [
        "schedule", "sequential", "speed-up",
    ]  # fmt: skip


def test_it_can_be_imported_and_needs_only_torch(artifact: Path) -> None:
    code = (
        "import sys, torch; from run import load; model = load(); x = torch.ones(8, 8);"
        "assert torch.equal(model(x)['u4'], model(x=x, sequential=True)['u4']);"
        "assert not {'workers', 'safetensors', 'networkx'} & set(sys.modules)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=artifact, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize(
    ("file", "edit", "words"),
    [
        ("schedule.json", lambda d: d.update(version=9), "is plait.schedule 9"),
        ("model/graph.json", lambda d: d.update(format="onnx"), "is onnx 1"),
        ("model/graph.json", lambda d: d["weights"].append("w9"), "has no weight 'w9'"),
    ],
)
def test_files_of_another_kind_are_refused(
    artifact: Path, file: str, edit: Any, words: str
) -> None:
    change(artifact / file, edit)
    with pytest.raises(run.ArtifactError, match=words):
        run.load(artifact)


def test_the_command_line_tells_errors_in_one_line(artifact: Path) -> None:
    (artifact / "schedule.json").write_text("{")
    finished = execute(artifact)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: ")
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("os.system.default", "'os.system.default' is not allowed"),
        ("aten.from_file.default", "is not allowed"),
        ("aten.relu_.default", "changes its operands"),
        ("aten.nothing.default", "has no operator 'aten.nothing.default'"),
    ],
)
def test_operators_that_do_more_than_compute_are_refused(
    artifact: Path, target: str, words: str
) -> None:
    def edit(data: Any) -> None:
        data["units"][1]["operators"][0]["target"] = target

    change(artifact / "model" / "graph.json", edit)
    with pytest.raises(run.ArtifactError, match=words):
        run.load(artifact)


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02" + bytes(7) + b"{}"])
def test_broken_weights_are_refused(artifact: Path, content: bytes) -> None:
    (artifact / "model" / "weights.safetensors").write_bytes(content)
    with pytest.raises(run.ArtifactError, match=r"weights\.safetensors"):
        run.load(artifact)


def test_offsets_outside_the_weights_are_refused(artifact: Path) -> None:
    path = artifact / "model" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(run.ArtifactError, match="do not fit shape"):
        run.load(artifact)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
    ],
)
def test_safetensors_of_every_type(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {
        "matrix": torch.arange(6).reshape(2, 3).to(dtype),
        "scalar": torch.tensor(1).to(dtype),
        "empty": torch.empty(0, 4, dtype=dtype),
    }
    save_file(tensors, tmp_path / "t.safetensors")
    read = run.read_safetensors(tmp_path / "t.safetensors")
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


@pytest.mark.timeout(60)
def test_a_unit_that_fails_is_named_and_nothing_hangs(artifact: Path) -> None:
    def edit(data: Any) -> None:
        data["units"][3]["operators"][0]["arguments"][1] = {"value": "x"}
        data["units"][3]["operators"][0]["arguments"][0] = 1.0

    change(artifact / "model" / "graph.json", edit)
    model = run.load(artifact)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="unit 'u3' failed"):
            model(torch.ones(SIDE, SIDE))


def test_wrong_inputs_are_named(artifact: Path) -> None:
    model = run.load(artifact)
    with pytest.raises(ValueError, match="input 'x' is missing; inputs: x"):
        model()
    with pytest.raises(ValueError, match=r"the model takes torch.float32 \(8, 8\)"):
        model(torch.ones(1))


def test_it_runs_on_fewer_cores_than_it_was_made_for(artifact: Path) -> None:
    plan = lower(SCHEDULE, GRAPH, 16)
    path = artifact / "wide.zip"
    write_artifact(path, GRAPH, WEIGHTS, SCHEDULE, KEY, plan, {}, parallelism=16)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(artifact)
    inputs = random_inputs(GRAPH, 0)
    outputs = run.load(artifact)(**inputs)
    torch.testing.assert_close(outputs["u4"], run_graph(GRAPH, WEIGHTS, inputs)["u4"])


def test_special_arguments_are_decoded() -> None:
    unit = {
        "operators": [
            {
                "target": "aten.full.default",
                "arguments": [[2], {"float": "-inf"}],
                "keywords": {"dtype": {"dtype": "float64"}},
                "outputs": ["f"],
            },
            {
                "target": "aten.cat.default",
                "arguments": [[{"value": "f"}, {"value": "x"}], 0],
                "keywords": {},
                "outputs": ["c"],
            },
            {
                "target": "aten.split.Tensor",
                "arguments": [{"value": "c"}, 2],
                "keywords": {},
                "outputs": ["a", "b"],
            },
        ],
        "outputs": ["a", "b"],
    }
    values = {"x": torch.ones(2, dtype=torch.float64)}
    run.compile_unit(unit)(values)
    assert values["a"].tolist() == [-torch.inf, -torch.inf]
    assert values["b"].tolist() == [1.0, 1.0]
    assert "c" not in values
