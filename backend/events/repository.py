"""Reading events back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.db.tables import Job, JobEvent
from backend.jobs.states import JobState


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How far a job's events go, and the state they lead to."""

    state: JobState
    seq: int


class EventRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def after(self, job_id: UUID, seq: int, limit: int) -> Sequence[JobEvent]:
        """The job's next events after ``seq``, in order."""
        query = (
            select(JobEvent)
            .where(JobEvent.job_id == job_id, JobEvent.seq > seq)
            .order_by(JobEvent.seq)
            .limit(limit)
        )
        return (await self._session.scalars(query)).all()

    async def end(self, job_id: UUID) -> JobEnd | None:
        """Where the job stands; None if there is no such job."""
        query = select(Job.state, Job.event_seq).where(Job.id == job_id)
        row = (await self._session.execute(query)).one_or_none()
        return JobEnd(JobState(row.state), row.event_seq) if row else None
