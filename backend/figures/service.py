"""Reading what a figure shows."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.figures.schemas import FigureKind, Theme


class FigureService:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def render(
        self,
        job_id: UUID,
        kind: FigureKind,
        batch_size: int | None,
        scheduler: str | None,
        theme: Theme,
    ) -> bytes:
        raise NotImplementedError
