"""Real PostgreSQL and Valkey for tests, and the API served for real."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from redis import Redis

from backend import embedded
from backend.db import migrate
from backend.db.tables import Base
from backend.server import Server, create_server
from backend.settings import Settings

# Tests survive no power failure, so nothing needs to reach the disk.
UNSAFE_BUT_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
# A TRUNCATE of as many tables takes 50 ms, as it makes new files.
EMPTY = "; ".join(f"DELETE FROM {table.name}" for table in reversed(Base.metadata.sorted_tables))
START_SECONDS = 20.0


@dataclass(frozen=True)
class Servers:
    """Where the session's servers are."""

    database_url: str
    redis_url: str

    def clean(self) -> None:
        """Empty both."""
        with psycopg.connect(libpq_url(self.database_url), autocommit=True) as connection:
            connection.execute(EMPTY)
        with Redis.from_url(self.redis_url) as client:
            client.flushall()


@contextmanager
def running_servers(home: Path) -> Iterator[Servers]:
    """Migrated PostgreSQL and Valkey under ``home``."""
    postgres = embedded.start_postgres(home, UNSAFE_BUT_FAST)
    try:
        valkey = embedded.start_valkey(home)
        try:
            migrate.upgrade(postgres.url)
            yield Servers(postgres.url, valkey.url)
        finally:
            valkey.stop()
    finally:
        postgres.stop()


def libpq_url(url: str) -> str:
    """The URL as libpq knows it, without SQLAlchemy's driver."""
    return url.replace("+psycopg://", "://")


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """The API behind uvicorn on a free port of its own; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = create_server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            _wait_until_started(server, thread)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(START_SECONDS)
    assert not thread.is_alive(), "the API did not stop"


def _wait_until_started(server: Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        assert thread.is_alive(), "the API ended while it started"
        assert time.monotonic() < deadline, "the API did not start"
        time.sleep(0.005)
