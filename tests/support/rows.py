"""Rows as the workers write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from redis import Redis
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import Device, Job, JobEvent, JobResult
from backend.events.channel import channel, encode
from backend.jobs.gate import append, change, lock
from backend.jobs.schemas import EventType, JobProgress, JobSpec
from backend.jobs.states import JobAction, JobState

CAPABILITIES = {
    "schedulers": ["greedy", "ios", "sequential", "auto"],
    "zoo": ["inception_v3", "squeezenet"],
    "zoo_families": ["nasbench"],
    "formats": ["pt2"],
    "providers": ["aten"],
    "kernels": None,
}


def device(name: str = "cpu", **fields: Any) -> Device:
    values: dict[str, Any] = {
        "name": name,
        "kind": "cpu",
        "description": "two cores",
        "fingerprint": f"{name}-fingerprint",
        "facts": {"parallelism": 2},
        "capabilities": CAPABILITIES,
        "worker": "host:1",
        "last_progress_at": datetime.now(UTC),
    }
    return Device(**{**values, **fields})


def job(**fields: Any) -> Job:
    values: dict[str, Any] = {
        "id": uuid4(),
        "name": "squeezenet",
        "model_name": "squeezenet",
        "spec": JobSpec(model="zoo:squeezenet").model_dump(mode="json"),
        "device": "cpu",
        "state": JobState.QUEUED.value,
        "progress": JobProgress().model_dump(),
        "attempt": 0,
        "fence": 0,
        "event_seq": 0,
        "created_at": datetime.now(UTC),
    }
    return Job(**{**values, **fields})


def result(job_id: UUID, **fields: Any) -> JobResult:
    values: dict[str, Any] = {
        "id": uuid4(),
        "job_id": job_id,
        "batch_size": 1,
        "scheduler": "ios",
        "latency_ms": 9.0,
        "low_ms": 8.0,
        "high_ms": 10.0,
        "samples": 50,
        "simulated": False,
        "verified": True,
        "max_abs_error": 0.0,
        "winner": True,
        "provider": "aten",
        "kind": "schedule",
        "place": None,
        "schedule": {},
        "search": {},
        "environment": {},
    }
    return JobResult(**{**values, **fields})


class Writer:
    """Appends events to one job as a worker does: commit, then announce."""

    def __init__(self, sessions: sessionmaker[Session], redis_url: str, job_id: UUID) -> None:
        self._sessions, self._job_id = sessions, job_id
        self._redis = Redis.from_url(redis_url)

    def log(self, message: str, announce: bool = True) -> JobEvent:
        with self._sessions(expire_on_commit=False) as session, session.begin():
            row = session.scalars(lock(self._job_id)).one()
            event = append(row, EventType.LOG, {"level": "info", "message": message})
            session.add(event)
        if announce:
            self._redis.publish(channel(self._job_id), encode(event))
        return event

    def burst(self, count: int) -> None:
        """Commit many events, then announce them all at once."""
        events = [self.log(str(number), announce=False) for number in range(count)]
        with self._redis.pipeline(transaction=False) as pipeline:
            for event in events:
                pipeline.publish(channel(self._job_id), encode(event))
            pipeline.execute()

    def change(self, *actions: JobAction, announce: bool = True) -> None:
        for action in actions:
            with self._sessions(expire_on_commit=False) as session, session.begin():
                event = change(session.scalars(lock(self._job_id)).one(), action)
                session.add(event)
            if announce:
                self._redis.publish(channel(self._job_id), encode(event))

    def finish(self, announce: bool = True) -> None:
        """Through every state to succeeded."""
        self.change(
            JobAction.CLAIM,
            JobAction.TUNE,
            JobAction.VERIFY,
            JobAction.SUCCEED,
            announce=announce,
        )
