"""Figures of a job, as Plotly JSON."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from backend.auth.dependencies import Reader
from backend.edge import TransactionDep
from backend.figures.schemas import Clock, FigureChoice, FigureKind, FigureRead, Theme
from backend.figures.service import FigureService
from backend.jobs.dependencies import KnownJob
from backend.problems import responses

MOST_ROUNDS = 64

router = APIRouter(
    prefix="/jobs/{job_id}/figures", tags=["figures"], responses=responses(401, 403, 404, 422)
)


@router.get("/{kind}", response_model=FigureRead)
async def get_figure(
    _: Reader,
    job_id: KnownJob,
    kind: FigureKind,
    transaction: TransactionDep,
    batch_size: Annotated[int | None, Query(ge=1)] = None,
    scheduler: str | None = None,
    theme: Theme = Theme.LIGHT,
    x: Annotated[Clock, Query(description="of tuning-best")] = Clock.TRIALS,
    rounds: Annotated[
        int, Query(ge=1, le=MOST_ROUNDS, description="of tuning-processes: the newest so many")
    ] = 8,
) -> Response:
    """Of a job for schedules: ``latency`` per scheduler, ``search`` progress, measurement
    ``rounds``, or the ``timeline`` of one schedule (the winner's if no scheduler is named).

    Of a job for kernels: ``tuning-best`` latency of each program, degree of
    ``tuning-parallelism`` with its bounds, ``tuning-deviation``, ``tuning-failures`` by kind, the
    timeline of ``tuning-processes``, and the use of the CPU, ``tuning-cpu``."""
    figures = FigureService(transaction.session)
    choice = FigureChoice(batch_size, scheduler, x, rounds)
    body = await figures.render(job_id, kind, choice, theme)
    return Response(body, media_type="application/json")
