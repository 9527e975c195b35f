"""Listing the zoo."""

from __future__ import annotations

from fastapi import APIRouter

from backend.auth.dependencies import Reader
from backend.devices.repository import DeviceRepository
from backend.devices.service import zoo
from backend.edge import TransactionDep
from backend.models.schemas import ZooModelRead
from backend.problems import responses

router = APIRouter(prefix="/models", tags=["models"], responses=responses(401, 403, 422))


@router.get("/zoo")
async def list_zoo_models(_: Reader, transaction: TransactionDep) -> list[ZooModelRead]:
    """The models that some device can build by name."""
    devices = await DeviceRepository(transaction.session).all()
    return [
        ZooModelRead(name=name, source=f"zoo:{name}", devices=offering)
        for name, offering in zoo(devices).items()
    ]
