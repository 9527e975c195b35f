"""Sending a stored file."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import orjson
from fastapi import Response
from fastapi.responses import StreamingResponse

from backend.db.tables import Artifact, TuningKernel
from backend.problems import NotFoundError
from backend.storage import Storage


async def attachment(storage: Storage, artifact: Artifact | TuningKernel) -> StreamingResponse:
    """The artifact in blocks, read outside the event loop. Raises NotFoundError if its file is
    gone, before anything is sent."""
    try:
        size = await asyncio.to_thread(storage.size, artifact.storage_key)
    except FileNotFoundError:
        raise NotFoundError(
            f"the file {artifact.filename} is no longer in storage; retry job {artifact.job_id}"
        ) from None
    return StreamingResponse(
        storage.read(artifact.storage_key),
        media_type="application/zip",
        headers={
            "Content-Length": str(size),
            "Content-Disposition": disposition(artifact.filename),
            "ETag": f'"{artifact.sha256}"',
        },
    )


def json_attachment(document: Any, filename: str) -> Response:
    """A JSON document to be saved as ``filename``."""
    return Response(
        orjson.dumps(document),
        media_type="application/json",
        headers={"Content-Disposition": disposition(filename)},
    )


def disposition(filename: str) -> str:
    """The header that has a browser save what it gets under this name, whatever is in it."""
    return f"attachment; filename*=UTF-8''{quote(filename)}"
