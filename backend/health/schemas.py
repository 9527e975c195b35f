"""Wire forms of the service's health."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel


class HealthStatus(StrEnum):
    """``degraded``: works, but slower or with jobs waiting. ``unavailable`` answers 503."""

    OK = "ok"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


class Check(BaseModel):
    ok: bool
    detail: str


class Checks(BaseModel):
    database: Check
    redis: Check
    migrations: Check
    worker: Check


class HealthRead(BaseModel):
    status: HealthStatus
    version: str
    checks: Checks
    last_worker_progress_at: datetime | None
