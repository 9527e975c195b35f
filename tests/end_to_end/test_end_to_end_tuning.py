"""Jobs that tune kernels, through the whole stack: rounds in PostgreSQL, kernels that run, and what
is killed or stopped goes on to the same records."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import psycopg
import pytest
from support.services import libpq_url
from support.tuning_records import CONVOLUTION, MATMUL, spec

from end_to_end.conftest import Stack
from workers.tuning.programs import catalog

pytest.importorskip("tvm")

TRIALS = 40
SPEC = spec(trials=TRIALS, batch_size=TRIALS // 2)
"""Each program is one batch, of several rounds: there are some left to stop after."""


def stored(stack: Stack, job: str) -> list[tuple[int, str, str, int]]:
    """Every trial's number, program, candidate and round, in order."""
    query = (
        "SELECT trial, program, candidate, round FROM tuning_trial WHERE job_id = %s ORDER BY trial"
    )
    with psycopg.connect(libpq_url(stack.database_url)) as connection:
        return [tuple(row) for row in connection.execute(query, [job])]


def rounds(stack: Stack, job: str) -> dict[int, tuple[Any, ...]]:
    """All that PostgreSQL has of each round, when it was written included."""
    query = "SELECT number, t.* FROM tuning_round t WHERE job_id = %s ORDER BY number"
    with psycopg.connect(libpq_url(stack.database_url)) as connection:
        return {row[0]: row[1:] for row in connection.execute(query, [job])}


def attempts(stack: Stack, job: str) -> list[int]:
    query = "SELECT DISTINCT attempt FROM tuning_round WHERE job_id = %s ORDER BY attempt"
    with psycopg.connect(libpq_url(stack.database_url)) as connection:
        return [row[0] for row in connection.execute(query, [job])]


def submitted(stack: Stack) -> str:
    with stack.client() as client:
        made = client.post("/jobs", json=SPEC)
    return str(made.raise_for_status().json()["id"])


@pytest.fixture(scope="module")
def whole(stack: Stack) -> str:
    """A job that nothing interrupts."""
    job = submitted(stack)
    stack.wait_for(job, "succeeded", seconds=120)
    return job


def wait_until(happened: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def command(process: psutil.Process) -> list[str]:
    """Nothing of a process that has just ended."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def descendants(stack: Stack, word: str) -> list[psutil.Process]:
    """Of the stack, those whose command line has the word."""
    below = psutil.Process(stack.process.pid).children(recursive=True)
    return [process for process in below if word in command(process)]


def kill_in_the_middle(stack: Stack, process: psutil.Process) -> None:
    """With SIGKILL; all that build and measure for it end too."""
    below = process.children(recursive=True)
    assert any("workers.tuning.kernels.builder" in command(child) for child in below)
    process.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not alive, "a building or measuring process outlived its job"


def test_a_job_tunes_two_programs_and_its_rounds_are_in_the_database(
    stack: Stack, whole: str
) -> None:
    with stack.client() as client:
        tuning = client.get(f"/jobs/{whole}/tuning").json()
        events = client.get(f"/jobs/{whole}/events").json()
        history = client.get(f"/jobs/{whole}/tuning/rounds").json()
    assert [program["program"] for program in tuning["programs"]] == [MATMUL.key, CONVOLUTION.key]
    assert (tuning["trials"], tuning["trials_wanted"], tuning["ended"]) == (
        TRIALS,
        TRIALS,
        "complete",
    )
    assert tuning["tuned"] is True
    assert tuning["rounds"] == len(history) == len(rounds(stack, whole))
    assert [row["number"] for row in history] == list(range(1, len(history) + 1))
    assert history[0]["degree_of_parallelism"] == 1
    assert all(row["lower"] <= row["upper"] for row in history)
    told = [event["data"]["number"] for event in events if event["type"] == "tuning_round"]
    assert told == [row["number"] for row in history]
    assert {event["type"] for event in events} >= {"state", "progress", "tuning_kernel"}
    states = [event["data"]["state"] for event in events if event["type"] == "state"]
    assert states == ["queued", "importing", "tuning", "verifying", "succeeded"]
    trials = stored(stack, whole)
    assert [row[0] for row in trials] == list(range(1, TRIALS + 1))
    assert len({(row[1], row[2]) for row in trials}) == TRIALS


def test_a_downloaded_kernel_computes_its_program(stack: Stack, whole: str, tmp_path: Path) -> None:
    with stack.client() as client:
        kernels = client.get(f"/jobs/{whole}/tuning/kernels").json()
        (kernel,) = [one for one in kernels if one["program"] == MATMUL.key]
        path = tmp_path / kernel["filename"]
        path.write_bytes(
            client.get(f"/jobs/{whole}/tuning/kernels/{kernel['candidate']}/download").content
        )
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "kernel")
    generator = np.random.default_rng(0)
    left, right = generator.standard_normal((2, 32, 32), np.float32)
    names = [tensor.name for tensor in catalog.inputs(MATMUL)]
    np.savez(tmp_path / "in.npz", **dict(zip(names, (left, right), strict=True)))
    run = subprocess.run(
        [sys.executable, tmp_path / "kernel" / "run.py", "--bench", "--inputs",
         tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "median of" in run.stdout
    with np.load(tmp_path / "out.npz") as found:
        (product,) = found.values()
    np.testing.assert_allclose(product, left @ right, rtol=1e-4, atol=1e-4)
    assert "@T.prim_func" in (tmp_path / "kernel" / "tir.py").read_text()
    assert kernel["source"] == (tmp_path / "kernel" / "source.ll").read_text()


def test_what_is_killed_or_stopped_goes_on_to_the_same_records(stack: Stack, whole: str) -> None:
    """SIGKILL of the job's process, SIGKILL of its worker, then a stop and a resumption."""
    expected = [row[:3] for row in stored(stack, whole)]
    job = submitted(stack)
    kept: list[dict[int, tuple[Any, ...]]] = []

    def wait_for_a_round() -> None:
        seen = max(rounds(stack, job), default=0)
        wait_until(lambda: max(rounds(stack, job), default=0) > seen)

    wait_for_a_round()
    (child,) = descendants(stack, "workers.runner.child")
    kill_in_the_middle(stack, child)
    kept.append(rounds(stack, job))

    wait_for_a_round()
    (worker,) = descendants(stack, "workers")
    kill_in_the_middle(stack, worker)
    kept.append(rounds(stack, job))

    wait_for_a_round()
    with stack.client() as client:
        assert client.post(f"/jobs/{job}/cancel").json()["state"] == "cancelling"
        stack.wait_for(job, "cancelled", seconds=30)
        kept.append(rounds(stack, job))
        assert len(stored(stack, job)) < len(expected), "it was over before it was stopped"
        assert not descendants(stack, "workers.tuning.kernels.builder")
        assert stack.plait("resume", job).returncode == 0
        finished = stack.wait_for(job, "succeeded", seconds=120)
        tuning = client.get(f"/jobs/{job}/tuning").json()
    assert finished["problem"] is None
    assert [row[:3] for row in stored(stack, job)] == expected
    assert attempts(stack, job) == [1, 2, 3]
    ended = rounds(stack, job)
    assert list(ended) == list(range(1, len(ended) + 1))
    for earlier in kept:
        assert all(ended[number] == row for number, row in earlier.items())
    assert (tuning["trials"], tuning["ended"], tuning["tuned"]) == (TRIALS, "complete", True)
