"""Writing a request's body to a scratch file, with its hash, without blocking the event loop."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import uuid4

from fastapi import Request

from backend.problems import FieldError, InsufficientStorageError, TooLargeError
from backend.settings import Settings

BLOCK_BYTES = 1 << 20  # collected before a thread hashes and writes it
SCRATCH_SECONDS = 86_400.0  # what a killed process left is cleared after this long


@dataclass(frozen=True, slots=True)
class Received:
    """A body that arrived whole."""

    path: Path
    sha256: str
    size_bytes: int


def scratch_directory(settings: Settings) -> Path:
    """Where bodies wait to be checked; on the same filesystem as the default storage."""
    return settings.home / "incoming"


def clear_scratch(directory: Path) -> None:
    """Delete what processes that were killed mid-upload left behind."""
    horizon = time.time() - SCRATCH_SECONDS
    for path in directory.glob("*.part"):
        if path.stat().st_mtime < horizon:
            path.unlink(missing_ok=True)


def check_announced_size(request: Request, limit: int) -> None:
    """Raises TooLargeError for a Content-Length beyond the limit, before anything is read."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)


@asynccontextmanager
async def receive(request: Request, directory: Path, limit: int) -> AsyncIterator[Received]:
    """The body in a file under ``directory`` that is gone at the end, unless it was moved away.

    Raises TooLargeError past ``limit`` bytes, and ClientDisconnect if the client leaves.
    """
    path = directory / f"{uuid4().hex}.part"
    digest, size = hashlib.sha256(), 0
    try:
        with await asyncio.to_thread(_create, path) as file:
            async for block in _blocks(request):
                size += len(block)
                if size > limit:
                    raise _too_large(limit)
                await asyncio.to_thread(_write, file, digest, block)
        yield Received(path, digest.hexdigest(), size)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise InsufficientStorageError(
                "the server's disk is full; nothing was stored"
            ) from None
        raise
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)


async def _blocks(request: Request) -> AsyncIterator[bytes]:
    pending = bytearray()
    async for chunk in request.stream():
        pending += chunk
        if len(pending) >= BLOCK_BYTES:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)


def _create(path: Path) -> IO[bytes]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path.open("xb")


def _write(file: IO[bytes], digest: hashlib._Hash, block: bytes) -> None:
    digest.update(block)
    file.write(block)


def _too_large(limit: int) -> TooLargeError:
    message = f"larger than the limit of {limit} bytes (PLAIT_MAX_UPLOAD_BYTES)"
    return TooLargeError(
        f"the file is {message}", errors=(FieldError(field="file", message=message),)
    )
