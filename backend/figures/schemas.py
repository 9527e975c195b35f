"""Wire form of a figure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel


class FigureKind(StrEnum):
    LATENCY = "latency"
    SEARCH = "search"
    ROUNDS = "rounds"
    TIMELINE = "timeline"
    TUNING_BEST = "tuning-best"
    TUNING_PARALLELISM = "tuning-parallelism"
    TUNING_DEVIATION = "tuning-deviation"
    TUNING_FAILURES = "tuning-failures"
    TUNING_PROCESSES = "tuning-processes"
    TUNING_CPU = "tuning-cpu"


class Theme(StrEnum):
    LIGHT = "light"
    DARK = "dark"


class Clock(StrEnum):
    """What the best latency is drawn over."""

    TRIALS = "trials"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class FigureChoice:
    """Of which part of the job: ``batch_size`` and ``scheduler`` of a model's schedules, ``clock``
    and the newest ``rounds`` of kernels."""

    batch_size: int | None = None
    scheduler: str | None = None
    clock: Clock = Clock.TRIALS
    rounds: int = 8


class FigureRead(BaseModel):
    """A Plotly figure, ready for ``Plotly.react(element, data, layout)``."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]
