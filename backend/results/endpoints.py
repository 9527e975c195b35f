"""What a job found: latencies, schedules, artifacts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse

from backend.auth.dependencies import Reader
from backend.edge import TransactionDep
from backend.jobs.dependencies import KnownJob
from backend.problems import NotFoundError, responses
from backend.results.alternatives import require_schedule
from backend.results.download import attachment, json_attachment
from backend.results.filenames import result_filename
from backend.results.repository import ResultRepository
from backend.results.schemas import ArtifactRead, ResultRead
from backend.results.trace import TraceSubject, chrome_trace, device_words
from backend.services import ServicesDep

router = APIRouter(
    prefix="/jobs/{job_id}", tags=["results"], responses=responses(401, 403, 404, 422)
)


@router.get("/results")
async def list_results(
    _: Reader, job_id: KnownJob, transaction: TransactionDep
) -> list[ResultRead]:
    """The job's results so far, by batch size, the best place first."""
    results = await ResultRepository(transaction.session).of_job(job_id)
    return [ResultRead.model_validate(result) for result in results]


@router.get("/results/{result_id}/schedule")
async def get_schedule(
    _: Reader, job_id: UUID, result_id: UUID, transaction: TransactionDep
) -> dict[str, Any]:
    """The schedule, as the artifact's ``schedule.json`` has it."""
    result = await ResultRepository(transaction.session).get(job_id, result_id)
    if result is None:
        raise NotFoundError(f"job {job_id} has no result {result_id}")
    require_schedule(result)
    return result.schedule


@router.get(
    "/results/{result_id}/trace",
    response_class=Response,
    responses={200: {"content": {"application/json": {}}, "description": "A Chrome trace"}},
)
async def get_trace(
    _: Reader, job_id: UUID, result_id: UUID, transaction: TransactionDep
) -> Response:
    """The result's timeline as a Chrome trace: open it in ui.perfetto.dev or chrome://tracing."""
    found = await ResultRepository(transaction.session).timeline(job_id, result_id)
    if found is None:
        raise NotFoundError(f"job {job_id} has no timeline of a result {result_id}")
    job, result, timeline = found
    require_schedule(result)
    subject = TraceSubject(
        model=job.model_name,
        batch_size=result.batch_size,
        scheduler=result.scheduler,
        device=device_words(job.device, result.environment),
        provider=result.provider,
        simulated=result.simulated,
        latency_ms=result.latency_ms,
    )
    name = result_filename(job.model_name, result.batch_size, result.scheduler, "trace.json")
    return json_attachment(chrome_trace(subject, timeline.spans, timeline.resident_warps), name)


@router.get("/artifacts")
async def list_artifacts(
    _: Reader, job_id: KnownJob, transaction: TransactionDep
) -> list[ArtifactRead]:
    """The files that the job offers for download, by batch size."""
    artifacts = await ResultRepository(transaction.session).artifacts(job_id)
    return [ArtifactRead.model_validate(artifact) for artifact in artifacts]


@router.get(
    "/artifacts/{artifact_id}/download",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/zip": {}}, "description": "The zip"}},
)
async def download_artifact(
    _: Reader,
    job_id: UUID,
    artifact_id: UUID,
    services: ServicesDep,
    transaction: TransactionDep,
) -> StreamingResponse:
    """A zip with the schedule, the model and a ``run.py`` that needs only torch."""
    artifact = await ResultRepository(transaction.session).artifact(job_id, artifact_id)
    if artifact is None:
        raise NotFoundError(f"job {job_id} has no artifact {artifact_id}")
    return await attachment(services.storage, artifact)
