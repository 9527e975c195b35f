"""Fixtures for whatever needs the real services. Each test finds empty tables."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import hypothesis
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy.orm import Session, sessionmaker
from support.services import Servers, running_servers, serving

from backend.app import create_app
from backend.auth.service import create_token
from backend.db.session import create_sync_sessions
from backend.settings import Settings

TokenMaker = Callable[..., str]

# Two processes share the machine with what they test: how long an example takes says nothing.
hypothesis.settings.register_profile("plait", deadline=None)
hypothesis.settings.load_profile("plait")


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Not under pytest's own folder: every pytest that starts makes that private to its user
    again, and as root PostgreSQL runs as another one."""
    with (
        tempfile.TemporaryDirectory(prefix="plait-tests-") as home,
        running_servers(Path(home)) as running,
    ):
        yield running


@pytest.fixture
def clean_servers(servers: Servers) -> Servers:
    servers.clean()
    return servers


@pytest.fixture
def database_url(clean_servers: Servers) -> str:
    return clean_servers.database_url


@pytest.fixture
def redis_url(clean_servers: Servers) -> str:
    return clean_servers.redis_url


@pytest.fixture
def settings(database_url: str, redis_url: str, tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path / "home",
        database_url=SecretStr(database_url),
        redis_url=SecretStr(redis_url),
        max_upload_bytes=1 << 20,
    )


@pytest.fixture
def sessions(settings: Settings) -> Iterator[sessionmaker[Session]]:
    """Synchronous sessions, as the workers use them."""
    made = create_sync_sessions(settings)
    yield made
    made.kw["bind"].dispose()


@pytest.fixture
def token(settings: Settings, sessions: sessionmaker[Session]) -> TokenMaker:
    """Makes a token with the scopes that it is given."""

    def make(*scopes: str) -> str:
        with sessions() as session, session.begin():
            return create_token(session, settings, name="test", scopes=scopes)

    return make


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The API, started, in this process."""
    made = create_app(settings)
    async with made.router.lifespan_context(made):
        yield made


@pytest.fixture
async def anonymous(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of ``app`` that presents nothing."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as made:
        yield made


@pytest.fixture
async def client(anonymous: httpx.AsyncClient, token: TokenMaker) -> httpx.AsyncClient:
    """A client of ``app`` that may do everything."""
    anonymous.headers["Authorization"] = f"Bearer {token('admin')}"
    return anonymous


@pytest.fixture
def server(settings: Settings) -> Iterator[str]:
    """The address of the API behind uvicorn, for streams and for what needs a real connection."""
    with serving(settings) as address:
        yield address
