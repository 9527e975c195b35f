"""The rows that figures are made of."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.db.tables import Device, Job, JobEvent, MeasurementRound, Timeline
from backend.jobs.schemas import EventType
from backend.jobs.states import JobState


class FigureRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def schedulers(self, job_id: UUID) -> list[str]:
        """The job's schedulers in the order in which it names them."""
        query = select(Job.spec["schedulers"]).where(Job.id == job_id)
        return list(await self._session.scalar(query) or ())

    async def search_events(self, job_id: UUID) -> Sequence[JobEvent]:
        """What the latest attempt reported of its searches, in order. An earlier attempt's clock
        began earlier, so its reports do not belong on the same axis."""
        claimed = (
            select(func.coalesce(func.max(JobEvent.seq), 0))
            .where(
                JobEvent.job_id == job_id,
                JobEvent.type == EventType.STATE,
                JobEvent.data["state"].astext == JobState.IMPORTING,
            )
            .scalar_subquery()
        )
        query = (
            select(JobEvent)
            .where(
                JobEvent.job_id == job_id,
                JobEvent.type == EventType.SEARCH,
                JobEvent.seq > claimed,
            )
            .order_by(JobEvent.seq)
        )
        return (await self._session.scalars(query)).all()

    async def rounds(
        self, job_id: UUID, batch_size: int | None, scheduler: str | None
    ) -> Sequence[MeasurementRound]:
        """Every measured round, in order; those of earlier attempts are not measured again."""
        query = (
            select(MeasurementRound)
            .where(MeasurementRound.job_id == job_id)
            .order_by(MeasurementRound.id)
        )
        if batch_size is not None:
            query = query.where(MeasurementRound.batch_size == batch_size)
        if scheduler is not None:
            query = query.where(MeasurementRound.scheduler == scheduler)
        return (await self._session.scalars(query)).all()

    async def timeline(self, result_id: UUID) -> Timeline | None:
        return await self._session.get(Timeline, result_id)

    async def device_name(self, job_id: UUID) -> str:
        return str(await self._session.scalar(select(Job.device).where(Job.id == job_id)))

    async def warp_capacity(self, device_name: str) -> int | None:
        """The most warps that can be resident on a GPU at once; None for any other device."""
        query = select(Device.facts["gpu"]).where(Device.name == device_name)
        gpu = await self._session.scalar(query)
        if not gpu:
            return None
        return int(gpu["sm_count"]) * (int(gpu["threads_per_sm"]) // int(gpu["warp_size"]))

    async def simulates(self, job_id: UUID) -> bool:
        """Whether the job's device is a simulated one."""
        return (await self.device_name(job_id)).startswith("sim:")
