"""Devices in the database; workers write them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from backend.db.tables import Device


class DeviceRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def all(self) -> Sequence[Device]:
        """Every device that a worker ever offered, by name."""
        return (await self._session.scalars(select(Device).order_by(Device.name))).all()
