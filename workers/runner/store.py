"""The runner's writes to the database: every one under the job's row lock and its fence."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from redis import Redis, RedisError
from sqlalchemy import delete, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import (
    Artifact,
    Job,
    JobEvent,
    JobResult,
    MeasurementRound,
    ModelGraph,
    Timeline,
)
from backend.events.channel import channel, encode
from backend.jobs.gate import append, change, lock
from backend.jobs.schemas import (
    BatchSummary,
    EventType,
    JobProblem,
    JobProgress,
    LogEvent,
    Purpose,
    ResultEvent,
    RoundEvent,
    SearchEvent,
)
from backend.jobs.states import JobAction, JobState
from backend.storage import Storage
from workers.runner.outcome import ScheduleOutcome

Announce = Callable[[JobEvent], None]


class LeaseLostError(RuntimeError):
    """Another attempt owns the job now, or it was cancelled: stop without writing anything."""


def redis_announcer(client: Redis) -> Announce:
    """Publish committed events. A failure is harmless: readers fall back to the database."""

    def announce(event: JobEvent) -> None:
        try:
            client.publish(channel(event.job_id), encode(event))
        except RedisError:
            return

    return announce


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on a job: valid while the job's fence still equals ``fence``."""

    job_id: UUID
    fence: int
    attempt: int
    spec: dict[str, Any]
    upload_id: UUID | None
    model_name: str


class JobStore:
    """Writes for one claimed job; a Recorder. Raises LeaseLostError once the claim is stale."""

    def __init__(
        self,
        sessions: sessionmaker[Session],
        announce: Announce,
        claim: Claim,
        storage: Storage,
    ) -> None:
        self._sessions, self._announce = sessions, announce
        self._claim, self._storage = claim, storage

    @contextmanager
    def locked(self) -> Iterator[tuple[Session, Job, list[JobEvent]]]:
        """A transaction that holds the job's row lock. Events that are put into the list are
        stored at its end, and announced after it."""
        events: list[JobEvent] = []
        with self._sessions(expire_on_commit=False) as session, session.begin():
            job = session.scalars(lock(self._claim.job_id)).one_or_none()
            if job is None or job.fence != self._claim.fence:
                raise LeaseLostError(f"job {self._claim.job_id} belongs to a later attempt")
            if job.state == JobState.CANCELLING:
                raise LeaseLostError(f"job {job.id} is being cancelled")
            yield session, job, events
            session.add_all(events)
        for event in events:
            self._announce(event)

    def _append(self, kind: EventType, data: dict[str, Any]) -> None:
        with self.locked() as (_, job, events):
            events.append(append(job, kind, data))

    def _change(self, action: JobAction, problem: JobProblem | None = None) -> None:
        with self.locked() as (_, job, events):
            events.append(change(job, action, problem))

    def enter_tuning(self) -> None:
        self._change(JobAction.TUNE)

    def enter_verifying(self) -> None:
        self._change(JobAction.VERIFY)

    def progress(self, progress: JobProgress) -> None:
        with self.locked() as (_, job, events):
            job.progress = progress.model_dump()
            events.append(append(job, EventType.PROGRESS, progress.model_dump()))

    def search(self, event: SearchEvent) -> None:
        self._append(EventType.SEARCH, event.model_dump())

    def graph(self, facts: Mapping[str, Any]) -> None:
        """Store the facts in place of those that an earlier import of the same model left.

        An inspection takes more time to count than a tuning job does, so what it found of the
        very same graph stays.
        """
        values = {
            "upload_id": self._claim.upload_id,
            "graph_hash": facts["graph_hash"],
            "facts": dict(facts),
            "created_at": func.now(),
        }
        choice = {name: facts[name] for name in ("batch_size", "sequence_length", "granularity")}
        with self.locked() as (session, job, _):
            session.execute(
                insert(ModelGraph)
                .values(model=job.spec["model"], **choice, **values)
                .on_conflict_do_update(
                    constraint="uq_model_graph_choice",
                    set_=values,
                    where=or_(
                        literal(job.purpose == Purpose.INSPECT),
                        ModelGraph.graph_hash != facts["graph_hash"],
                    ),
                )
            )

    def log(self, event: LogEvent) -> None:
        self._append(EventType.LOG, event.model_dump())

    def round(self, event: RoundEvent) -> None:
        with self.locked() as (session, job, events):
            session.add(
                MeasurementRound(
                    job_id=job.id,
                    attempt=self._claim.attempt,
                    scheduler=event.scheduler,
                    batch_size=event.batch_size,
                    number=event.number,
                    degree_of_parallelism=event.degree_of_parallelism,
                    candidates=event.candidates,
                    timeout_s=event.timeout_seconds,
                    failures=event.failures,
                    timeouts=event.timeouts,
                    outliers=event.outliers,
                    remeasured=event.remeasured,
                    mean_deviation=event.mean_deviation,
                    duration_s=event.duration_seconds,
                )
            )
            events.append(append(job, EventType.ROUND, event.model_dump()))

    def result(self, outcome: ScheduleOutcome) -> None:
        """Store the outcome in place of what an earlier attempt may have left."""
        measured = outcome.measurement
        with self.locked() as (session, job, events):
            session.execute(
                delete(JobResult).where(
                    JobResult.job_id == job.id,
                    JobResult.batch_size == outcome.batch_size,
                    JobResult.scheduler == outcome.scheduler,
                )
            )
            row = JobResult(
                id=uuid4(),
                job_id=job.id,
                batch_size=outcome.batch_size,
                scheduler=outcome.scheduler,
                latency_ms=measured.latency_ms,
                low_ms=measured.low_ms,
                high_ms=measured.high_ms,
                samples=measured.samples,
                simulated=measured.simulated,
                verified=outcome.verified,
                max_abs_error=outcome.max_abs_error,
                winner=outcome.winner,
                provider=outcome.provider,
                kind=outcome.kind,
                place=outcome.place,
                schedule=dict(outcome.schedule),
                search=dict(outcome.search),
                environment=dict(outcome.environment),
            )
            session.add(row)
            session.flush()
            spans = [asdict(span) for span in outcome.timeline.spans]
            warps = [[at_ms, warps] for at_ms, warps in outcome.timeline.resident_warps]
            session.add(Timeline(result_id=row.id, spans=spans, resident_warps=warps))
            event = ResultEvent(
                scheduler=outcome.scheduler,
                batch_size=outcome.batch_size,
                latency_ms=measured.latency_ms,
                low_ms=measured.low_ms,
                high_ms=measured.high_ms,
                verified=outcome.verified,
                simulated=measured.simulated,
            )
            events.append(append(job, EventType.RESULT, event.model_dump()))

    def artifact(self, batch_size: int, path: Path) -> None:
        """Put the file into storage, then its row: a row never points at a missing file."""
        fields = self.keep(path, "artifacts")
        with self.locked() as (session, job, _):
            session.execute(
                insert(Artifact)
                .values(id=uuid4(), job_id=job.id, batch_size=batch_size, **fields)
                .on_conflict_do_update(
                    index_elements=[Artifact.job_id, Artifact.batch_size], set_=fields
                )
            )

    def keep(self, path: Path, folder: str) -> dict[str, Any]:
        """Put the file into a folder of the storage; what its row says of it."""
        key = f"{folder}/{self._claim.job_id}/{self._claim.fence}-{path.name}"
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._storage.put(path, key)
        return {
            "filename": path.name,
            "storage_key": key,
            "size_bytes": path.stat().st_size,
            "sha256": digest,
        }

    def succeed(self, summary: list[BatchSummary]) -> None:
        with self.locked() as (_, job, events):
            job.summary = [entry.model_dump() for entry in summary]
            job.progress = JobProgress(stage="done", step=1, steps=1).model_dump()
            events.append(change(job, JobAction.SUCCEED))

    def fail(self, problem: JobProblem) -> None:
        self._change(JobAction.FAIL, problem)


def claim_next(
    sessions: sessionmaker[Session],
    announce: Announce,
    devices: Sequence[str],
    worker: str,
    lease: float,
) -> Claim | None:
    """Claim the oldest queued job of ``devices``, or None. Racing workers never get the same one.

    Inspections go first: somebody looks at a page and waits, and they take seconds.
    """
    with sessions(expire_on_commit=False) as session, session.begin():
        job = session.scalars(
            select(Job)
            .where(Job.device.in_(devices), Job.state == JobState.QUEUED)
            .order_by(Job.purpose != Purpose.INSPECT, Job.created_at, Job.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        ).one_or_none()
        if job is None:
            return None
        now = session.scalars(select(func.now())).one()  # one clock for every lease
        job.attempt += 1
        job.fence += 1
        job.worker = worker
        job.lease_expires_at = now + timedelta(seconds=lease)
        job.started_at = job.started_at or now
        event = change(job, JobAction.CLAIM)
        session.add(event)
        claim = Claim(
            job_id=job.id,
            fence=job.fence,
            attempt=job.attempt,
            spec=job.spec,
            upload_id=job.upload_id,
            model_name=job.model_name,
        )
    announce(event)
    return claim


def renew_lease(sessions: sessionmaker[Session], claim: Claim, lease: float) -> JobState | None:
    """Extend the claim's lease; the job's state, or None if the claim is stale."""
    with sessions() as session, session.begin():
        state = session.scalars(
            update(Job)
            .where(Job.id == claim.job_id, Job.fence == claim.fence, Job.worker.is_not(None))
            .values(lease_expires_at=func.now() + timedelta(seconds=lease))
            .returning(Job.state)
        ).one_or_none()
    return JobState(state) if state else None


def end_attempt(
    sessions: sessionmaker[Session], announce: Announce, claim: Claim, max_attempts: int, why: str
) -> JobState | None:
    """Settle a claimed job whose process ended without settling it: cancelled if that was asked,
    queued again while attempts are left, failed otherwise. None if the claim is stale."""
    with sessions(expire_on_commit=False) as session, session.begin():
        job = session.scalars(lock(claim.job_id)).one_or_none()
        if job is None or job.fence != claim.fence:
            return None
        events = settle(job, max_attempts, why)
        session.add_all(events)
        state = JobState(job.state)
    for event in events:
        announce(event)
    return state


def release(sessions: sessionmaker[Session], announce: Announce, claim: Claim) -> None:
    """Hand a claimed job back because its worker stops; that does not use up an attempt."""
    with sessions(expire_on_commit=False) as session, session.begin():
        job = session.scalars(lock(claim.job_id)).one_or_none()
        if job is None or job.fence != claim.fence:
            return
        job.attempt -= 1
        cancelling = job.state == JobState.CANCELLING
        event = change(job, JobAction.CONFIRM_CANCEL if cancelling else JobAction.REQUEUE)
        session.add(event)
    announce(event)


def settle(job: Job, max_attempts: int, why: str) -> list[JobEvent]:
    """The events that end an attempt which cannot go on. Requires the row lock."""
    if job.state == JobState.CANCELLING:
        return [change(job, JobAction.CONFIRM_CANCEL)]
    if job.attempt < max_attempts:
        note = LogEvent(
            level="warning", message=f"attempt {job.attempt} ended: {why}; queued again"
        )
        return [append(job, EventType.LOG, note.model_dump()), change(job, JobAction.REQUEUE)]
    detail = f"{why} (attempt {job.attempt} of {max_attempts}); nothing it measured is lost"
    return [change(job, JobAction.FAIL, JobProblem(kind="crashed", detail=detail))]
