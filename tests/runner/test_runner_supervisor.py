"""The supervisor with a real child process, on a real PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import psutil
import pytest
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import Job
from backend.jobs.gate import change, lock
from backend.jobs.schemas import JobSpec
from backend.jobs.states import JobAction, JobState
from backend.settings import Settings
from workers.runner.child import SIMULATIONS_YIELD
from workers.runner.supervisor import Supervisor

Sessions = sessionmaker[Session]
AddJob = Callable[..., UUID]


@pytest.fixture
def environment(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The child reads its settings from the environment, as it does in a worker."""
    monkeypatch.setenv("PLAIT_HOME", str(settings.home))
    monkeypatch.setenv("DATABASE_URL", settings.database_url.get_secret_value())
    monkeypatch.setenv("REDIS_URL", settings.redis_url.get_secret_value())
    return settings


@pytest.fixture
def add_job(sessions: Sessions) -> AddJob:
    def add(model: str, **spec: Any) -> UUID:
        wanted = JobSpec(model=model, **spec)
        with sessions() as session, session.begin():
            job = Job(
                id=uuid4(),
                name="",
                model_name=model,
                spec=wanted.model_dump(),
                device=wanted.device,
                purpose=wanted.purpose,
                state=JobState.QUEUED,
                progress={},
            )
            session.add(job)
            return job.id

    return add


def supervisor(settings: Settings, sessions: Sessions) -> Supervisor:
    return Supervisor(settings, sessions, lambda event: None, "test")


def read(sessions: Sessions, job: UUID) -> Job:
    with sessions(expire_on_commit=False) as session:
        return session.get_one(Job, job)


def children() -> list[psutil.Process]:
    return [one for one in psutil.Process().children(recursive=True) if is_job(one)]


def is_job(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # it may end at any moment
        return "workers.runner.child" in process.cmdline()
    return False


def wait_for_child() -> None:
    wait_until(lambda: bool(children()))


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_job_that_cannot_succeed_fails_once_with_a_reason(
    environment: Settings, sessions: Sessions, add_job: AddJob
) -> None:
    job = add_job("zoo:no_such_model")
    supervisor(environment, sessions).work("cpu")
    found = read(sessions, job)
    assert (found.state, found.attempt) == ("failed", 1)
    assert found.problem is not None
    assert "no_such_model" in found.problem["detail"]
    assert "squeezenet" in found.problem["detail"]


def test_a_crashing_process_uses_up_the_attempts(
    environment: Settings, sessions: Sessions, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_HEARTBEAT_SECONDS", "99")  # the child refuses these settings
    job = add_job("zoo:squeezenet")
    supervisor(environment, sessions).work("cpu")
    found = read(sessions, job)
    assert (found.state, found.attempt) == ("failed", environment.max_attempts)
    assert found.problem is not None
    assert found.problem["kind"] == "crashed"
    assert "exit code 1" in found.problem["detail"]


def test_cancelling_kills_the_process_and_is_confirmed(
    environment: Settings, sessions: Sessions, add_job: AddJob
) -> None:
    job = add_job("zoo:inception_v3")
    thread = threading.Thread(target=supervisor(environment, sessions).work, args=("cpu",))
    thread.start()
    wait_for_child()
    with sessions() as session, session.begin():
        session.add(change(session.scalars(lock(job)).one(), JobAction.CANCEL))
    thread.join(30)
    assert not thread.is_alive()
    assert read(sessions, job).state == "cancelled"
    assert not children()


def test_a_stopping_worker_hands_its_job_back(
    environment: Settings, sessions: Sessions, add_job: AddJob
) -> None:
    job = add_job("zoo:inception_v3")
    stopping = supervisor(environment, sessions)
    thread = threading.Thread(target=stopping.work, args=("cpu",))
    thread.start()
    wait_for_child()
    stopping.stop()
    thread.join(30)
    assert not thread.is_alive()
    found = read(sessions, job)
    assert (found.state, found.attempt) == ("queued", 0)
    assert not children()


def test_devices_of_this_machine_s_cpu_take_turns_and_a_gpu_does_not_wait(
    environment: Settings, sessions: Sessions, add_job: AddJob
) -> None:
    simulated = add_job("zoo:inception_v3", device="sim:v100", purpose="inspect")
    measured = add_job("zoo:no_such_model")
    on_gpu = add_job("zoo:no_such_model", device="cuda:0")
    working = supervisor(environment, sessions)
    thread = threading.Thread(target=working.work, args=("sim:v100",))
    thread.start()
    wait_for_child()
    working.work("cpu")  # leaves it to the thread
    wait_until(lambda: any(child.nice() == SIMULATIONS_YIELD for child in children()))
    working.work("cuda:0")
    assert read(sessions, on_gpu).state == "failed"
    assert read(sessions, measured).state == "queued"
    assert read(sessions, simulated).state == "importing"
    with sessions() as session, session.begin():
        session.add(change(session.scalars(lock(simulated)).one(), JobAction.CANCEL))
    thread.join(30)
    assert not thread.is_alive()
    assert read(sessions, simulated).state == "cancelled"
    assert read(sessions, measured).state == "failed"
