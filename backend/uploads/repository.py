"""Uploads in the database."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, delete, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from backend.db.tables import Job, Upload
from backend.jobs.schemas import Purpose
from backend.jobs.states import FINISHED
from backend.pagination import keyset


class UploadRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def get(self, upload_id: UUID) -> Upload | None:
        return await self._session.get(Upload, upload_id)

    async def get_shared(self, upload_id: UUID) -> Upload | None:
        """The upload, which cannot be deleted before this transaction ends."""
        query = select(Upload).where(Upload.id == upload_id).with_for_update(read=True)
        return (await self._session.scalars(query)).one_or_none()

    async def get_locked(self, upload_id: UUID) -> Upload | None:
        query = select(Upload).where(Upload.id == upload_id).with_for_update()
        return (await self._session.scalars(query)).one_or_none()

    async def by_sha256(self, sha256: str) -> Upload | None:
        return (
            await self._session.scalars(select(Upload).where(Upload.sha256 == sha256))
        ).one_or_none()

    async def insert_if_new(self, upload: Upload) -> bool:
        """Add the row unless the same bytes are there already. Waits for whoever is just adding
        them."""
        statement = (
            insert(Upload)
            .values(
                id=upload.id,
                sha256=upload.sha256,
                filename=upload.filename,
                format=upload.format,
                size_bytes=upload.size_bytes,
                storage_key=upload.storage_key,
                created_at=upload.created_at,
            )
            .on_conflict_do_nothing(index_elements=[Upload.sha256])
            .returning(Upload.id)
        )
        return (await self._session.scalars(statement)).one_or_none() is not None

    async def delete(self, upload: Upload) -> None:
        """With the upload go its graphs and its finished inspections."""
        inspections = delete(Job).where(Job.upload_id == upload.id, ~_needs_upload())
        await self._session.execute(inspections)
        await self._session.delete(upload)
        await self._session.flush()

    async def user_of(self, upload_id: UUID) -> UUID | None:
        """A job that uses the upload, if there is one. A finished inspection does not."""
        query = select(Job.id).where(Job.upload_id == upload_id, _needs_upload()).limit(1)
        return (await self._session.scalars(query)).one_or_none()

    async def page(self, cursor: str | None, limit: int) -> Sequence[Upload]:
        """Newest first; one more than ``limit`` if there is a next page."""
        query = keyset(select(Upload), Upload.created_at, Upload.id, cursor, limit)
        return (await self._session.scalars(query)).all()


def _needs_upload() -> ColumnElement[bool]:
    """Whether a job still needs its upload: a tuning job may be retried for ever."""
    return or_(Job.purpose != Purpose.INSPECT, Job.state.not_in(FINISHED))
