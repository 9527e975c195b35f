"""A job for kernels that two workers measure, through the whole stack: the other one is a measuring
worker, a process of its own that is killed in the middle."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from pydantic import SecretStr
from support.kernels import small_matmul, small_space
from support.measuring_hosts import measuring_worker
from support.services import libpq_url

from backend.db.session import create_sync_sessions
from backend.settings import Settings
from end_to_end.conftest import Stack
from workers.tuning.targets import named_target
from workers.tuning.tuners.catalog import open_tuner

pytest.importorskip("tvm")

Database = psycopg.Connection[tuple[Any, ...]]
HERE, OTHER = "cpu", "cpu@other"
TRIALS = 8
PROGRAM = small_matmul(256)  # large enough that one candidate takes some time to measure
KERNELS = {
    "programs": [{"family": PROGRAM.family, "sizes": dict(PROGRAM.sizes)}],
    "tuner": "grid",
    "trials": TRIALS,
    "batch_size": TRIALS,
    "measurer": {"kind": "serial"},
    "hosts": "all",
}


def submitted(stack: Stack) -> str:
    wanted = {"purpose": "kernels", "device": "cpu", "kernels": KERNELS}
    with stack.client() as client:
        return str(client.post("/jobs", json=wanted).raise_for_status().json()["id"])


@pytest.fixture
def database(stack: Stack) -> Iterator[Database]:
    with psycopg.connect(libpq_url(stack.database_url), autocommit=True) as connection:
        yield connection


def trials(database: Database, job: str) -> list[tuple[Any, ...]]:
    query = "SELECT trial, candidate, failure FROM tuning_trial WHERE job_id = %s ORDER BY trial"
    return database.execute(query, [job]).fetchall()


def orders(database: Database) -> dict[str, int]:
    """How many there are in each state."""
    query = "SELECT state, count(*) FROM measuring_order GROUP BY state"
    return dict(database.execute(query).fetchall())


def measured_on(database: Database, job: str) -> set[str]:
    """The devices that measured something."""
    query = "SELECT spans FROM tuning_round WHERE job_id = %s"
    rounds = [spans for (spans,) in database.execute(query, [job])]
    return {span["device"] for spans in rounds for span in spans if span["kind"] != "build"}


def proposed() -> list[str]:
    """What a job that nothing happens to records, in order."""
    tuner = open_tuner("grid", small_space(PROGRAM, named_target("llvm")), seed=1)
    return [candidate.key for candidate in tuner.propose(TRIALS)]


def wait_until(happened: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_job_is_measured_on_two_hosts_and_loses_nothing_when_one_is_killed(
    stack: Stack, database: Database, tmp_path: Path
) -> None:
    run = json.loads(Path(stack.environment["PLAIT_HOME"], "run.json").read_text())
    settings = Settings(database_url=SecretStr(stack.database_url))
    environment = {
        **stack.environment,
        "DATABASE_URL": stack.database_url,
        "REDIS_URL": run["redis_url"],
    }
    sessions = create_sync_sessions(settings)
    with measuring_worker(environment, sessions, tmp_path / "other.log") as other:
        job = submitted(stack)
        expected = proposed()  # while the job starts
        wait_until(lambda: orders(database).get("done", 0) >= 1 and "claimed" in orders(database))
        below = psutil.Process(other.pid).children(recursive=True)
        assert any("workers.measure.parallel.worker" in child.cmdline() for child in below)
        other.send_signal(signal.SIGKILL)
        left_behind = orders(database)
        finished = stack.wait_for(job, "succeeded", seconds=120)
    sessions.kw["bind"].dispose()
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not alive, "a measuring process outlived its worker"
    assert left_behind["claimed"] >= 1
    assert finished["attempt"] == 1
    assert trials(database, job) == [
        (trial, candidate, None) for trial, candidate in enumerate(expected, 1)
    ]
    assert measured_on(database, job) == {HERE, OTHER}
    with stack.client() as client:
        logged = [event["data"] for event in client.get(f"/jobs/{job}/events").json()]
    assert any(data.get("message") == f"measures also on {OTHER}" for data in logged)
    wait_until(lambda: not orders(database), seconds=15)  # swept
    assert not [*Path(stack.environment["PLAIT_HOME"], "storage", "measuring").rglob("*.npz")]
