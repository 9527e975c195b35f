"""A job for kernels that two workers measure, through the whole stack: the other one is a measuring
worker, a process of its own that is killed in the middle."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from pydantic import SecretStr
from support.measuring_hosts import measuring_worker
from support.services import libpq_url

from backend.db.session import create_sync_sessions
from backend.settings import Settings
from end_to_end.conftest import Stack

pytest.importorskip("tvm")

HERE, OTHER = "cpu", "cpu@other"
TRIALS = 12
KERNELS = {
    # Large enough that one candidate takes some time to measure.
    "programs": [{"family": "matmul", "sizes": {"rows": 256, "inner": 256, "columns": 256}}],
    "tuner": "grid",
    "trials": TRIALS,
    "batch_size": 6,
    "measurer": {"kind": "serial"},
}


def submitted(stack: Stack, **kernels: Any) -> str:
    wanted = {"purpose": "kernels", "device": "cpu", "kernels": {**KERNELS, **kernels}}
    with stack.client() as client:
        return str(client.post("/jobs", json=wanted).raise_for_status().json()["id"])


def asked(stack: Stack, query: str, *values: object) -> list[Any]:
    with psycopg.connect(libpq_url(stack.database_url)) as connection:
        return connection.execute(query, values).fetchall()  # type: ignore[arg-type]


def trials(stack: Stack, job: str) -> list[tuple[int, str, str | None]]:
    query = "SELECT trial, candidate, failure FROM tuning_trial WHERE job_id = %s ORDER BY trial"
    return asked(stack, query, job)


def orders(stack: Stack) -> dict[str, int]:
    """How many there are in each state."""
    return dict(asked(stack, "SELECT state, count(*) FROM measuring_order GROUP BY state"))


def measured_on(stack: Stack, job: str) -> dict[int, set[str]]:
    """The devices that measured each round."""
    rounds = asked(stack, "SELECT number, spans FROM tuning_round WHERE job_id = %s", job)
    return {
        number: {span["device"] for span in spans if span["kind"] != "build"}
        for number, spans in rounds
    }


def wait_until(happened: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_job_is_measured_on_two_hosts_and_loses_nothing_when_one_is_killed(
    stack: Stack, tmp_path: Path
) -> None:
    run = json.loads(Path(stack.environment["PLAIT_HOME"], "run.json").read_text())
    settings = Settings(database_url=SecretStr(stack.database_url))
    environment = {
        **stack.environment,
        "DATABASE_URL": stack.database_url,
        "REDIS_URL": run["redis_url"],
    }
    alone = submitted(stack, hosts="own")
    sessions = create_sync_sessions(settings)
    with measuring_worker(environment, sessions, tmp_path / "other.log") as other:
        stack.wait_for(alone, "succeeded", seconds=120)
        job = submitted(stack, hosts="all")
        wait_until(lambda: orders(stack).get("done", 0) >= 3 and "claimed" in orders(stack))
        below = psutil.Process(other.pid).children(recursive=True)
        assert any("workers.measure.parallel.worker" in child.cmdline() for child in below)
        other.send_signal(signal.SIGKILL)
        left_behind = orders(stack)
        finished = stack.wait_for(job, "succeeded", seconds=120)
    sessions.kw["bind"].dispose()
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not alive, "a measuring process outlived its worker"
    assert left_behind["claimed"] >= 1
    assert finished["attempt"] == 1
    assert trials(stack, job) == trials(stack, alone)
    assert [trial for trial, *_ in trials(stack, job)] == [*range(1, TRIALS + 1)]
    assert set().union(*measured_on(stack, job).values()) == {HERE, OTHER}
    assert set().union(*measured_on(stack, alone).values()) == {HERE}
    with stack.client() as client:
        logged = [event["data"] for event in client.get(f"/jobs/{job}/events").json()]
    assert any(data.get("message") == f"measures also on {OTHER}" for data in logged)
    wait_until(lambda: not orders(stack), seconds=15)  # swept
    assert not [*Path(stack.environment["PLAIT_HOME"], "storage", "measuring").rglob("*.npz")]
