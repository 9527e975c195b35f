"""``plait tune`` and ``plait resume`` against a real API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session, sessionmaker
from support import rows, tuning_records
from support.onnx_models import convolutions, written
from support.tuning_records import MATMUL, kernel_record, round_record, trial
from typer.testing import CliRunner, Result

from backend.cli.exits import ExitCode
from backend.cli.main import app
from backend.cli.tune import program_of
from backend.jobs.kernel_options import KernelProgram
from backend.jobs.schemas import JobProblem
from backend.settings import Settings, get_settings
from backend.storage import Storage
from workers.runner.tuning import named_programs
from workers.runner.tuning_store import TuningStore
from workers.tuning.targets import target

Run = Callable[..., Result]
Sessions = sessionmaker[Session]
SMALL = "matmul:rows=32,inner=32,columns=32"


@pytest.fixture
def plait(
    server: str,
    settings: Settings,
    token: Callable[..., str],
    sessions: Sessions,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Run]:
    """Runs a command on a service with a device that tunes kernels and reads ONNX."""
    offered = {**tuning_records.capabilities(), "formats": ["onnx"]}
    with sessions() as session, session.begin():
        session.add(rows.device(capabilities=offered))
    monkeypatch.setenv("PLAIT_URL", server)
    monkeypatch.setenv("PLAIT_TOKEN", token("write", "upload"))
    monkeypatch.setenv("PLAIT_HOME", str(settings.home))
    get_settings.cache_clear()
    yield lambda *arguments: CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    get_settings.cache_clear()


def queued(plait: Run, *arguments: str) -> dict[str, Any]:
    made = plait("tune", *arguments, "--json")
    assert made.exit_code == ExitCode.OK, made.output
    found: dict[str, Any] = json.loads(made.stdout)
    return found


def test_programs_are_named_by_workload_or_by_sizes(plait: Run) -> None:
    options = ("--tuner", "grid", "--measurer", "naive", "--degree", "2", "--trials", "8", "--cold")
    job = queued(plait, "matmul.gpt2_attention", SMALL, *options)
    assert (job["spec"]["purpose"], job["spec"]["model"]) == ("kernels", None)
    kernels = job["spec"]["kernels"]
    workload, sized = kernels["programs"]
    assert workload["workload"] == "matmul.gpt2_attention"
    assert (sized["family"], sized["sizes"]) == (
        "matmul",
        {"rows": 32, "inner": 32, "columns": 32},
    )
    assert (kernels["tuner"], kernels["trials"], kernels["cold"]) == ("grid", 8, True)
    assert (kernels["measurer"]["kind"], kernels["measurer"]["degree"]) == ("naive", 2)
    listed = json.loads(plait("jobs", "--purpose", "kernels", "--json").stdout)
    assert [entry["id"] for entry in listed["items"]] == [job["id"]]
    assert json.loads(plait("jobs", "--purpose", "tune", "--json").stdout)["items"] == []


def test_a_models_file_is_uploaded(plait: Run, tmp_path: Path) -> None:
    job = queued(plait, str(written(convolutions(), tmp_path)))
    assert job["spec"]["model"].startswith("upload:")
    assert job["spec"]["kernels"]["programs"] == []
    assert queued(plait, "zoo:squeezenet")["spec"]["model"] == "zoo:squeezenet"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["matmul.gpt2_atention"], ExitCode.REFUSED, "perhaps matmul.gpt2_attention"),
        (["matmul.gpt2_attention", "--tuner", "gird"], ExitCode.REFUSED, "perhaps grid"),
        (["matmul:rows=x"], ExitCode.USAGE, "FAMILY:SIZE=N"),
        (["zoo:squeezenet", SMALL], ExitCode.USAGE, "tune it alone"),
        (["missing.onnx"], ExitCode.USAGE, "no such file"),
        ([SMALL, "--trials", "0"], ExitCode.USAGE, "--trials"),
        ([SMALL, "--measurer", "best"], ExitCode.USAGE, "--measurer"),
    ],
)
def test_what_cannot_be_tuned_is_refused_with_words(
    plait: Run, words: list[str], code: ExitCode, said: str
) -> None:
    refused = plait("tune", *words)
    assert refused.exit_code == code
    assert said in refused.stderr


def test_sizes_may_be_left_out() -> None:
    assert program_of("conv2d_nchw:") == {"family": "conv2d_nchw", "sizes": {}}
    assert program_of("lstm_cell:batch=2") == {"family": "lstm_cell", "sizes": {"batch": 2}}
    with pytest.raises(ValueError, match="integers"):
        program_of("lstm_cell:batch")


def test_a_finished_job_shows_its_programs_and_one_that_failed_is_resumed(
    plait: Run, sessions: Sessions, settings: Settings, tmp_path: Path
) -> None:
    job = queued(plait, SMALL, "--trials", "2", "--tuner", "grid")["id"]
    store = tuning_records.claimed(sessions, Storage(settings.storage_url))
    store.enter_tuning()
    records = TuningStore(store)
    wanted = [KernelProgram(family="matmul", sizes=dict(MATMUL.sizes))]
    records.begin(named_programs(wanted), target({"kind": "llvm"}))
    best = trial(1, 0.5)
    records.round(round_record(1, best, trial(2, None)), tuning_records.progress(2))
    archive = tmp_path / "matmul-kernel.zip"
    archive.write_bytes(b"a zip")
    records.kernel(kernel_record(best, tmp_path / "kernel.so"), archive)
    store.fail(JobProblem(kind="build", detail="the disk is full"))

    shown = plait("watch", job)
    assert shown.exit_code == ExitCode.JOB_FAILED
    # A narrow terminal breaks the program's name over lines.
    assert "matmul 32x32" in shown.stdout
    assert "0.5 ms" in shown.stdout
    assert "the disk is full; 2 of 2 trials in 1 rounds; failed: 1 timeout" in shown.stdout
    found = json.loads(plait("result", job, "--json").stdout)
    assert found["tuning"]["programs"][0]["best_ms"] == 0.5
    assert [kernel["candidate"] for kernel in found["kernels"]] == [best.candidate]

    assert json.loads(plait("resume", job, "--json").stdout)["state"] == "queued"
    refused = plait("resume", job)
    assert (refused.exit_code, "cannot resume" in refused.stderr) == (ExitCode.REFUSED, True)
