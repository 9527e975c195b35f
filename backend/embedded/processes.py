"""Waiting for processes that are not our children."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psutil

POLL_SECONDS = 0.02


def wait_until_ended(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that have not ended after ``seconds``. One that ended but was never reaped, as under
    a careless init of a container, has ended."""
    waiting = list(processes)
    deadline = time.monotonic() + seconds
    while (waiting := [p for p in waiting if not _ended(p)]) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return waiting


def _ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
