"""What jobs for kernels tune and found, in the database; workers write it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Row, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from backend.db.tables import TuningKernel, TuningProgram, TuningRound, TuningRun, TuningTrial


class TuningRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def run(self, job_id: UUID) -> TuningRun | None:
        return await self._session.get(TuningRun, job_id)

    async def programs(self, job_id: UUID) -> Sequence[TuningProgram]:
        """In the job's order."""
        query = (
            select(TuningProgram)
            .where(TuningProgram.job_id == job_id)
            .order_by(TuningProgram.place)
        )
        return (await self._session.scalars(query)).all()

    async def progress(self, job_id: UUID) -> tuple[int, float]:
        """How many rounds there are, and how many seconds of tuning they took."""
        query = select(func.count(), func.max(TuningRound.ended_s)).where(
            TuningRound.job_id == job_id
        )
        count, ended_s = (await self._session.execute(query)).one()
        return count, ended_s or 0.0

    async def standings(self, job_id: UUID) -> dict[str, tuple[int, float | None]]:
        """The trials of each program so far, and its lowest latency in ms."""
        query = (
            select(TuningTrial.program, func.count(), func.min(TuningTrial.latency_ms))
            .where(TuningTrial.job_id == job_id)
            .group_by(TuningTrial.program)
        )
        return {row[0]: (row[1], row[2]) for row in await self._session.execute(query)}

    async def failures(self, job_id: UUID) -> dict[str, int]:
        """How many trials failed, by kind."""
        query = (
            select(TuningTrial.failure, func.count())
            .where(TuningTrial.job_id == job_id, TuningTrial.failure.is_not(None))
            .group_by(TuningTrial.failure)
            .order_by(TuningTrial.failure)
        )
        return {str(row[0]): row[1] for row in await self._session.execute(query)}

    async def rounds(self, job_id: UUID, after: int, limit: int) -> Sequence[TuningRound]:
        """Those behind number ``after``, in order, without their spans."""
        query = (
            select(TuningRound)
            .options(defer(TuningRound.spans, raiseload=True))
            .where(TuningRound.job_id == job_id, TuningRound.number > after)
            .order_by(TuningRound.number)
            .limit(limit)
        )
        return (await self._session.scalars(query)).all()

    async def trials(
        self, job_id: UUID, program: str | None, after: int, limit: int, trace: bool
    ) -> Sequence[Row[*tuple[object, ...]]]:
        """Those behind number ``after``, in order; with their traces, which are long, if asked."""
        columns = [
            column for column in TuningTrial.__table__.columns if trace or column.name != "trace"
        ]
        query = (
            select(*columns)
            .where(TuningTrial.job_id == job_id, TuningTrial.trial > after)
            .order_by(TuningTrial.trial)
            .limit(limit)
        )
        if program is not None:
            query = query.where(TuningTrial.program == program)
        return (await self._session.execute(query)).all()

    async def kernels(self, job_id: UUID) -> Sequence[TuningKernel]:
        """In the order of the job's programs."""
        query = (
            select(TuningKernel)
            .join(
                TuningProgram,
                (TuningProgram.job_id == TuningKernel.job_id)
                & (TuningProgram.program == TuningKernel.program),
            )
            .options(defer(TuningKernel.trace, raiseload=True))
            .where(TuningKernel.job_id == job_id)
            .order_by(TuningProgram.place)
        )
        return (await self._session.scalars(query)).all()

    async def tuned(self, job_id: UUID) -> frozenset[str]:
        """The programs that have a kernel."""
        query = select(TuningKernel.program).where(TuningKernel.job_id == job_id)
        return frozenset(await self._session.scalars(query))

    async def kernel(self, job_id: UUID, candidate: str) -> TuningKernel | None:
        query = select(TuningKernel).where(
            TuningKernel.job_id == job_id, TuningKernel.candidate == candidate
        )
        return (await self._session.scalars(query)).first()
