"""What one API process holds for as long as it runs; every request sees the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

from backend.auth.secrets import Digester
from backend.events.announcer import Announcer
from backend.events.hub import EventHub
from backend.jobs.doorbell import Doorbell
from backend.metrics import Metrics
from backend.settings import Settings
from backend.storage import Storage


@dataclass(frozen=True, slots=True)
class Services:
    settings: Settings
    engine: AsyncEngine
    autocommit: AsyncEngine  # the same, for single statements without a transaction around them
    sessions: async_sessionmaker[AsyncSession]
    redis: Redis
    hub: EventHub
    announcer: Announcer
    doorbell: Doorbell
    storage: Storage
    metrics: Metrics
    digest: Digester


async def services(request: Request) -> Services:
    """The services of the app that handles ``request``."""
    held: Services = request.app.state.services
    return held


ServicesDep = Annotated[Services, Depends(services)]
