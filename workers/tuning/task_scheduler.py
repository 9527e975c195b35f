"""Which of several programs is tuned next: where the next trials gain most.

Ansor's task scheduler (OSDI 2020, Section 6) in its simplest form. What is minimised is the sum of
weight times best latency over all programs, a model's latency if weights are occurrences. A
program's gain per trial is estimated from two sides: what its last batch really gained, and, to be
optimistic, its whole latency over all trials so far, as if that many again removed it. Departures:
no similar programs are looked at, and chance decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BACKWARD_SHARE = 0.2
"""α of Ansor's Section 6.2: how far what was gained counts, beside what could be."""

PATIENCE = 3
"""Batches for a program of which every candidate has failed so far."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A program after each of its batches: ``trials`` so far and ``bests``, the lowest latency in
    ms so far, infinite before there is any. ``open`` is false once its space is used up."""

    weight: float
    trials: tuple[int, ...] = ()
    bests: tuple[float, ...] = ()
    open: bool = True

    @property
    def gain(self) -> float:
        """The estimated gain of its next trial in weighted ms; infinite of one that has not had
        its first batch, or no latency in less than ``PATIENCE``."""
        if not self.bests:
            return math.inf
        best = self.bests[-1]
        if math.isinf(best):
            return math.inf if len(self.bests) < PATIENCE else 0.0
        forward = best / self.trials[-1]
        before = self.bests[-2] if len(self.bests) > 1 else math.inf
        if math.isinf(before):
            return self.weight * forward
        backward = (before - best) / (self.trials[-1] - self.trials[-2])
        return self.weight * (BACKWARD_SHARE * backward + (1 - BACKWARD_SHARE) * forward)


def choose(standings: Sequence[Standing]) -> int | None:
    """The place of the program to tune next, the earlier of equal ones; None if none is open."""
    places = [place for place, standing in enumerate(standings) if standing.open]
    return max(places, key=lambda place: standings[place].gain, default=None)
