"""Health for probes and people, metrics for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from backend.auth.dependencies import Reader
from backend.edge import TransactionDep
from backend.health.schemas import HealthRead, HealthStatus
from backend.health.service import examine
from backend.jobs.repository import JobRepository
from backend.problems import responses
from backend.services import ServicesDep

router = APIRouter(tags=["health"])


@router.get("/healthz", responses={503: {"model": HealthRead, "description": "Unavailable"}})
async def get_health(services: ServicesDep, response: Response) -> HealthRead:
    """Database, Redis, migration level and the workers' last progress. Needs no token."""
    health = await examine(services)
    if health.status is HealthStatus.UNAVAILABLE:
        response.status_code = 503
    return health


@router.get("/metrics", response_class=Response, responses=responses(401, 403))
async def get_metrics(_: Reader, services: ServicesDep, transaction: TransactionDep) -> Response:
    """Metrics in Prometheus' text format."""
    metrics = services.metrics
    for state, count in (await JobRepository(transaction.session).count_by_state()).items():
        metrics.jobs.labels(state).set(count)
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
