"""From a job's rows to the JSON of a figure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

import orjson
from sqlalchemy.ext.asyncio import AsyncSession

from backend.figures.repository import FigureRepository
from backend.figures.schemas import FigureChoice, FigureKind, Theme
from backend.figures.tuning_service import TuningFigures
from backend.jobs.schemas import RoundEvent, SearchEvent
from backend.results.alternatives import is_alternative, require_schedule
from backend.results.repository import ResultRepository
from backend.results.schemas import ResultRead

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Build = Callable[[], "Figure"]

# Plotly is imported by whoever asks for the first figure: the API starts without it.
# ruff: noqa: PLC0415


class FigureService:
    def __init__(self, session: AsyncSession) -> None:
        self._rows = FigureRepository(session)
        self._results = ResultRepository(session)
        self._tuning = TuningFigures(session)

    async def render(
        self, job_id: UUID, kind: FigureKind, choice: FigureChoice, theme: Theme
    ) -> bytes:
        """The figure as JSON. Rows are read here; Plotly works in a thread."""
        prepare = {
            FigureKind.LATENCY: self._latency,
            FigureKind.SEARCH: self._search,
            FigureKind.ROUNDS: self._rounds,
            FigureKind.TIMELINE: self._timeline,
            **self._tuning.prepared,
        }[kind]
        build = await prepare(job_id, choice, theme)
        return await asyncio.to_thread(_to_json, build)

    async def _latency(self, job_id: UUID, choice: FigureChoice, theme: Theme) -> Build:
        rows = await self._results.of_job(job_id, choice.batch_size, choice.scheduler)
        results = [ResultRead.model_validate(row) for row in rows]
        order = await self._rows.schedulers(job_id)

        def build() -> Figure:
            from backend.figures.latency import latency

            return latency(results, order, theme)

        return build

    async def _search(self, job_id: UUID, choice: FigureChoice, theme: Theme) -> Build:
        """Of the batch size that is being searched, unless one is named."""
        rows = await self._rows.search_events(job_id)
        events = [SearchEvent.model_validate(row.data) for row in rows]
        batch_size = choice.batch_size
        if batch_size is None and events:
            batch_size = events[-1].batch_size
        chosen = [
            event
            for event in events
            if event.batch_size == batch_size and choice.scheduler in (None, event.scheduler)
        ]
        simulated = await self._rows.simulates(job_id)

        def build() -> Figure:
            from backend.figures.search import search

            return search(chosen, simulated, theme)

        return build

    async def _rounds(self, job_id: UUID, choice: FigureChoice, theme: Theme) -> Build:
        rows = await self._rows.rounds(job_id, choice.batch_size, choice.scheduler)
        history = [
            RoundEvent(
                scheduler=row.scheduler,
                batch_size=row.batch_size,
                number=row.number,
                degree_of_parallelism=row.degree_of_parallelism,
                candidates=row.candidates,
                timeout_seconds=row.timeout_s,
                failures=row.failures,
                timeouts=row.timeouts,
                outliers=row.outliers,
                remeasured=row.remeasured,
                mean_deviation=row.mean_deviation,
                duration_seconds=row.duration_s,
            )
            for row in rows
        ]

        def build() -> Figure:
            from backend.figures.rounds import rounds

            return rounds(history, theme)

        return build

    async def _timeline(self, job_id: UUID, choice: FigureChoice, theme: Theme) -> Build:
        """Of the winner, or else of the best, of the smallest batch size, unless named. Raises
        NotFoundError for an alternative, which has none."""
        found = await self._results.of_job(job_id, choice.batch_size, choice.scheduler)
        if choice.scheduler is not None and found:
            require_schedule(found[0])
        results = [result for result in found if not is_alternative(result)]
        first = [result for result in results if result.batch_size == results[0].batch_size]
        shown = next((result for result in first if result.winner), first[0] if first else None)
        row = await self._rows.timeline(shown.id) if shown else None
        spans = row.spans if row else []
        warps = row.resident_warps if row else []
        device = await self._rows.device_name(job_id)
        capacity = await self._rows.warp_capacity(device) if warps else None
        caption = f"{shown.scheduler}, batch {shown.batch_size}, on {device}" if shown else ""
        simulated = shown.simulated if shown else False

        def build() -> Figure:
            from backend.figures.timeline import UnitSpan, timeline

            return timeline(
                [UnitSpan(**span) for span in spans],
                caption,
                simulated,
                theme,
                [(ms, count) for ms, count in warps],
                capacity,
            )

        return build


def _to_json(build: Build) -> bytes:
    return orjson.dumps(build().to_plotly_json())
