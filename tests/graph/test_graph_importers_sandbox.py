"""Imports end to end, and what becomes of models that do their worst with what they may do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import support.hostile
import torch
from support.hostile import answering, infect
from support.models import export_branches

from workers.graph.importers import import_model, reference_outputs
from workers.graph.importers.catalog import FORMATS
from workers.graph.importers.sandbox import MAX_DETAIL, Answer, SandboxLimits, parse_result
from workers.graph.importers.source import ImportFailure, ModelFile, ZooModel
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs

LIMITS = SandboxLimits(memory_bytes=4 << 30, seconds=120)


@pytest.fixture(scope="module")
def innocent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("innocent") / "model.pt2"
    export_branches(path)
    return path


def failure(path: Path, workdir: Path, limits: SandboxLimits = LIMITS) -> ImportFailure:
    with pytest.raises(ImportFailure) as raised:
        import_model(ModelFile(path, "pt2"), 2, workdir, limits)
    assert list(workdir.iterdir()) == [], "the sandbox's files are still there"
    return raised.value


def test_an_imported_graph_computes_what_the_original_does(innocent: Path, tmp_path: Path) -> None:
    source = ModelFile(innocent, "pt2")
    model = import_model(source, 2, tmp_path / "work", LIMITS)
    assert "limits" in model.isolation
    seeds = [3, 4]
    references = reference_outputs(source, 2, seeds, tmp_path / "work", LIMITS)
    assert len(references) == 2
    assert not torch.equal(references[0]["output_0"], references[1]["output_0"])
    for seed, expected in zip(seeds, references, strict=True):
        inputs = random_inputs(model.graph, seed)
        outputs = run_graph(model.graph, model.weights, inputs)
        torch.testing.assert_close(outputs[model.graph.outputs[0]], expected["output_0"])


def test_importing_needs_no_torch_until_it_imports() -> None:
    code = "import sys, workers.graph.importers; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert "pt2" in FORMATS


def test_an_unknown_model_of_the_zoo_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImportFailure, match=r"no model 'resnet-9000'; it has .*squeezenet"):
        import_model(ZooModel("resnet-9000"), 1, tmp_path / "work", LIMITS)


def test_an_unknown_format_is_named(innocent: Path, tmp_path: Path) -> None:
    with pytest.raises(ImportFailure, match="format 'exe'"):
        import_model(ModelFile(innocent, "exe"), 1, tmp_path / "work", LIMITS)


def test_an_unsupported_operator_is_named(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svd(x.relu())[1]

    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Model(), (torch.zeros(2, 4),)), path)
    found = failure(path, tmp_path / "work")
    assert found.kind == "unsupported_operator"
    assert "svd" in found.detail
    assert found.operator


@pytest.mark.parametrize("length", [0, 1000])
def test_a_truncated_file_is_malformed(innocent: Path, tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(innocent.read_bytes()[:length])
    found = failure(path, tmp_path / "work")
    assert found.kind == "malformed"
    assert "cut off" in found.detail


def test_a_path_traversal_is_malformed(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../etc/cron.d/x", b"")
    found = failure(path, tmp_path / "work")
    assert found.kind == "malformed"
    assert "'../../etc/cron.d/x'" in found.detail


def test_a_zip_bomb_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/archive_format", bytes(64 << 20))
    assert failure(path, tmp_path / "work").kind == "too_large"


def test_a_sleeper_is_killed_with_all_that_it_started(innocent: Path, tmp_path: Path) -> None:
    code = """
import os, time
try:
    os.setsid()
    os.fork()
except OSError:
    pass
time.sleep(600)
"""
    path = infect(innocent, tmp_path / "model.pt2", code)
    started = time.monotonic()
    found = failure(path, tmp_path / "work", SandboxLimits(4 << 30, seconds=5))
    assert found.kind == "timeout"
    assert "5 s" in found.detail
    assert time.monotonic() - started < 10
    assert _processes_of(tmp_path) == []


def test_the_sandbox_ends_with_whoever_started_it(innocent: Path, tmp_path: Path) -> None:
    path = infect(innocent, tmp_path / "model.pt2", "import time; time.sleep(600)")
    script = Path(support.hostile.__file__)
    environment = {**os.environ, "PYTHONPATH": str(script.parents[2])}
    command = [sys.executable, str(script), str(path), str(tmp_path / "work"), str(tmp_path / "h")]
    with subprocess.Popen(command, env=environment) as starter:
        wait_until(lambda: bool(_processes_of(tmp_path)))
        starter.kill()
    wait_until(lambda: not _processes_of(tmp_path))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _processes_of(directory: Path) -> list[int]:
    def home(process: psutil.Process) -> str:
        try:
            return process.environ().get("HOME", "")
        except psutil.Error:
            return ""

    return [p.pid for p in psutil.process_iter() if home(p).startswith(str(directory))]


def test_a_memory_hog_runs_out_of_it(innocent: Path, tmp_path: Path) -> None:
    path = infect(innocent, tmp_path / "model.pt2", "x = bytearray(2 << 30)")
    found = failure(path, tmp_path / "work", SandboxLimits(1 << 30, seconds=120))
    assert found.kind == "out_of_memory"
    assert "1.0 GiB" in found.detail


def test_a_crash_is_named(innocent: Path, tmp_path: Path) -> None:
    path = infect(innocent, tmp_path / "model.pt2", "import ctypes; ctypes.string_at(0)")
    found = failure(path, tmp_path / "work")
    assert found.kind == "crashed"
    assert "Segmentation fault" in found.detail


SWAPPED = "Path(os.environ['TMPDIR'], 'graph.json').mkdir()"
NONSENSE = """
scratch = Path(os.environ["TMPDIR"])
scratch.joinpath("graph.json").write_text("{}")
scratch.joinpath("weights.safetensors").write_bytes(b"no tensors")
"""


@pytest.mark.parametrize(
    ("code", "reason"),
    [(SWAPPED, "its graph.json is not a plain file"), (NONSENSE, "is no graph")],
    ids=["swapped", "nonsense"],
)
def test_a_garbled_answer_is_refused(
    innocent: Path, tmp_path: Path, code: str, reason: str
) -> None:
    path = infect(innocent, tmp_path / "model.pt2", answering(code, "{}"))
    found = failure(path, tmp_path / "work")
    assert found.kind == "crashed"
    assert reason in found.detail


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff", b"[" * 100_000, b"[]", b'{"failure": 1}', b'{"failure": {"kind": "mine"}}'],
)
def test_a_garbled_result_is_a_crash(text: bytes) -> None:
    with pytest.raises(ImportFailure) as raised:
        parse_result(text)
    assert raised.value.kind == "crashed"


def test_what_a_failure_says_is_one_bounded_line() -> None:
    told = {"kind": "malformed", "detail": "<b>\n" * 1000, "operator": "a\x1b[31m"}
    with pytest.raises(ImportFailure) as raised:
        parse_result(json.dumps({"failure": told}).encode())
    assert raised.value.kind == "malformed"
    assert raised.value.detail.isprintable()
    assert len(raised.value.detail) <= MAX_DETAIL
    assert raised.value.operator == "a [31m"


@pytest.fixture
def answer(tmp_path: Path) -> Answer:
    return Answer({}, tmp_path, ())


def test_an_answer_s_files_are_plain_and_bounded(answer: Answer) -> None:
    path = answer.scratch / "file"
    path.write_bytes(bytes(10))
    assert answer.file("file", 10) == path
    with pytest.raises(ImportFailure, match="10 bytes") as raised:
        answer.file("file", 9)
    assert raised.value.kind == "too_large"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/passwd")])
def test_an_answer_s_other_files_are_refused(answer: Answer, make: Any) -> None:
    make(answer.scratch / "file")
    with pytest.raises(ImportFailure, match="its file is not a plain file"):
        answer.file("file", 10)


def test_an_answer_s_hard_links_are_refused(answer: Answer, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x")
    (tmp_path / "file").hardlink_to(tmp_path / "other")
    with pytest.raises(ImportFailure, match="its file is not a plain file"):
        answer.file("file", 10)
