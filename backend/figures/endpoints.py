"""Figures of a job, as Plotly JSON."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from backend.auth.dependencies import Reader
from backend.edge import TransactionDep
from backend.figures.schemas import FigureKind, FigureRead, Theme
from backend.figures.service import FigureService
from backend.jobs.dependencies import KnownJob
from backend.problems import responses

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
) -> Response:
    """``latency`` per scheduler, ``search`` progress, measurement ``rounds``, or the ``timeline``
    of one schedule (the winner's if no scheduler is named)."""
    figures = FigureService(transaction.session)
    body = await figures.render(job_id, kind, batch_size, scheduler, theme)
    return Response(body, media_type="application/json")
