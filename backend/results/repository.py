"""Results and artifacts in the database; workers write them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from backend.db.tables import Artifact, Job, JobResult, Timeline


class ResultRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def of_job(
        self, job_id: UUID, batch_size: int | None = None, scheduler: str | None = None
    ) -> Sequence[JobResult]:
        """The job's results without their schedules, by batch size and place; those that have no
        place follow, fastest first."""
        query = (
            select(JobResult)
            .options(defer(JobResult.schedule, raiseload=True))
            .where(JobResult.job_id == job_id)
            .order_by(
                JobResult.batch_size,
                JobResult.place.nulls_last(),
                JobResult.latency_ms,
                JobResult.scheduler,
            )
        )
        if batch_size is not None:
            query = query.where(JobResult.batch_size == batch_size)
        if scheduler is not None:
            query = query.where(JobResult.scheduler == scheduler)
        return (await self._session.scalars(query)).all()

    async def get(self, job_id: UUID, result_id: UUID) -> JobResult | None:
        query = select(JobResult).where(JobResult.job_id == job_id, JobResult.id == result_id)
        return (await self._session.scalars(query)).one_or_none()

    async def timeline(self, job_id: UUID, result_id: UUID) -> Row[Job, JobResult, Timeline] | None:
        """The result's timeline, with the job and the result that it is of."""
        query = (
            select(Job, JobResult, Timeline)
            .join(JobResult, JobResult.job_id == Job.id)
            .join(Timeline, Timeline.result_id == JobResult.id)
            .options(defer(JobResult.schedule, raiseload=True))
            .where(Job.id == job_id, JobResult.id == result_id)
        )
        return (await self._session.execute(query)).one_or_none()

    async def artifacts(self, job_id: UUID) -> Sequence[Artifact]:
        """The job's artifacts by batch size."""
        query = select(Artifact).where(Artifact.job_id == job_id).order_by(Artifact.batch_size)
        return (await self._session.scalars(query)).all()

    async def artifact(self, job_id: UUID, artifact_id: UUID) -> Artifact | None:
        query = select(Artifact).where(Artifact.job_id == job_id, Artifact.id == artifact_id)
        return (await self._session.scalars(query)).one_or_none()
