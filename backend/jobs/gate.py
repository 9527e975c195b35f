"""The one gate through which every change of a job passes, for the API and for the workers.

Both sides load the job under ``lock`` (a row lock), call ``change`` or ``append``, add the event
that comes back to the same session, commit, and only then announce it (``backend.events.channel``).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, select

from backend.db.tables import Job, JobEvent
from backend.jobs.schemas import EventType, JobProblem, StateEvent
from backend.jobs.states import ACTIVE, FINISHED, JobAction, JobState, transition


def lock(job_id: UUID) -> Select[Job]:
    """Select the job for update; its events are numbered in commit order because of this lock."""
    return select(Job).where(Job.id == job_id).with_for_update()


def append(job: Job, kind: EventType, data: dict[str, Any]) -> JobEvent:
    """The job's next event. Requires the row lock."""
    job.event_seq += 1
    return JobEvent(
        job_id=job.id,
        seq=job.event_seq,
        type=kind.value,
        data=data,
        created_at=datetime.now(UTC),
    )


def change(job: Job, action: JobAction, problem: JobProblem | None = None) -> JobEvent:
    """Apply ``action`` and return its state event; raises TransitionError. Requires the row lock.

    Leaving the active states gives up the lease and raises the fence, so that whoever held it
    can no longer write.
    """
    previous = JobState(job.state)
    state = transition(previous, action)
    now = datetime.now(UTC)
    job.state = state.value
    job.problem = problem.model_dump() if problem else None
    if state not in ACTIVE:
        job.worker = job.lease_expires_at = None
        job.fence += 1
    if state in FINISHED:
        job.finished_at = now
    if action in (JobAction.RETRY, JobAction.RESUME):
        job.attempt = 0
        job.finished_at = job.summary = None
    if action is JobAction.RETRY:
        job.started_at = None
    if state is JobState.QUEUED:
        job.progress = {}
    event = StateEvent(state=state, previous=previous, attempt=job.attempt, problem=problem)
    return append(job, EventType.STATE, event.model_dump(mode="json"))
