"""Looking at each part of the service, with an answer even when a part is gone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from redis.exceptions import RedisError
from sqlalchemy import func, select, text
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError

from backend.db.tables import Device
from backend.devices.service import silence_allowed
from backend.health.schemas import Check, Checks, HealthRead, HealthStatus
from backend.services import Services
from migrations import HEAD

PATIENCE_SECONDS = 3.0


async def examine(services: Services) -> HealthRead:
    """Without the database or with the wrong migration level nothing works; without Redis or a
    worker, jobs and events are late."""
    redis, (database, migrations, worker, progress) = await asyncio.gather(
        _redis(services), _database(services)
    )
    checks = Checks(database=database, redis=redis, migrations=migrations, worker=worker)
    if not (database.ok and migrations.ok):
        status = HealthStatus.UNAVAILABLE
    elif not (redis.ok and worker.ok):
        status = HealthStatus.DEGRADED
    else:
        status = HealthStatus.OK
    return HealthRead(
        status=status, version=_version(), checks=checks, last_worker_progress_at=progress
    )


async def _redis(services: Services) -> Check:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await services.redis.ping()
    except (RedisError, OSError, TimeoutError) as error:
        return Check(ok=False, detail=f"does not answer ({type(error).__name__})")
    if not services.hub.connected:
        return Check(ok=False, detail="answers, but events are not listened to yet")
    return Check(ok=True, detail="answers")


async def _database(services: Services) -> tuple[Check, Check, Check, datetime | None]:
    unknown = Check(ok=False, detail="not known without the database")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), services.autocommit.connect() as connection:
            await connection.execute(text("SELECT 1"))
            answering = Check(ok=True, detail="answers")
            try:
                found = await connection.scalar(text("SELECT version_num FROM alembic_version"))
                progress = await connection.scalar(select(func.max(Device.last_progress_at)))
            except ProgrammingError:
                empty = Check(ok=False, detail="no tables; run `plait up` or the migrations")
                return answering, empty, unknown, None
    except (SQLAlchemyError, OSError, TimeoutError) as error:
        gone = Check(ok=False, detail=f"does not answer ({type(error).__name__})")
        return gone, unknown, unknown, None
    return answering, _level(found), _worker(services, progress), progress


def _level(found: str | None) -> Check:
    if found == HEAD:
        return Check(ok=True, detail=f"at {found}")
    return Check(ok=False, detail=f"at {found}, this version needs {HEAD}")


def _worker(services: Services, progress: datetime | None) -> Check:
    if progress is None:
        return Check(ok=False, detail="no worker has ever started")
    silence = datetime.now(UTC) - progress
    ok = silence <= silence_allowed(services.settings)
    return Check(ok=ok, detail=f"last progress {silence.total_seconds():.0f} s ago")


def _version() -> str:
    try:
        return version("plait")
    except PackageNotFoundError:
        return "not installed"
