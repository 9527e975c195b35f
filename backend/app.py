"""The API: resources, what wraps every request, and what runs beside them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import APIRouter, FastAPI
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from backend.auth import endpoints as auth
from backend.auth.secrets import digester
from backend.db.session import create_engine_for_api, create_sessions
from backend.devices.endpoints import router as devices
from backend.events.announcer import Announcer
from backend.events.endpoints import router as events
from backend.events.hub import EventHub
from backend.figures.endpoints import router as figures
from backend.frontend import DIST, serve_frontend
from backend.health.endpoints import router as health
from backend.jobs.doorbell import Doorbell
from backend.jobs.endpoints import router as jobs
from backend.metrics import Metrics
from backend.middleware import add_middleware
from backend.models.endpoints import router as models
from backend.openapi import document, operation_id
from backend.problem_handlers import add_problem_handlers
from backend.profiles.endpoints import router as profiles
from backend.results.endpoints import router as results
from backend.services import Services
from backend.settings import Settings, get_settings
from backend.storage import Storage
from backend.tuning.endpoints import router as tuning
from backend.uploads.endpoints import router as uploads
from backend.uploads.receiver import clear_scratch, scratch_directory

API_VERSION = "1"
PREFIX = "/api/v1"
STREAMING = (f"{PREFIX}/uploads", f"{PREFIX}/profiles")
REDIS_SECONDS = 2.0


def create_app(settings: Settings | None = None, frontend: Path = DIST) -> FastAPI:
    """The whole API. Nothing is opened or connected to before the app starts up."""
    settings = settings or get_settings()
    app = FastAPI(
        title="Plait",
        version=API_VERSION,
        description="Scheduling-as-a-service for deep learning.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        openapi_url=f"{PREFIX}/openapi.json",
        generate_unique_id_function=operation_id,
        lifespan=_lifespan,
    )
    app.state.settings = settings
    app.state.metrics = Metrics()
    app.openapi = lambda: document(app)  # type: ignore[method-assign]  # FastAPI's documented way
    api = APIRouter(prefix=PREFIX)
    for router in (
        *(uploads, models, jobs, results, tuning, figures, events, devices, profiles),
        *(auth.tokens, auth.session, health),
    ):
        api.include_router(router)
    app.include_router(api)
    app.include_router(health, include_in_schema=False)  # where probes and Prometheus look
    app.include_router(auth.login)
    add_problem_handlers(app)
    add_middleware(app, settings, app.state.metrics, streaming=STREAMING)
    serve_frontend(app, frontend, PREFIX)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    engine = create_engine_for_api(settings)
    redis, listening = _redis(settings), _redis(settings)
    hub = EventHub(listening)
    app.state.services = Services(
        settings=settings,
        engine=engine,
        autocommit=engine.execution_options(isolation_level="AUTOCOMMIT"),
        sessions=create_sessions(engine),
        redis=redis,
        hub=hub,
        announcer=Announcer(redis),
        doorbell=Doorbell(settings.broker_url),
        storage=Storage(settings.storage_url),
        metrics=app.state.metrics,
        digest=digester(settings),
    )
    clear_scratch(scratch_directory(settings))
    listener = asyncio.create_task(hub.run())
    try:
        yield
    finally:
        hub.close()
        await _stop(listener)
        app.state.services.doorbell.close()
        for client in (redis, listening):
            await client.aclose()
        await engine.dispose()


async def _stop(task: asyncio.Task[None]) -> None:
    """Cancel until it is heard: redis-py loses a cancellation that comes while it connects."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.1)


def _redis(settings: Settings) -> Redis:
    """Retries once at once, for a connection that had gone stale; whoever calls copes otherwise."""
    return Redis.from_url(
        settings.redis_url.get_secret_value(),
        socket_timeout=REDIS_SECONDS,
        socket_connect_timeout=REDIS_SECONDS,
        health_check_interval=15,
        retry=Retry(NoBackoff(), 1),
    )
