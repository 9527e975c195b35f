"""Storing, finding and deleting uploaded model files."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from uuid import UUID, uuid4

from backend.db.tables import Upload
from backend.db.transaction import Action, Transaction
from backend.problems import ConflictError, NotFoundError
from backend.storage import Storage
from backend.uploads.receiver import Received
from backend.uploads.repository import UploadRepository


class UploadService:
    """Works in one transaction; files and rows appear and vanish together."""

    def __init__(self, transaction: Transaction, storage: Storage) -> None:
        self._transaction, self._storage = transaction, storage
        self._uploads = UploadRepository(transaction.session)

    async def store(
        self, received: Received, filename: str, file_format: str
    ) -> tuple[Upload, bool]:
        """The upload, and whether it is new: the same bytes are stored once."""
        identifier = uuid4()
        # Keyed by upload, not by content: deleting one can never take the file of another that
        # arrived with the same bytes in the meantime.
        upload = Upload(
            id=identifier,
            sha256=received.sha256,
            filename=filename,
            format=file_format,
            size_bytes=received.size_bytes,
            storage_key=f"uploads/{identifier}.{file_format}",
            created_at=datetime.now(UTC),
        )
        if not await self._uploads.insert_if_new(upload):
            earlier = await self._uploads.by_sha256(received.sha256)
            if earlier is None:
                raise ConflictError("the same file was deleted at the same moment; upload it again")
            return earlier, False
        self._transaction.after_rollback(self._deletion(upload.storage_key))
        await asyncio.to_thread(self._storage.take, received.path, upload.storage_key)
        return upload, True

    async def get(self, upload_id: UUID) -> Upload:
        """Raises NotFoundError."""
        upload = await self._uploads.get(upload_id)
        if upload is None:
            raise NotFoundError(f"there is no upload {upload_id}")
        return upload

    async def delete(self, upload_id: UUID) -> None:
        """Raises NotFoundError, or ConflictError while jobs use it."""
        upload = await self._uploads.get_locked(upload_id)
        if upload is None:
            raise NotFoundError(f"there is no upload {upload_id}")
        user = await self._uploads.user_of(upload_id)
        if user is not None:
            raise ConflictError(f"job {user} uses this upload, which it needs to be retried")
        await self._uploads.delete(upload)
        self._transaction.after_commit(self._deletion(upload.storage_key))

    def _deletion(self, key: str) -> Action:
        return partial(asyncio.to_thread, self._storage.delete, key)
