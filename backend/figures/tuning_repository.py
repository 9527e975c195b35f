"""The rows that the figures of a kernel-tuning job are made of."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.db.tables import JobEvent, TuningKernel, TuningProgram, TuningRound, TuningTrial
from backend.figures.tuning_rows import Round, Span, Trial, TunedProgram
from backend.jobs.schemas import EventType
from backend.jobs.states import JobState

_OF_A_ROUND = (
    TuningRound.number,
    TuningRound.degree_of_parallelism,
    TuningRound.timeout_s,
    TuningRound.successes,
    TuningRound.lower,
    TuningRound.upper,
    TuningRound.failures,
    TuningRound.outliers,
    TuningRound.remeasured,
    TuningRound.due_to_parallelism,
    TuningRound.delta_mean,
    TuningRound.cpu_share,
)


class TuningFigureRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def programs(self, job_id: UUID) -> list[TunedProgram]:
        """In the job's order."""
        query = (
            select(
                TuningProgram.program,
                TuningProgram.name,
                TuningProgram.weight,
                TuningProgram.gflops,
            )
            .where(TuningProgram.job_id == job_id)
            .order_by(TuningProgram.place)
        )
        return [TunedProgram(*row) for row in await self._session.execute(query)]

    async def improvements(self, job_id: UUID) -> list[Trial]:
        """The trials that were the best of their program when they were measured, in order, and the
        last trial of each program; the others draw no line."""
        before = func.min(TuningTrial.latency_ms).over(
            partition_by=TuningTrial.program, order_by=TuningTrial.trial, rows=(None, -1)
        )
        last = func.max(TuningTrial.trial).over(partition_by=TuningTrial.program)
        told = (
            select(
                TuningTrial.program,
                TuningTrial.trial,
                TuningTrial.round,
                TuningTrial.latency_ms,
                before.label("before"),
                last.label("last"),
            )
            .where(TuningTrial.job_id == job_id)
            .subquery()
        )
        query = (
            select(told.c.program, told.c.trial, TuningRound.ended_s, told.c.latency_ms)
            .join(
                TuningRound,
                (TuningRound.job_id == job_id) & (TuningRound.number == told.c.round),
            )
            .where(
                or_(
                    told.c.latency_ms < told.c.before,
                    told.c.latency_ms.is_not(None) & told.c.before.is_(None),
                    told.c.trial == told.c.last,
                )
            )
            .order_by(told.c.trial)
        )
        return [Trial(*row) for row in await self._session.execute(query)]

    async def kernels(self, job_id: UUID) -> list[Trial]:
        """The trials of the best kernels, with their latencies in isolation."""
        query = (
            select(
                TuningKernel.program,
                TuningKernel.trial,
                TuningRound.ended_s,
                TuningKernel.latency_ms,
            )
            .join(
                TuningTrial,
                (TuningTrial.job_id == job_id) & (TuningTrial.trial == TuningKernel.trial),
            )
            .join(
                TuningRound,
                (TuningRound.job_id == job_id) & (TuningRound.number == TuningTrial.round),
            )
            .where(TuningKernel.job_id == job_id)
            .order_by(TuningKernel.trial)
        )
        return [Trial(*row) for row in await self._session.execute(query)]

    async def rounds(self, job_id: UUID, most: int) -> list[Round]:
        """The newest ``most`` rounds, in order."""
        query = (
            select(
                *_OF_A_ROUND,
                func.coalesce(TuningProgram.name, TuningRound.program).label("program"),
                TuningRound.created_at,
            )
            .outerjoin(
                TuningProgram,
                (TuningProgram.job_id == job_id) & (TuningProgram.program == TuningRound.program),
            )
            .where(TuningRound.job_id == job_id)
            .order_by(TuningRound.number.desc())
            .limit(most)
        )
        found = (await self._session.execute(query)).all()
        begun = await self._begun(job_id)
        rounds = []
        for row in reversed(found):
            fields = dict(row._mapping)
            session = bisect_right(begun, fields.pop("created_at"))
            rounds.append(Round(session=session, **fields))
        return rounds

    async def _begun(self, job_id: UUID) -> list[datetime]:
        """When a worker took the job: at first, after a stop, and after another worker was lost.
        The attempts that rounds name begin anew where a job is resumed."""
        query = (
            select(JobEvent.created_at)
            .where(
                JobEvent.job_id == job_id,
                JobEvent.type == EventType.STATE,
                JobEvent.data["state"].astext == JobState.IMPORTING,
            )
            .order_by(JobEvent.created_at)
        )
        return list(await self._session.scalars(query))

    async def round_count(self, job_id: UUID) -> int:
        query = select(func.count()).where(TuningRound.job_id == job_id)
        return int(await self._session.scalar(query) or 0)

    async def spans(self, job_id: UUID, newest: int) -> tuple[list[int], list[Span]]:
        """The numbers of the ``newest`` rounds, and what processes did for them."""
        query = (
            select(TuningRound.number, TuningRound.spans)
            .where(TuningRound.job_id == job_id)
            .order_by(TuningRound.number.desc())
            .limit(newest)
        )
        found = (await self._session.execute(query)).all()
        return (
            sorted(number for number, _ in found),
            [Span(**span) for _, spans in reversed(found) for span in spans],
        )
