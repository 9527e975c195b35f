"""How committed events are announced on Redis: the channel's name and the message.

An announcement is only a shortcut to what the database holds; losing one loses nothing.
"""

from __future__ import annotations

from uuid import UUID

from backend.db.tables import JobEvent
from backend.jobs.schemas import EventRead

PREFIX = "plait:events:"
PATTERN = f"{PREFIX}*"


def channel(job_id: UUID) -> str:
    return f"{PREFIX}{job_id}"


def job_of(name: str) -> UUID:
    """The job that a channel's name belongs to."""
    return UUID(name.removeprefix(PREFIX))


def encode(event: JobEvent) -> str:
    """The message of one committed event: EventRead as JSON."""
    return EventRead.model_validate(event).model_dump_json()
