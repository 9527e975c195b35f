"""The nouns of measuring: Measurement and Round."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Failure(StrEnum):
    """Why a candidate has no latency."""

    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    LAUNCH = "launch"
    WRONG_RESULT = "wrong_result"
    CRASH = "crash"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A candidate's latency in ms: the median of ``samples`` runs with a 95 % bootstrap interval.

    A failed measurement has an infinite latency, a ``failure`` and a ``reason`` in words.
    """

    latency_ms: float
    low_ms: float
    high_ms: float
    samples: int
    outliers: int = 0
    simulated: bool = False
    failure: Failure | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One batch of a measurer: the DP-level history that the dashboard draws (DOPpler)."""

    number: int
    degree_of_parallelism: int
    candidates: int
    timeout_s: float
    failures: int
    timeouts: int
    outliers: int
    remeasured: int
    mean_deviation: float
    duration_s: float
