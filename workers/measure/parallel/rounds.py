"""What a parallel measurer gives back: latencies for the tuner, and the round for the dashboard."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from workers.measure.effort import never
from workers.measure.measurement import Failure
from workers.measure.parallel.react import Transition
from workers.measure.parallel.subject import Outcome, Reading, Subject
from workers.measure.statistics import median


@dataclass(frozen=True, slots=True)
class Taken:
    """One candidate's latencies in ms.

    ``latency_ms`` is what the tuner is told, infinite where there is a ``failure``; ``device_ms``
    and ``wall_ms`` are the medians of its runs beside others by the two clocks, and ``alone_ms``
    what the device's clock said when it was measured again in isolation, if it was. ``runs_ms`` are
    all runs by the device's clock of a candidate that nothing ran beside.
    """

    latency_ms: float
    device_ms: float = math.nan
    wall_ms: float = math.nan
    alone_ms: float | None = None
    failure: Failure | None = None
    reason: str = ""
    runs_ms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ParallelRound:
    """One round of a batch (an iteration of Algorithm 2).

    ``taken`` is of its candidates in order, and ``outcomes`` of everything that a process did for
    them, what was measured again included. ``delta_mean`` is Eq. 4, NaN where it is unknown;
    ``outliers`` and ``remeasured`` count candidates, ``due_to_parallelism`` failures (N_err,dp).
    ``react`` is the step that followed, None of a measurer that has a fixed degree.
    """

    number: int
    degree_of_parallelism: int
    timeout_s: float
    taken: tuple[Taken, ...]
    outcomes: tuple[Outcome, ...]
    outliers: int
    remeasured: int
    due_to_parallelism: int
    delta_mean: float
    duration_s: float
    react: Transition | None = None


Told = Callable[[ParallelRound], None]


def ignore_round(found: ParallelRound) -> None:
    """Told of rounds, does nothing with them."""


class SubjectMeasurer(Protocol):
    """Measures candidates in other processes. One conformance suite holds for every one."""

    def measure(
        self,
        subjects: Sequence[Subject],
        told: Told = ignore_round,
        expired: Callable[[], bool] = never,
    ) -> list[Taken | None]:
        """The candidates' latencies in their order; None of those that were not begun when
        ``expired`` became true. ``told`` hears of every round once it is over."""
        ...

    def round_size(self, left: int) -> int:
        """How many of the ``left`` candidates of a batch the next round takes, at least 1."""
        ...

    def isolated(self, subjects: Sequence[Subject]) -> list[Taken]:
        """Each measured with nothing beside it, whatever the measurer does otherwise."""
        ...


def device_latency(reading: Reading) -> float:
    """In ms by the device's own clock."""
    return median([run.device_ms for run in reading.runs])


def wall_latency(reading: Reading) -> float:
    """In ms by the host's clock."""
    return median([run.wall_ms for run in reading.runs])


def taken_alone(outcome: Outcome) -> Taken:
    """What is told of a candidate that nothing ran beside."""
    if outcome.reading is None:
        return failed(outcome)
    latency = device_latency(outcome.reading)
    runs = tuple(run.device_ms for run in outcome.reading.runs)
    return Taken(latency, latency, wall_latency(outcome.reading), latency, runs_ms=runs)


def failed(outcome: Outcome) -> Taken:
    """What the tuner is told of a candidate that has no latency."""
    return Taken(math.inf, failure=outcome.failure, reason=outcome.reason)
