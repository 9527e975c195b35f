"""The outcome of one scheduler on one batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workers.devices.base import Timeline
from workers.measure.measurement import Measurement


@dataclass(frozen=True, slots=True)
class ScheduleOutcome:
    """A verified, measured schedule, or an alternative, which has none and no timeline. ``search``
    says what finding it took, ``environment`` under what conditions it was measured, ``provider``
    who implemented the operators, ``place`` how it did among all of its batch size, from 1."""

    scheduler: str
    batch_size: int
    measurement: Measurement
    verified: bool
    max_abs_error: float
    winner: bool
    schedule: Mapping[str, Any]
    search: Mapping[str, Any]
    timeline: Timeline
    environment: Mapping[str, Any] = field(default_factory=dict)
    provider: str = "aten"
    kind: Literal["schedule", "alternative"] = "schedule"
    place: int = 1
