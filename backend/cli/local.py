"""Where this machine's own stack is, and how a command finds it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from backend.settings import Settings

RUN_FILE = "run.json"
CLI_TOKEN_FILE = "cli-token"  # noqa: S105  # a file's name


class NotRunningError(RuntimeError):
    """There is no service here and nothing says where else it is."""


@dataclass(frozen=True, slots=True)
class RunningStack:
    """What ``plait up`` leaves in ``PLAIT_HOME/run.json`` while it serves."""

    pid: int
    url: str
    database_url: str
    redis_url: str


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in place of any older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".new")
    scratch.unlink(missing_ok=True)
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    scratch.replace(path)


def announce_stack(home: Path, stack: RunningStack) -> None:
    write_private(home / RUN_FILE, json.dumps(asdict(stack)))


def running_stack(home: Path) -> RunningStack | None:
    """The stack that ``plait up`` is serving from ``home``, or None."""
    try:
        stack = RunningStack(**json.loads((home / RUN_FILE).read_text()))
        os.kill(stack.pid, 0)
    except (FileNotFoundError, ProcessLookupError, json.JSONDecodeError, TypeError):
        return None
    return stack


def database_settings(settings: Settings) -> Settings:
    """Settings with the running local stack's database, unless DATABASE_URL names one."""
    if settings.database_url.get_secret_value():
        return settings
    stack = running_stack(settings.home)
    if stack is None:
        raise NotRunningError(
            f"no database: set DATABASE_URL, or start Plait with `plait up` (PLAIT_HOME is "
            f"{settings.home})"
        )
    return Settings(
        **{
            **settings.model_dump(),
            "database_url": stack.database_url,
            "redis_url": stack.redis_url,
        }
    )
