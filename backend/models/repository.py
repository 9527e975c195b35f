"""The facts of models' graphs in the database, and the jobs that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.db.tables import Job, ModelGraph
from backend.jobs.schemas import Purpose
from backend.jobs.states import FINISHED
from backend.models.schemas import GraphSettings

RECENT = 20
"""Inspections of one graph that anybody looks back on."""


class GraphRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def facts(self, model: str, settings: GraphSettings) -> dict[str, Any] | None:
        query = select(ModelGraph.facts).where(
            ModelGraph.model == model,
            ModelGraph.batch_size == settings.batch_size,
            ModelGraph.sequence_length.is_not_distinct_from(settings.sequence_length),
            ModelGraph.granularity == settings.granularity,
        )
        return (await self._session.scalars(query)).one_or_none()

    async def entries(self, model: str) -> Sequence[Row[*tuple[Any, ...]]]:
        """Which graphs of the model are stored, newest first, without their facts."""
        query = (
            select(
                ModelGraph.batch_size,
                ModelGraph.sequence_length,
                ModelGraph.granularity,
                ModelGraph.graph_hash,
                ModelGraph.created_at,
            )
            .where(ModelGraph.model == model)
            .order_by(ModelGraph.created_at.desc(), ModelGraph.id.desc())
        )
        return (await self._session.execute(query)).all()

    async def inspections(self, model: str, settings: GraphSettings) -> Sequence[Job]:
        """The latest jobs that inspect just this graph, newest first."""
        query = (
            select(Job)
            .where(
                Job.purpose == Purpose.INSPECT,
                Job.spec["model"].astext == model,
                Job.spec["batch_sizes"] == [settings.batch_size],
                Job.spec["sequence_length"].astext.is_not_distinct_from(_text(settings)),
                Job.spec["granularity"].astext == settings.granularity,
            )
            .order_by(Job.created_at.desc(), Job.id.desc())
            .limit(RECENT)
        )
        return (await self._session.scalars(query)).all()

    async def waiting(self) -> Mapping[str, int]:
        """How many unfinished jobs each device has; devices without any are left out."""
        query = (
            select(Job.device, func.count()).where(Job.state.not_in(FINISHED)).group_by(Job.device)
        )
        return dict((await self._session.execute(query)).all())


def _text(settings: GraphSettings) -> str | None:
    return None if settings.sequence_length is None else str(settings.sequence_length)
