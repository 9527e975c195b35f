"""From the rows of a kernel-tuning job to its figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.figures.schemas import FigureChoice, FigureKind, Theme
from backend.figures.tuning_repository import TuningFigureRepository
from backend.figures.tuning_rows import MAX_ROUNDS, History

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Build = Callable[[], "Figure"]
Prepare = Callable[[UUID, FigureChoice, Theme], Awaitable[Build]]

# Plotly is imported by whoever asks for the first figure: the API starts without it.
# ruff: noqa: PLC0415


class TuningFigures:
    def __init__(self, session: AsyncSession) -> None:
        self._rows = TuningFigureRepository(session)

    @property
    def prepared(self) -> Mapping[FigureKind, Prepare]:
        """What reads a figure's rows and returns what builds it."""
        by_round = (
            FigureKind.TUNING_PARALLELISM,
            FigureKind.TUNING_DEVIATION,
            FigureKind.TUNING_FAILURES,
            FigureKind.TUNING_CPU,
        )
        return {
            FigureKind.TUNING_BEST: self._best,
            FigureKind.TUNING_PROCESSES: self._processes,
            **{kind: self._by_round(kind) for kind in by_round},
        }

    async def _best(self, job_id: UUID, choice: FigureChoice, theme: Theme) -> Build:
        programs = await self._rows.programs(job_id)
        trials = await self._rows.improvements(job_id)
        kernels = await self._rows.kernels(job_id)

        def build() -> Figure:
            from backend.figures.tuning_best import tuning_best

            return tuning_best(programs, trials, kernels, choice.clock, theme)

        return build

    def _by_round(self, kind: FigureKind) -> Prepare:
        """Those of ``tuning_rounds``, which all have the same rows."""

        async def prepare(job_id: UUID, _: FigureChoice, theme: Theme) -> Build:
            newest = await self._rows.rounds(job_id, MAX_ROUNDS)
            history = History(newest, await self._rows.round_count(job_id))

            def build() -> Figure:
                from backend.figures.tuning_rounds import BY_KIND

                return BY_KIND[kind](history, theme)

            return build

        return prepare

    async def _processes(self, job_id: UUID, choice: FigureChoice, theme: Theme) -> Build:
        rounds, spans = await self._rows.spans(job_id, choice.rounds)

        def build() -> Figure:
            from backend.figures.tuning_processes import tuning_processes

            return tuning_processes(spans, rounds, theme)

        return build
