"""Claims, fences, leases and the sweep, on a real PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import Artifact, Device, Job, JobEvent, JobResult, Timeline
from backend.jobs.gate import change, lock
from backend.jobs.schemas import BatchSummary, JobProblem, JobProgress, JobSpec, LogEvent
from backend.jobs.states import JobAction, JobState
from backend.storage import Storage
from workers.devices import base
from workers.measure.measurement import Measurement
from workers.runner.outcome import ScheduleOutcome
from workers.runner.store import (
    Claim,
    JobStore,
    LeaseLostError,
    claim_next,
    end_attempt,
    release,
    renew_lease,
)
from workers.runner.sweeper import devices_to_ring, settle_expired

Sessions = sessionmaker[Session]
AddJob = Callable[..., UUID]


@pytest.fixture
def announced() -> list[JobEvent]:
    return []


@pytest.fixture
def add_job(sessions: Sessions) -> AddJob:
    def add(device: str = "cpu", age: int = 0) -> UUID:
        with sessions() as session, session.begin():
            job = Job(
                id=uuid4(),
                name="",
                model_name="squeezenet",
                spec=JobSpec(model="zoo:squeezenet").model_dump(),
                device=device,
                state=JobState.QUEUED,
                progress={},
                created_at=datetime.now(UTC) - timedelta(seconds=age),
            )
            session.add(job)
            return job.id

    return add


@pytest.fixture
def claim(sessions: Sessions, announced: list[JobEvent]) -> Callable[..., Claim | None]:
    def claim_one(*devices: str, worker: str = "one", lease: float = 30) -> Claim | None:
        return claim_next(sessions, announced.append, devices or ["cpu"], worker, lease)

    return claim_one


def store(
    sessions: Sessions, held: Claim | None, announced: list[JobEvent], home: Path
) -> JobStore:
    assert held is not None
    return JobStore(sessions, announced.append, held, Storage(f"file://{home}"))


def read(sessions: Sessions, job: UUID) -> Job:
    with sessions(expire_on_commit=False) as session:
        return session.get_one(Job, job)


def act(sessions: Sessions, job: UUID, action: JobAction) -> None:
    with sessions() as session, session.begin():
        session.add(change(session.scalars(lock(job)).one(), action))


def expire(sessions: Sessions, job: UUID) -> None:
    with sessions() as session, session.begin():
        past = func.now() - timedelta(seconds=1)
        session.execute(update(Job).where(Job.id == job).values(lease_expires_at=past))


def outcome(scheduler: str = "ios", latency: float = 1.0) -> ScheduleOutcome:
    return ScheduleOutcome(
        scheduler=scheduler,
        batch_size=1,
        measurement=Measurement(latency, latency * 0.9, latency * 1.1, 30),
        verified=True,
        max_abs_error=1e-6,
        winner=True,
        schedule={"kind": "stages"},
        search={"states": 3},
        timeline=base.Timeline(
            (base.Span("conv", "conv", 0, 0.0, 1.0, (base.Waited("threads", 0.5),)),),
            ((0.0, 64.0), (1.0, 0.0)),
        ),
        environment={"device": "a test's", "noise": {"complaint": None}},
        provider="inductor",
    )


def test_claims_the_oldest_job_of_the_device(
    sessions: Sessions, add_job: AddJob, claim: Callable[..., Claim | None]
) -> None:
    add_job(age=1)
    oldest = add_job(age=9)
    add_job(device="sim:v100", age=20)
    held = claim()
    assert held is not None
    assert held.job_id == oldest
    assert (held.attempt, held.fence) == (1, 1)
    job = read(sessions, oldest)
    assert (job.state, job.worker) == ("importing", "one")
    assert job.started_at is not None
    assert claim("cuda:0") is None


def test_claims_the_oldest_job_of_several_devices(
    sessions: Sessions, add_job: AddJob, claim: Callable[..., Claim | None]
) -> None:
    newer, older = add_job(age=1), add_job(device="sim:v100", age=9)
    add_job(device="cuda:0", age=20)
    held = [claim("cpu", "sim:v100") for _ in range(3)]
    assert [one and one.job_id for one in held] == [older, newer, None]


def test_racing_workers_never_claim_the_same_job(
    sessions: Sessions, add_job: AddJob, announced: list[JobEvent]
) -> None:
    jobs = {add_job() for _ in range(12)}
    claimed: list[UUID] = []
    start = threading.Barrier(4)

    def work(worker: str) -> None:
        start.wait()
        while (held := claim_next(sessions, announced.append, ["cpu"], worker, 30)) is not None:
            claimed.append(held.job_id)

    threads = [threading.Thread(target=work, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == sorted(jobs)


def test_a_whole_attempt_is_recorded_and_announced_in_order(
    sessions: Sessions,
    add_job: AddJob,
    claim: Callable[..., Claim | None],
    announced: list[JobEvent],
    tmp_path: Path,
) -> None:
    job = add_job()
    writes = store(sessions, claim(), announced, tmp_path / "storage")
    writes.progress(JobProgress(stage="importing", step=1, steps=2))
    writes.enter_tuning()
    writes.log(LogEvent(level="info", message="hello"))
    writes.enter_verifying()
    writes.result(outcome(latency=2.0))
    writes.result(outcome(latency=1.0))  # a later attempt's result takes the earlier one's place
    (tmp_path / "schedule.zip").write_bytes(b"zip")
    writes.artifact(1, tmp_path / "schedule.zip")
    summary = BatchSummary(
        batch_size=1, winner="ios", latency_ms=1, baseline_ms=2, speedup=2, simulated=False
    )
    writes.succeed([summary])

    found = read(sessions, job)
    assert found.state == "succeeded"
    assert found.summary == [summary.model_dump()]
    assert (found.worker, found.lease_expires_at) == (None, None)
    with sessions() as session:
        events = session.scalars(select(JobEvent).order_by(JobEvent.seq)).all()
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        assert [e.seq for e in announced] == [e.seq for e in events]
        assert [e.type for e in events] == [
            "state", "progress", "state", "log", "state", "result", "result", "state",
        ]  # fmt: skip
        (result,) = session.scalars(select(JobResult)).all()
        assert result.latency_ms == 1.0
        assert (result.provider, result.environment["device"]) == ("inductor", "a test's")
        (timeline,) = session.scalars(select(Timeline)).all()
        assert timeline.spans[0]["unit"] == "conv"
        assert timeline.spans[0]["waited"] == [{"reason": "threads", "ms": 0.5}]
        assert timeline.resident_warps == [[0.0, 64.0], [1.0, 0.0]]
        (artifact,) = session.scalars(select(Artifact)).all()
    assert (tmp_path / "storage" / artifact.storage_key).read_bytes() == b"zip"
    assert artifact.size_bytes == 3


def test_a_stale_claim_can_write_nothing(
    sessions: Sessions,
    add_job: AddJob,
    claim: Callable[..., Claim | None],
    announced: list[JobEvent],
    tmp_path: Path,
) -> None:
    job = add_job()
    old = claim()
    expire(sessions, job)
    assert settle_expired(sessions, announced.append, max_attempts=3) == 1
    new = claim(worker="two")
    assert old is not None
    assert new is not None
    assert new.attempt == 2
    stale = store(sessions, old, announced, tmp_path)
    before = read(sessions, job).event_seq
    for write in (
        stale.enter_tuning,
        lambda: stale.log(LogEvent(level="info", message="from the dead")),
        lambda: stale.result(outcome()),
        lambda: stale.fail(JobProblem(kind="x", detail="y")),
    ):
        with pytest.raises(LeaseLostError):
            write()
    assert read(sessions, job).event_seq == before
    assert renew_lease(sessions, old, 30) is None
    assert renew_lease(sessions, new, 30) is JobState.IMPORTING
    assert end_attempt(sessions, announced.append, old, 3, "late") is None


def test_expired_leases_requeue_until_the_attempts_are_used_up(
    sessions: Sessions,
    add_job: AddJob,
    claim: Callable[..., Claim | None],
    announced: list[JobEvent],
) -> None:
    job = add_job()
    for attempt in (1, 2):
        held = claim()
        assert held is not None
        assert held.attempt == attempt
        assert settle_expired(sessions, announced.append, max_attempts=2) == 0
        expire(sessions, job)
        assert settle_expired(sessions, announced.append, max_attempts=2) == 1
    found = read(sessions, job)
    assert found.state == "failed"
    assert found.problem is not None
    assert found.problem["kind"] == "crashed"
    assert "attempt 2 of 2" in found.problem["detail"]
    assert claim() is None


def test_cancelling_stops_the_writer_and_is_confirmed(
    sessions: Sessions,
    add_job: AddJob,
    claim: Callable[..., Claim | None],
    announced: list[JobEvent],
    tmp_path: Path,
) -> None:
    job = add_job()
    held = claim()
    assert held is not None
    act(sessions, job, JobAction.CANCEL)
    assert renew_lease(sessions, held, 30) is JobState.CANCELLING
    with pytest.raises(LeaseLostError, match="cancelled"):
        store(sessions, held, announced, tmp_path).enter_tuning()
    assert end_attempt(sessions, announced.append, held, 3, "x") is JobState.CANCELLED
    assert read(sessions, job).finished_at is not None


def test_releasing_a_job_does_not_use_up_an_attempt(
    sessions: Sessions,
    add_job: AddJob,
    claim: Callable[..., Claim | None],
    announced: list[JobEvent],
) -> None:
    job = add_job()
    held = claim()
    assert held is not None
    release(sessions, announced.append, held)
    assert (read(sessions, job).state, read(sessions, job).attempt) == ("queued", 0)
    again = claim()
    assert again is not None
    assert (again.attempt, again.fence > held.fence) == (1, True)


def test_rings_devices_seen_lately_and_those_with_work(sessions: Sessions, add_job: AddJob) -> None:
    with sessions() as session, session.begin():
        for name, hours in (("cpu", 0), ("sim:v100", 5)):
            session.add(
                Device(
                    name=name,
                    kind="cpu",
                    description="",
                    fingerprint="f",
                    facts={},
                    capabilities={},
                    worker="w",
                    last_progress_at=datetime.now(UTC) - timedelta(hours=hours),
                )
            )
    assert devices_to_ring(sessions) == ["cpu"]
    add_job(device="cuda:0")
    assert devices_to_ring(sessions) == ["cpu", "cuda:0"]
