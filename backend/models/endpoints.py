"""The zoo, and the graph of any model: what is known of it, and having it inspected."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Path, Query, Response, status

from backend.auth.dependencies import Reader, Writer
from backend.devices.repository import DeviceRepository
from backend.devices.service import zoo
from backend.edge import TransactionDep
from backend.jobs.schemas import MODEL_PATTERN, JobRead
from backend.jobs.service import JobService
from backend.models.schemas import (
    GraphFacts,
    GraphSettings,
    InspectionCreate,
    ModelRead,
    ZooModelRead,
)
from backend.models.service import ModelService
from backend.problems import responses
from backend.services import ServicesDep

router = APIRouter(prefix="/models", tags=["models"], responses=responses(401, 403, 422))


async def _service(services: ServicesDep, transaction: TransactionDep) -> ModelService:
    jobs = JobService(transaction, services.announcer, services.doorbell)
    return ModelService(transaction.session, jobs, services.settings)


Models = Annotated[ModelService, Depends(_service)]
Source = Annotated[
    str, Path(alias="model", pattern=MODEL_PATTERN, description="zoo:NAME or upload:ID")
]
Settings = Annotated[GraphSettings, Query()]


@router.get("/zoo")
async def list_zoo_models(_: Reader, transaction: TransactionDep) -> list[ZooModelRead]:
    """The models that some device can build by name."""
    devices = await DeviceRepository(transaction.session).all()
    return [
        ZooModelRead(name=name, source=f"zoo:{name}", devices=offering)
        for name, offering in zoo(devices).items()
    ]


@router.get("/{model}", responses=responses(404))
async def get_model(_: Reader, models: Models, source: Source) -> ModelRead:
    """One model, and which of its graphs are known."""
    return await models.get(source)


@router.get("/{model}/graph", response_model=GraphFacts, responses=responses(404))
async def get_model_graph(
    _: Reader, models: Models, source: Source, settings: Settings
) -> Response:
    """The facts of one graph: Units, Blocks and totals. 404 until it has been inspected."""
    facts = await models.facts(source, settings)
    return Response(orjson.dumps(facts), media_type="application/json")


@router.get("/{model}/inspections", responses=responses(404))
async def list_inspections(
    _: Reader, models: Models, source: Source, settings: Settings
) -> list[JobRead]:
    """The latest jobs that inspect one graph, newest first."""
    return [JobRead.model_validate(job) for job in await models.inspections(source, settings)]


@router.post(
    "/{model}/inspections",
    status_code=status.HTTP_201_CREATED,
    responses={
        **responses(404),
        200: {"model": JobRead, "description": "The inspection that is on its way already"},
    },
)
async def create_inspection(
    principal: Writer, models: Models, source: Source, wanted: InspectionCreate, response: Response
) -> JobRead:
    """Queue a job that imports the model and stores the facts of its graph."""
    job, created = await models.inspect(source, wanted, principal.key)
    response.headers["Location"] = f"/api/v1/jobs/{job.id}"
    if not created:
        response.status_code = status.HTTP_200_OK
    return JobRead.model_validate(job)
