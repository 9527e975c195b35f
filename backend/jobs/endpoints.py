"""Creating, listing, cancelling, retrying and resuming jobs."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Response, status

from backend.auth.dependencies import Reader, Writer
from backend.edge import TransactionDep
from backend.jobs.repository import JobRepository
from backend.jobs.schemas import JobCreate, JobPage, JobRead, Purpose
from backend.jobs.service import JobService
from backend.jobs.states import JobState
from backend.pagination import Limit, split
from backend.problems import responses
from backend.services import ServicesDep

router = APIRouter(prefix="/jobs", tags=["jobs"], responses=responses(401, 403, 422))


async def _service(services: ServicesDep, transaction: TransactionDep) -> JobService:
    return JobService(transaction, services.announcer, services.doorbell)


Jobs = Annotated[JobService, Depends(_service)]
States = Annotated[tuple[JobState, ...], Query(description="only jobs in these states")]
Purposes = Annotated[
    Purpose | Literal["all"] | None,
    Query(description="what the jobs are for; without it all but inspections, which are short"),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        description="with the same key, asking again returns the first job instead of a second",
    ),
]


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    responses={200: {"model": JobRead, "description": "The job of this Idempotency-Key"}},
)
async def create_job(
    principal: Writer,
    jobs: Jobs,
    wanted: JobCreate,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobRead:
    """Queue a job: model + device + batch sizes + schedulers + budget."""
    job, created = await jobs.create(wanted, principal.key, idempotency_key)
    response.headers["Location"] = f"/api/v1/jobs/{job.id}"
    if not created:
        response.status_code = status.HTTP_200_OK
    return JobRead.model_validate(job)


@router.get("")
async def list_jobs(
    _: Reader,
    transaction: TransactionDep,
    state: States = (),
    purpose: Purposes = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> JobPage:
    """Jobs, newest first; those that tune schedules or kernels, unless asked for others."""
    rows = await JobRepository(transaction.session).page(state, _wanted(purpose), cursor, limit)
    page, following = split(rows, limit)
    return JobPage(items=[JobRead.model_validate(job) for job in page], next_cursor=following)


def _wanted(purpose: Purpose | Literal["all"] | None) -> list[Purpose]:
    if purpose is None:
        return [Purpose.TUNE, Purpose.KERNELS]
    return list(Purpose) if purpose == "all" else [Purpose(purpose)]


@router.get("/{job_id}", responses=responses(404))
async def get_job(_: Reader, jobs: Jobs, job_id: UUID) -> JobRead:
    """One job."""
    return JobRead.model_validate(await jobs.get(job_id))


@router.post("/{job_id}/cancel", responses=responses(404, 409))
async def cancel_job(_: Writer, jobs: Jobs, job_id: UUID) -> JobRead:
    """End a job: at once while it is queued, else as soon as its worker has stopped it."""
    return JobRead.model_validate(await jobs.cancel(job_id))


@router.post("/{job_id}/retry", responses=responses(404, 409))
async def retry_job(_: Writer, jobs: Jobs, job_id: UUID) -> JobRead:
    """Queue a failed or cancelled job again; what was measured is not measured twice."""
    return JobRead.model_validate(await jobs.retry(job_id))


@router.post("/{job_id}/resume", responses=responses(404, 409))
async def resume_job(_: Writer, jobs: Jobs, job_id: UUID) -> JobRead:
    """Let a cancelled or failed job for kernels go on where it was: it keeps its records."""
    return JobRead.model_validate(await jobs.resume(job_id))
