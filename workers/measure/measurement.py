"""The nouns of measuring: Measurement and Round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from workers.measure.statistics import median, median_interval, outliers


class Failure(StrEnum):
    """Why a candidate has no latency."""

    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    LAUNCH = "launch"
    WRONG_RESULT = "wrong_result"
    CRASH = "crash"
    COMPILE = "compile"
    BUDGET = "budget"

    @property
    def lasting(self) -> bool:
        """Whether the same candidate would fail in the same way again: then it is worth keeping.
        The others depend on the moment: what else took time or memory, and how much was left."""
        return self in (Failure.LAUNCH, Failure.WRONG_RESULT, Failure.COMPILE)

    @property
    def repeated(self) -> bool:
        """Whether parallelism may be to blame, so that DOPpler measures the candidate once more in
        isolation (Section 4.3).

        Time, memory and launch slots are what neighbours take (Section 4.2), and a process that
        finds none may crash. Not so what does not compile, as nothing ran beside it. The paper
        repeats "any failed" measurement, but never looks at results: a wrong one is not repeated
        here. Neighbours are other processes, which cannot change it; and if it were right the
        second time, the candidate would have a race and no latency worth having.
        """
        return self not in (Failure.WRONG_RESULT, Failure.COMPILE, Failure.BUDGET)


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

    @classmethod
    def of(cls, latencies_ms: Sequence[float], simulated: bool = False) -> Self:
        """Summarise the latencies of repeated runs; raises ValueError for none."""
        low, high = median_interval(latencies_ms)
        return cls(
            latency_ms=median(latencies_ms),
            low_ms=low,
            high_ms=high,
            samples=len(latencies_ms),
            outliers=outliers(latencies_ms),
            simulated=simulated,
        )

    @classmethod
    def failed(cls, failure: Failure, reason: str) -> Self:
        """A candidate without a latency."""
        return cls(math.inf, math.inf, math.inf, samples=0, failure=failure, reason=reason)


@dataclass(frozen=True, slots=True)
class Round:
    """One batch of a measurer: the DP-level history that the dashboard draws (DOPpler).

    ``timeout_s`` is 0 where nothing can be timed out; ``mean_deviation`` is how far parallel
    latencies were from the serial ones of the same candidates, 0 where all were serial.
    """

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
