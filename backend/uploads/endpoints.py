"""Uploading model files."""

from __future__ import annotations

import asyncio
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response, status

from backend.auth.dependencies import Principal, Reader, Uploader, Writer
from backend.auth.scopes import Scope
from backend.db.transaction import transaction
from backend.devices.repository import DeviceRepository
from backend.devices.service import formats
from backend.edge import TransactionDep
from backend.pagination import Limit, split
from backend.problems import ForbiddenError, UnsupportedMediaTypeError, responses
from backend.services import Services, ServicesDep
from backend.uploads.contents import check_bytes
from backend.uploads.formats import FORMATS, format_of, sanitise
from backend.uploads.receiver import check_announced_size, receive, scratch_directory
from backend.uploads.repository import UploadRepository
from backend.uploads.schemas import UploadPage, UploadRead
from backend.uploads.service import UploadService

router = APIRouter(prefix="/uploads", tags=["uploads"], responses=responses(401, 403, 422))

_RAW_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


async def _service(services: ServicesDep, transaction: TransactionDep) -> UploadService:
    return UploadService(transaction, services.storage)


Uploads = Annotated[UploadService, Depends(_service)]


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    openapi_extra=_RAW_BODY,
    responses={
        200: {"model": UploadRead, "description": "The same bytes were stored before"},
        **responses(413, 415, 507),
    },
)
async def create_upload(
    principal: Uploader,
    services: ServicesDep,
    request: Request,
    response: Response,
    filename: Annotated[str, Query(min_length=1, max_length=255, examples=["model.pt2"])],
) -> UploadRead:
    """Store a model file: the body is the file's bytes. Formats that execute code when loaded,
    which are .pt2 and TorchScript, need the scope ``upload:trusted``."""
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise UnsupportedMediaTypeError(
            "send the file's bytes as the body (application/octet-stream), not as a form"
        )
    limit = services.settings.max_upload_bytes
    check_announced_size(request, limit)
    name = sanitise(filename)
    file_format = format_of(name, await _accepted_formats(services))
    _require_trust(principal, file_format)
    # The transaction begins when the bytes are here: a slow upload must not hold a connection.
    async with receive(request, scratch_directory(services.settings), limit) as received:
        await asyncio.to_thread(check_bytes, received.path, file_format)
        async with transaction(services.sessions) as storing:
            uploads = UploadService(storing, services.storage)
            upload, new = await uploads.store(received, name, file_format)
    response.headers["Location"] = f"/api/v1/uploads/{upload.id}"
    if not new:
        response.status_code = status.HTTP_200_OK
    return UploadRead.model_validate(upload)


@router.get("")
async def list_uploads(
    _: Reader, transaction: TransactionDep, limit: Limit = 50, cursor: str | None = None
) -> UploadPage:
    """Uploads, newest first."""
    rows = await UploadRepository(transaction.session).page(cursor, limit)
    page, following = split(rows, limit)
    return UploadPage(items=[UploadRead.model_validate(row) for row in page], next_cursor=following)


@router.get("/{upload_id}", responses=responses(404))
async def get_upload(_: Reader, uploads: Uploads, upload_id: UUID) -> UploadRead:
    """One upload."""
    return UploadRead.model_validate(await uploads.get(upload_id))


@router.delete(
    "/{upload_id}", status_code=status.HTTP_204_NO_CONTENT, responses=responses(404, 409)
)
async def delete_upload(_: Writer, uploads: Uploads, upload_id: UUID) -> None:
    """Delete a file that no job uses."""
    await uploads.delete(upload_id)


async def _accepted_formats(services: Services) -> frozenset[str]:
    async with services.sessions() as session:
        return formats(await DeviceRepository(session).all())


def _require_trust(principal: Principal, file_format: str) -> None:
    if FORMATS[file_format].trusted and Scope.UPLOAD_TRUSTED not in principal.scopes:
        raise ForbiddenError(
            f"{FORMATS[file_format].title} executes code when it is loaded, so uploading one needs "
            f"the scope {Scope.UPLOAD_TRUSTED.value!r}; the {principal.authenticated_by} has "
            f"{', '.join(sorted(principal.scopes))}"
        )
