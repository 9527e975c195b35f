"""Listing devices."""

from __future__ import annotations

from fastapi import APIRouter

from backend.auth.dependencies import Reader
from backend.devices.repository import DeviceRepository
from backend.devices.schemas import DeviceRead
from backend.devices.service import describe
from backend.edge import TransactionDep
from backend.problems import responses
from backend.services import ServicesDep

router = APIRouter(prefix="/devices", tags=["devices"], responses=responses(401, 403, 422))


@router.get("")
async def list_devices(
    _: Reader, services: ServicesDep, transaction: TransactionDep
) -> list[DeviceRead]:
    """Every device that a worker ever offered, by name."""
    devices = await DeviceRepository(transaction.session).all()
    return [describe(device, services.settings) for device in devices]
