"""Keyset pages, newest first, with opaque cursors."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import Query
from sqlalchemy import Select, tuple_
from sqlalchemy.orm import InstrumentedAttribute

from backend.problems import InvalidFieldsError

MAX_PAGE = 200

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="items per page")]


RowT = TypeVar("RowT")
SelectT = TypeVar("SelectT", bound=Select[Any])


@dataclass(frozen=True, slots=True)
class Cursor:
    """The key of the last row that the reader has seen."""

    created_at: datetime
    id: UUID

    def encode(self) -> str:
        text = f"{self.created_at.isoformat()}/{self.id}"
        return urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Cursor:
        """Raises InvalidFieldsError for anything that ``encode`` did not make."""
        try:
            padded = text + "=" * (-len(text) % 4)
            moment, _, identifier = urlsafe_b64decode(padded.encode()).decode().partition("/")
            created_at = datetime.fromisoformat(moment)
            if created_at.tzinfo is None:
                raise ValueError("no time zone")
            return cls(created_at, UUID(identifier))
        except ValueError:
            raise InvalidFieldsError(
                ("cursor", "is not one that this service gave; start again without it")
            ) from None


def keyset(
    query: SelectT,
    created_at: InstrumentedAttribute[datetime],
    identifier: InstrumentedAttribute[UUID],
    cursor: str | None,
    limit: int,
) -> SelectT:
    """The rows after ``cursor``, and one more than ``limit`` to tell whether others follow."""
    if cursor is not None:
        key = Cursor.decode(cursor)
        query = query.where(tuple_(created_at, identifier) < (key.created_at, key.id))
    return query.order_by(created_at.desc(), identifier.desc()).limit(limit + 1)


def split(rows: Sequence[RowT], limit: int) -> tuple[Sequence[RowT], str | None]:
    """The page, and the cursor of the next one if there is any. Rows have ``created_at`` and
    ``id``."""
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    last: Any = page[-1]
    return page, Cursor(last.created_at, last.id).encode()
