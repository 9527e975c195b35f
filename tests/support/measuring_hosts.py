"""A measuring worker as another machine runs it, in a process of its own on this one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from backend.db.tables import MeasuringHost
from backend.settings import Settings

START_SECONDS = 60.0
QUICK = {
    "PLAIT_LEASE_SECONDS": "2",
    "PLAIT_HEARTBEAT_SECONDS": "0.5",
    "PLAIT_SWEEP_SECONDS": "1",
    "PLAIT_ALLOW_NOISE": "1",
}


def service_environment(settings: Settings) -> dict[str, str]:
    return {
        **os.environ,
        "PLAIT_HOME": str(settings.home),
        "PLAIT_STORAGE_URL": settings.storage_url,
        "DATABASE_URL": settings.database_url.get_secret_value(),
        "REDIS_URL": settings.redis_url.get_secret_value(),
    }


@contextmanager
def measuring_worker(
    environment: dict[str, str], sessions: sessionmaker[Session], log: Path, name: str = "other"
) -> Iterator[subprocess.Popen[bytes]]:
    """``python -m workers --measure``, registered when this is entered."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "workers", "--measure", "--name", name],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while name_of_cpu(name) not in registered(sessions):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def name_of_cpu(name: str) -> str:
    return f"cpu@{name}"


def registered(sessions: sessionmaker[Session]) -> list[str]:
    with sessions() as session:
        return list(session.scalars(select(MeasuringHost.name)))
