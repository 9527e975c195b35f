"""Wire forms of what a job found."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict


class ResultRead(BaseModel):
    """The latency of a schedule, or of an alternative, for one batch size: the median and its 95 %
    interval, in ms. ``place`` ranks those of one batch size from 1.

    ``search`` is what finding the schedule took: states, transitions, stages measured of the
    total, seconds, the predicted latency, the bound, why the search ended, and notes.
    ``environment`` says under what conditions it was measured: device, versions, clocks, load, and
    whether noise was allowed.
    """

    model_config = ConfigDict(from_attributes=True)

    id: UUID
    batch_size: int
    scheduler: str
    latency_ms: float
    low_ms: float
    high_ms: float
    samples: int
    simulated: bool
    verified: bool
    max_abs_error: float
    winner: bool
    provider: str
    kind: Literal["schedule", "alternative"]
    place: int | None
    search: dict[str, Any]
    environment: dict[str, Any]
    created_at: datetime


class ArtifactRead(BaseModel):
    """A zip with the schedule, the model and a ``run.py`` that needs only torch."""

    model_config = ConfigDict(from_attributes=True)

    id: UUID
    batch_size: int
    filename: str
    size_bytes: int
    sha256: str
