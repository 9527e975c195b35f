"""Jobs in the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.db.tables import Job
from backend.jobs.gate import lock
from backend.jobs.schemas import JobRead, Purpose
from backend.jobs.states import JobState
from backend.pagination import keyset


class JobRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    def add(self, job: Job) -> None:
        self._session.add(job)

    async def get(self, job_id: UUID) -> Job | None:
        return await self._session.get(Job, job_id)

    async def get_locked(self, job_id: UUID) -> Job | None:
        """The job under its row lock, as ``backend.jobs.gate`` requires."""
        return (await self._session.scalars(lock(job_id))).one_or_none()

    async def serialise(self, job_id: UUID) -> None:
        """Let only one transaction at a time decide whether a job with this id exists."""
        key = int.from_bytes(job_id.bytes[:8], signed=True)
        await self._session.execute(select(func.pg_advisory_xact_lock(key)))

    async def exists(self, job_id: UUID) -> bool:
        query = select(select(Job.id).where(Job.id == job_id).exists())
        return bool(await self._session.scalar(query))

    async def page(
        self,
        states: Sequence[JobState],
        purposes: Sequence[Purpose],
        cursor: str | None,
        limit: int,
    ) -> Sequence[Row[Any]]:
        """What JobRead shows of each, newest first; one more than ``limit`` if there is a next
        page. Rows and not objects: this is the query that is asked most."""
        query = select(*(getattr(Job, name) for name in JobRead.model_fields))
        query = query.where(Job.purpose.in_(purposes))
        if states:
            query = query.where(Job.state.in_(states))
        query = keyset(query, Job.created_at, Job.id, cursor, limit)
        return (await self._session.execute(query)).all()

    async def count_by_state(self) -> dict[JobState, int]:
        query = select(Job.state, func.count().label("jobs")).group_by(Job.state)
        counts = {row.state: row.jobs for row in await self._session.execute(query)}
        return {state: counts.get(state, 0) for state in JobState}
