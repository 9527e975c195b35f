"""The local stack: embedded servers, the API, a worker and beat, started, watched and stopped."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from backend.settings import Settings

STOP_SECONDS = 15.0
MAX_LOG_BYTES = 8 * 1024**2
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """In the child: SIGTERM when `plait up` dies, even by kill -9, so that nothing lingers."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class Part:
    """One process of the stack; restarted when it dies, more slowly each time."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0
    next_start: float = 0.0
    started: float = field(default=0.0)

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us alone; we stop the parts in order
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # this process has no threads
            )
        self.started = time.monotonic()

    def revive(self) -> int | None:
        """Restart a dead process once its pause is over; its exit code if it was found dead."""
        now = time.monotonic()
        if self.process is not None:
            code = self.process.poll()
            if code is None:
                return None
            self.process = None
            self.failures = 1 if now - self.started > 60 else self.failures + 1
            self.next_start = now + min(2.0 ** (self.failures - 1), 30.0) - 1.0
            return code
        if now >= self.next_start:
            self.start()
        return None

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for what does not end."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None


def parts(settings: Settings) -> list[Part]:
    """The processes of one machine, in the order in which they start."""
    environment = {
        **os.environ,
        "PLAIT_HOME": str(settings.home),
        "PLAIT_HOST": settings.host,
        "PLAIT_PORT": str(settings.port),
        "DATABASE_URL": settings.database_url.get_secret_value(),
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "PYTHONUNBUFFERED": "1",
    }
    commands = {
        "api": [sys.executable, "-m", "backend"],
        "worker": [sys.executable, "-m", "workers"],
        "beat": [
            *(sys.executable, "-m", "celery", "-A", "workers.app:celery_app", "beat"),
            *("--loglevel=WARNING", f"--schedule={settings.home / 'beat-schedule'}", "--pidfile="),
        ],
    }
    logs = settings.home / "logs"
    return [Part(name, cmd, environment, logs / f"{name}.log") for name, cmd in commands.items()]


def serve(running: list[Part], say: Callable[[str], None]) -> NoReturn:
    """Watch over the parts until interrupted; the caller stops them."""
    while True:
        for part in running:
            code = part.revive()
            if code is not None:
                say(f"{part.name} ended with code {code} (log: {part.log}); starting it again")
        time.sleep(0.5)
