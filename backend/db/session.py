"""Engines and sessions: asynchronous for the API, synchronous for the workers and the CLI."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, sessionmaker

from backend.settings import Settings

DRIVER = "postgresql+psycopg"
CONNECT_SECONDS = 5


def database_url(settings: Settings) -> URL:
    """The settings' database with psycopg 3 as its driver. Raises ValueError if it is no
    PostgreSQL or not set."""
    return normalise_url(settings.database_url.get_secret_value())


def normalise_url(text: str) -> URL:
    """Accept ``postgres://`` and ``postgresql://`` URLs as hosts commonly spell them."""
    if not text:
        raise ValueError("DATABASE_URL is not set")
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in ("postgres", "postgresql", DRIVER):
        raise ValueError(f"DATABASE_URL must be a postgresql:// URL, not {scheme}://…")
    return make_url(f"{DRIVER}://{rest}")


def _options() -> dict[str, Any]:
    """What both kinds of engine share. The ping before each use means that a database that was
    restarted costs no failed request."""
    return {
        "pool_pre_ping": True,
        "connect_args": {"connect_timeout": CONNECT_SECONDS, "application_name": "plait"},
        "json_serializer": lambda value: orjson.dumps(value).decode(),
        "json_deserializer": orjson.loads,
    }


def create_engine_for_api(settings: Settings) -> AsyncEngine:
    return create_async_engine(
        database_url(settings),
        pool_size=8,
        max_overflow=8,
        pool_timeout=10,
        **_options(),
    )


def create_sessions(engine: AsyncEngine) -> async_sessionmaker[AsyncSession]:
    """Objects stay readable after the commit, when events are announced and bodies written."""
    return async_sessionmaker(engine, expire_on_commit=False)


def create_sync_engine(settings: Settings) -> Engine:
    return create_engine(
        database_url(settings),
        pool_size=2,
        max_overflow=8,
        **_options(),
    )


def create_sync_sessions(settings: Settings) -> sessionmaker[Session]:
    """Sessions of an engine of their own; ``sessions.kw["bind"].dispose()`` closes it."""
    return sessionmaker(create_sync_engine(settings))
