"""Carrying the ProfileIndex from one service to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from backend.auth.dependencies import Reader, TrustedUploader
from backend.db.transaction import transaction
from backend.edge import TransactionDep
from backend.problems import responses
from backend.profiles.lines import batches, check_lines
from backend.profiles.repository import ProfileRepository, export
from backend.profiles.schemas import ProfileImport, ProfileSummary
from backend.results.download import disposition
from backend.services import ServicesDep
from backend.uploads.receiver import check_announced_size, receive, scratch_directory

router = APIRouter(prefix="/profiles", tags=["profiles"], responses=responses(401, 403, 422))

MEDIA_TYPE = "application/x-ndjson"
STORED_AT_ONCE = 500  # 12 parameters each; PostgreSQL takes 65,535 in one statement

Fingerprint = Annotated[
    str | None, Query(description="only what was measured on the device of this fingerprint")
]
OfProvider = Annotated[str | None, Query(description="only what was measured with its kernels")]
_LINES = {
    "requestBody": {
        "required": True,
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get(
    "",
    response_class=StreamingResponse,
    responses={200: {"content": {MEDIA_TYPE: {}}, "description": "A ProfileLine a line"}},
)
async def export_profiles(
    _: Reader,
    services: ServicesDep,
    device_fingerprint: Fingerprint = None,
    provider: OfProvider = None,
) -> StreamingResponse:
    """Every measurement, one JSON object a line, in the form in which ``POST /profiles`` takes
    them."""
    found = export(services.sessions, device_fingerprint, provider)
    headers = {"Content-Disposition": disposition("profiles.jsonl")}
    return StreamingResponse(_encoded(found), media_type=MEDIA_TYPE, headers=headers)


async def _encoded(lines: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


@router.post("", openapi_extra=_LINES, responses=responses(413, 507))
async def import_profiles(
    _: TrustedUploader, services: ServicesDep, request: Request
) -> ProfileImport:
    """Store measurements: the body is an export. All lines are stored, or none if one is wrong;
    what this service has measured itself stays. Schedules are chosen by what the index says, so
    this needs the scope ``upload:trusted``."""
    limit = services.settings.max_upload_bytes
    check_announced_size(request, limit)
    # The transaction begins when the bytes are here: a slow client must not hold a connection.
    async with receive(request, scratch_directory(services.settings), limit) as received:
        lines = await asyncio.to_thread(check_lines, received.path)
        imported = 0
        async with transaction(services.sessions) as storing:
            profiles = ProfileRepository(storing.session)
            for batch in batches(received.path, STORED_AT_ONCE):
                imported += await profiles.insert_if_new(batch)
    return ProfileImport(lines=lines, imported=imported)


@router.get("/summary")
async def summarise_profiles(_: Reader, transaction: TransactionDep) -> list[ProfileSummary]:
    """How many measurements there are, by device and provider."""
    profiles = ProfileRepository(transaction.session)
    names = await profiles.device_names()
    return [
        ProfileSummary(**counted._asdict(), devices=names.get(counted.device_fingerprint, []))
        for counted in await profiles.count()
    ]
