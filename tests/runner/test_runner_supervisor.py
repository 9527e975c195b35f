"""The supervisor with a real child process, on a real PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from uuid import UUID, uuid4

import psutil
import pytest
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import Job
from backend.jobs.gate import change, lock
from backend.jobs.schemas import JobSpec
from backend.jobs.states import JobAction, JobState
from backend.settings import Settings
from workers.runner.supervisor import Supervisor

Sessions = sessionmaker[Session]
AddJob = Callable[[str], UUID]


@pytest.fixture
def environment(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The child reads its settings from the environment, as it does in a worker."""
    monkeypatch.setenv("PLAIT_HOME", str(settings.home))
    monkeypatch.setenv("DATABASE_URL", settings.database_url.get_secret_value())
    monkeypatch.setenv("REDIS_URL", settings.redis_url.get_secret_value())
    return settings


@pytest.fixture
def add_job(sessions: Sessions) -> AddJob:
    def add(model: str) -> UUID:
        with sessions() as session, session.begin():
            job = Job(
                id=uuid4(),
                name="",
                model_name=model,
                spec=JobSpec(model=model).model_dump(),
                device="cpu",
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
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if "workers.runner.child" in process.cmdline()
    ]


def wait_for_child() -> None:
    deadline = time.monotonic() + 10
    while not children():
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
