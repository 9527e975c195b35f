"""The outcome of one scheduler on one batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.devices.base import Timeline
from workers.measure.measurement import Measurement


@dataclass(frozen=True, slots=True)
class ScheduleOutcome:
    """A verified, measured schedule. ``search`` says what finding it took, ``environment`` under
    what conditions it was measured, ``provider`` who implemented the operators."""

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
