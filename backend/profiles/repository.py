"""The ProfileIndex in the database; the workers read and write it too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from backend.db.tables import Device, ProfileEntry
from backend.profiles.schemas import ProfileLine

EXPORTED_AT_ONCE = 1000
_STORED = tuple(name for name in ProfileLine.model_fields if name != "version")


class Counted(NamedTuple):
    """Of one device, one provider, and either measured or simulated."""

    device_fingerprint: str
    provider: str
    simulated: bool
    entries: int
    failures: int
    newest_at: datetime


class ProfileRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def insert_if_new(self, lines: Sequence[ProfileLine]) -> int:
        """How many were new; what was measured before stays as it is."""
        statement = (
            insert(ProfileEntry)
            .values([line.model_dump(exclude={"version"}) for line in lines])
            .on_conflict_do_nothing()
            .returning(ProfileEntry.id)
        )
        return len((await self._session.scalars(statement)).all())

    async def count(self) -> list[Counted]:
        key = (ProfileEntry.device_fingerprint, ProfileEntry.provider, ProfileEntry.simulated)
        query = (
            select(
                *key,
                func.count(),
                func.count(ProfileEntry.failure),
                func.max(ProfileEntry.created_at),
            )
            .group_by(*key)
            .order_by(*key)
        )
        return [Counted(*row) for row in await self._session.execute(query)]

    async def device_names(self) -> dict[str, list[str]]:
        """The names of the devices of each fingerprint."""
        names: dict[str, list[str]] = {}
        query = select(Device.fingerprint, Device.name).order_by(Device.name)
        for fingerprint, name in await self._session.execute(query):
            names.setdefault(fingerprint, []).append(name)
        return names


async def export(
    sessions: async_sessionmaker[AsyncSession],
    device_fingerprint: str | None,
    provider: str | None,
) -> AsyncIterator[dict[str, Any]]:
    """The entries in the form of ProfileLine, in the order in which they were measured. They are
    read a few at a time, each in a transaction of its own: a slow reader holds no connection."""
    query = select(ProfileEntry).order_by(ProfileEntry.id).limit(EXPORTED_AT_ONCE)
    if device_fingerprint is not None:
        query = query.where(ProfileEntry.device_fingerprint == device_fingerprint)
    if provider is not None:
        query = query.where(ProfileEntry.provider == provider)
    seen = 0
    while True:
        async with sessions() as session:
            rows = (await session.scalars(query.where(ProfileEntry.id > seen))).all()
        for row in rows:
            yield _line(row)
        if len(rows) < EXPORTED_AT_ONCE:
            return
        seen = rows[-1].id


def _line(row: ProfileEntry) -> dict[str, Any]:
    """The form of ProfileLine, without its checks: the database holds nothing else."""
    return {"version": 1, **{name: getattr(row, name) for name in _STORED}}
