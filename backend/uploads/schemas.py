"""Wire forms of an uploaded model file."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict


class UploadRead(BaseModel):
    """Name it in a job as ``upload:ID``."""

    model_config = ConfigDict(from_attributes=True)

    id: UUID
    sha256: str
    filename: str
    format: str
    size_bytes: int
    created_at: datetime


class UploadPage(BaseModel):
    """A keyset page: pass ``next_cursor`` back as ``cursor`` for the following one."""

    items: list[UploadRead]
    next_cursor: str | None
