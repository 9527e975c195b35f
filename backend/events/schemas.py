"""Wire form of an event outside its job's own stream."""

from __future__ import annotations

from uuid import UUID

from backend.jobs.schemas import EventRead


class JobEventRead(EventRead):
    """An event that also says which job it is of."""

    job_id: UUID
