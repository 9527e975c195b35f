"""What re-measuring in isolation has told over several rounds: our own form of the Calibrator.

DOPpler's Calibrator (Section 4.3) learns from each round alone. That is right for rounds of dozens.
On a CPU of few cores a round is small, however its size is chosen: of two, Eq. 3 re-measures every
second candidate, δ_mean is a single deviation, most of it noise, and Eq. 5 takes it off both
latencies, whichever way it pointed. The candidate of the noisiest round then looks like the
fastest. Hence, here:

- Eq. 3's share ζ holds over rounds: what a round rounds off is owed by the next one. All outliers
  are still re-measured, and one candidate at least of a round of a degree of parallelism of which
  nothing is known, or nothing good.
- δ_mean is over a round's own pairs, filled up to ``DEVIATIONS`` with the newest ones of the same
  degree; and it is 1 - the geometric mean of l_j / l_i, isolated over parallel, or 0 if that is
  negative, and not the mean of |l_j - l_i| / l_i as in Eq. 4. Two isolated measurements of one
  candidate differ, too: by a tenth where the machine is noisy, which Eq. 4 takes for interference,
  so that REACT avoids all parallelism. Noise points either way and cancels; interference does not.
- What was re-measured is told as it was in isolation. The other latencies are scaled by the median
  of isolated / parallel over the newest ``RATIOS`` pairs of the same degree and device, with its
  sign, and only if its 99 % interval excludes 1: a factor that may be nothing but noise would add
  its noise to all of them.

Latencies in ms. Evidence is of one tensor program, as another one interferes otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from workers.measure.parallel.calibrator import REMEASURED_SHARE
from workers.measure.statistics import enough, median, median_interval

DEVIATIONS = 8
"""As many pairs make a mean deviation, where there are as many."""

RATIOS = 32
"""The newest pairs that decide on a factor: interference changes with what is measured."""

_CERTAIN = 0.99

_KEPT = 256
"""Pairs, of all degrees."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Pair:
    """A candidate that was measured twice on a ``device``: ``beside`` others, with ``degree`` in
    flight, and ``alone``. Raises ValueError unless both are positive and finite."""

    degree: int
    device: str
    beside_ms: float
    alone_ms: float

    def __post_init__(self) -> None:
        for latency in (self.beside_ms, self.alone_ms):
            if not 0 < latency < math.inf:
                raise ValueError(f"a latency is {latency} ms, it must be positive and finite")

    @property
    def ratio(self) -> float:
        """Isolated over parallel."""
        return self.alone_ms / self.beside_ms


@dataclass(frozen=True, slots=True)
class Evidence:
    """``pairs``, the newest last, and how many re-measurements are ``owed``, a part of one."""

    pairs: tuple[Pair, ...] = ()
    owed: float = 0.0

    def due(
        self, degree: int, successes: int, tau: float = math.inf, zeta: float = REMEASURED_SHARE
    ) -> int:
        """How many of a round's ``successes`` to re-measure, if fewer are outliers. ``tau`` is the
        δ_mean up to which a degree is good."""
        due = math.floor(self.owed + zeta * successes + _ROUNDING)
        good = self.mean_deviation(degree, own=0) <= tau
        return min(successes, due if good else max(due, 1))

    def after(self, successes: int, pairs: Sequence[Pair], zeta: float = REMEASURED_SHARE) -> Self:
        """With a round of so many ``successes`` beside each other, of which ``pairs`` were
        re-measured."""
        owed = self.owed + zeta * successes - len(pairs)
        return type(self)((*self.pairs, *pairs)[-_KEPT:], min(1.0, max(0.0, owed)))

    def mean_deviation(self, degree: int, own: int) -> float:
        """δ_mean after a round of this degree whose ``own`` pairs are the newest; NaN without any
        of this degree."""
        found = [math.log(pair.ratio) for pair in self.pairs if pair.degree == degree]
        newest = found[-max(own, DEVIATIONS) :]
        return max(0.0, -math.expm1(math.fsum(newest) / len(newest))) if newest else math.nan

    @property
    def doubt(self) -> float:
        """By how much two measurements of a candidate differ: Eq. 4 of the newest ``RATIOS`` pairs
        of whatever degree, 0 without any."""
        newest = self.pairs[-RATIOS:]
        return math.fsum(abs(pair.ratio - 1) for pair in newest) / len(newest) if newest else 0.0

    def factor(self, degree: int, device: str) -> float:
        """What a latency of this degree is to be multiplied by; 1 if that is not certain."""
        ratios = [
            pair.ratio
            for pair in self.pairs
            if pair.device == device and 4 * abs(pair.degree - degree) <= degree
        ][-RATIOS:]
        if len(ratios) < enough(_CERTAIN):
            return 1.0
        low, high = median_interval(ratios, confidence=_CERTAIN)
        return 1.0 if low <= 1 <= high else median(ratios)
