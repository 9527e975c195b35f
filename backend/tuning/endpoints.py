"""What a job for kernels tunes, its rounds, trials and kernels."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from backend.auth.dependencies import Reader
from backend.edge import TransactionDep
from backend.jobs.dependencies import KnownJob
from backend.jobs.repository import JobRepository
from backend.problems import NotFoundError, responses
from backend.results.download import attachment
from backend.services import ServicesDep
from backend.tuning.repository import TuningRepository
from backend.tuning.schemas import TuningKernelRead, TuningRead, TuningRoundRead, TuningTrialRead
from backend.tuning.service import overview

router = APIRouter(
    prefix="/jobs/{job_id}/tuning", tags=["tuning"], responses=responses(401, 403, 404, 422)
)

After = Annotated[int, Query(ge=0, description="only those behind this number")]
Most = Annotated[int, Query(ge=1, le=1000, description="at most so many")]


@router.get("")
async def get_tuning(_: Reader, job_id: UUID, transaction: TransactionDep) -> TuningRead:
    """What the job tunes and how far it is."""
    job = await JobRepository(transaction.session).get(job_id)
    if job is None:
        raise NotFoundError(f"there is no job {job_id}")
    return await overview(transaction.session, job)


@router.get("/rounds")
async def list_tuning_rounds(
    _: Reader, job_id: KnownJob, transaction: TransactionDep, after: After = 0, limit: Most = 200
) -> list[TuningRoundRead]:
    """The history of the degree of parallelism: the job's rounds, in order."""
    found = await TuningRepository(transaction.session).rounds(job_id, after, limit)
    return [TuningRoundRead.model_validate(row) for row in found]


@router.get("/trials")
async def list_tuning_trials(
    _: Reader,
    job_id: KnownJob,
    transaction: TransactionDep,
    program: Annotated[str | None, Query(description="only its, by key")] = None,
    after: After = 0,
    limit: Most = 200,
    trace: Annotated[bool, Query(description="with what their kernels are built from")] = False,
) -> list[TuningTrialRead]:
    """The candidates that were measured or failed, in order."""
    repository = TuningRepository(transaction.session)
    found = await repository.trials(job_id, program, after, limit, trace)
    return [TuningTrialRead.model_validate(row) for row in found]


@router.get("/kernels")
async def list_tuning_kernels(
    _: Reader, job_id: KnownJob, transaction: TransactionDep
) -> list[TuningKernelRead]:
    """The best kernel of each program that is tuned, with its source."""
    found = await TuningRepository(transaction.session).kernels(job_id)
    return [TuningKernelRead.model_validate(row) for row in found]


@router.get(
    "/kernels/{candidate}/download",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/zip": {}}, "description": "The zip"}},
)
async def download_tuning_kernel(
    _: Reader, job_id: UUID, candidate: str, services: ServicesDep, transaction: TransactionDep
) -> StreamingResponse:
    """A zip with the kernel's library, its source, and a ``run.py`` that needs only TVM."""
    kernel = await TuningRepository(transaction.session).kernel(job_id, candidate)
    if kernel is None:
        raise NotFoundError(f"job {job_id} has no kernel {candidate}")
    return await attachment(services.storage, kernel)
