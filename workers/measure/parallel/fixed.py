"""Measurers with a fixed degree of parallelism, for comparison with DOPpler: naive parallel
measurement (NPM, Section 3.1), and serial measurement, which is a degree of 1."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from workers.measure.effort import USUAL, Effort, never
from workers.measure.parallel import rounds
from workers.measure.parallel.pool import MeasuringPool
from workers.measure.parallel.rounds import ParallelRound, Taken, device_latency, wall_latency
from workers.measure.parallel.subject import Outcome, Subject

STATIC_TIMEOUT_S = 3.0
"""AutoTVM's default, and the paper's for serial measurement and NPM (Section 3.1)."""


@dataclass
class FixedMeasurer:
    """``degree`` candidates at once on each device of ``pool``, all of a batch in one round.
    Latencies are those of the host's clock, as in the systems that DOPpler is compared with, and
    nothing is measured again. ``alone`` as in ``DopplerMeasurer``."""

    pool: MeasuringPool
    degree: int = 1
    effort: Effort = USUAL
    timeout_s: float = STATIC_TIMEOUT_S
    done: int = 0
    alone: Callable[[], AbstractContextManager[None]] = nullcontext

    def round_size(self, left: int) -> int:
        """All that is left."""
        return left

    def measure(
        self,
        subjects: Sequence[Subject],
        told: rounds.Told = rounds.ignore_round,
        expired: Callable[[], bool] = never,
    ) -> list[Taken | None]:
        """In one round, as ``SubjectMeasurer`` says."""
        if not subjects:
            return []
        start = time.monotonic()
        self.done += 1
        with self.alone() if self.degree == 1 else nullcontext():
            outcomes = self.pool.measure(
                subjects, self.degree, self.timeout_s, self.effort, expired=expired
            )
        taken = [None if outcome is None else _taken(outcome) for outcome in outcomes]
        told(
            ParallelRound(
                number=self.done,
                degree_of_parallelism=self.degree,
                timeout_s=self.timeout_s,
                taken=tuple(one for one in taken if one is not None),
                outcomes=tuple(outcome for outcome in outcomes if outcome is not None),
                outliers=0,
                remeasured=0,
                due_to_parallelism=0,
                delta_mean=0.0 if self.degree == 1 else float("nan"),
                duration_s=time.monotonic() - start,
            )
        )
        return taken

    def isolated(self, subjects: Sequence[Subject]) -> list[Taken]:
        """By the device's clock too, so that what different measurers find can be compared."""
        with self.alone():
            outcomes = self.pool.measure(subjects, 1, self.timeout_s, self.effort)
        return [rounds.taken_alone(outcome) for outcome in outcomes if outcome is not None]


def _taken(outcome: Outcome) -> Taken:
    if outcome.reading is None:
        return rounds.failed(outcome)
    wall = wall_latency(outcome.reading)
    return Taken(wall, device_latency(outcome.reading), wall)
