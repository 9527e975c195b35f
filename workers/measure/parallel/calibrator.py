"""What is learned from re-measuring some of a round's candidates in isolation (DOPpler, Section
4.3): which of them (Eq. 3), how far parallel latencies were off (Eq. 4), what to report instead
(Eq. 5), and which are measured once more when tuning is over ("Rank selection").

Candidates are known by their place in a sequence. Latencies l and durations v may be in any unit,
each in one: only their ratios count. A device's candidates are judged among themselves, as another
device has another speed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from workers.measure.statistics import OUTLIER_SCORE, outlier_scores

REMEASURED_SHARE = 0.2
"""ζ of Eq. 3 (Sections 4.3 and 5.3)."""

RANKED_SHARE = 0.01
"""K over all candidates (Sections 4.3 and 5.3)."""

CONTENDING = 0.1
"""How much slower than the best a candidate may seem and yet be ranked beside the K, at least."""

CONTENDERS = 8
"""As many at most are ranked for that."""

PUBLISHED_SCALING_LIMIT = 0.25
"""The published code scales by no δ_mean from here on; the paper has no limit."""

_SAME = 1e-9
"""Ratios that differ by less, relatively, differ by rounding."""


class CalibratorForm(StrEnum):
    """How a round is calibrated: with what several rounds have told (``evidence``), or from itself
    alone, by the paper's Eq. 5 for all candidates or by the published code's for some."""

    POOLED = "pooled"
    PAPER = "paper"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class Selection:
    """The candidates to re-measure in isolation, each kind in ascending order: the ``outliers``,
    and those ``sampled`` from the others. Together they are Q of Eq. 3."""

    outliers: tuple[int, ...]
    sampled: tuple[int, ...]

    @property
    def candidates(self) -> tuple[int, ...]:
        """All of them in ascending order."""
        return tuple(sorted(self.outliers + self.sampled))


def ratio_scores(latencies: Sequence[float], durations: Sequence[float]) -> list[float]:
    """The modified Z-score of each r = l / v by double MAD: 0.6745 · |r - median| / MAD, with one
    MAD for the ratios up to the median and one for those from it on.

    ``latencies`` (l) has the mean latency of a run, ``durations`` (v) how long the whole
    measurement took, of N runs and all around them. Where at least half of a side equals the
    median its MAD is 0: then what equals it scores 0 and all else on that side is infinitely far
    off, to be re-measured rather than believed. Ratios within a 10⁻⁹th of the median equal it.
    Raises ValueError unless there are as many of each, positive and finite.
    """
    if len(latencies) != len(durations):
        raise ValueError(f"{len(latencies)} latencies and {len(durations)} durations make no pairs")
    _check_positive("latency", latencies)
    _check_positive("duration", durations)
    if not latencies:
        return []
    ratios = np.asarray(latencies, dtype=np.float64) / np.asarray(durations, dtype=np.float64)
    middle = np.median(ratios)
    same = np.abs(ratios - middle) <= _SAME * middle
    return outlier_scores(np.where(same, middle, ratios).tolist())


def find_outliers(
    latencies: Sequence[float], durations: Sequence[float], threshold: float = OUTLIER_SCORE
) -> tuple[int, ...]:
    """The candidates, in ascending order, whose score exceeds ``threshold``: those whose latency
    stands out against how long they took, on either side. See ``ratio_scores``."""
    if not threshold > 0:
        raise ValueError(f"the threshold of outliers is {threshold}, it must be positive")
    scores = ratio_scores(latencies, durations)
    return tuple(place for place, score in enumerate(scores) if score > threshold)


def remeasurement_count(outliers: int, successes: int, zeta: float = REMEASURED_SHARE) -> int:
    """Q = max(outliers, ⌈ζ · successes⌉), Eq. 3. Its brackets are not defined; the published code
    rounds up, which alone keeps δ_mean known in small rounds. Departure: that code re-measures
    none of fewer than three, and so takes δ_mean for 0 there. Raises ValueError unless
    0 <= outliers <= successes and 0 <= ζ <= 1."""
    if not 0 <= outliers <= successes:
        raise ValueError(f"{outliers} outliers of {successes} successful measurements")
    if not 0 <= zeta <= 1:
        raise ValueError(f"ζ is {zeta}, it is a share between 0 and 1")
    return max(outliers, math.ceil(zeta * successes - _SAME))


def select_remeasurements(
    latencies: Sequence[float],
    durations: Sequence[float],
    seed: int,
    count: int | None = None,
    threshold: float = OUTLIER_SCORE,
) -> Selection:
    """Which of a round's successful candidates to re-measure: all outliers, and as many of the
    others, drawn without replacement, as Eq. 3 asks for, or as make ``count`` together. The same
    for the same ``seed``."""
    outliers = find_outliers(latencies, durations, threshold)
    if count is None:
        count = remeasurement_count(len(outliers), len(latencies))
    missing = max(0, count - len(outliers))
    others = sorted(set(range(len(latencies))) - set(outliers))
    drawn = np.random.default_rng(seed).choice(len(others), missing, replace=False)
    return Selection(outliers, tuple(sorted(others[place] for place in drawn.tolist())))


def mean_deviation(latencies: Sequence[float], remeasured: Mapping[int, float]) -> float:
    """δ_mean, Eq. 4: the mean of |l_j - l_i| / l_i, a share, where l_i is what candidate ``i`` took
    in parallel and l_j = ``remeasured[i]`` what it took in isolation, in the same unit.

    NaN, unknown, if none was re-measured. Raises ValueError for a candidate that is not there, and
    for a latency that is not positive and finite: a failed re-measurement tells no deviation.
    """
    _check_remeasured(latencies, remeasured)
    if not remeasured:
        return math.nan
    deviations = [
        abs(alone - latencies[place]) / latencies[place] for place, alone in remeasured.items()
    ]
    return math.fsum(deviations) / len(deviations)


def scale_latencies(
    latencies: Sequence[float],
    remeasured: Mapping[int, float],
    delta_mean: float,
    published: bool = False,
) -> list[float]:
    """The latencies to report to the tuner, Eq. 5: r · (v - v · δ_mean). As r · v = l this is
    l · (1 - δ_mean), the same factor for all, though the paper calls it adjusted for each.

    The paper scales every candidate, also the re-measured. ``published``: those that were
    re-measured get the smaller of their two latencies, the others are scaled if δ_mean < 0.25.

    Nothing is scaled if δ_mean is unknown (NaN), or 1 and more, where Eq. 5 leaves no positive
    latency: that needs isolated latencies of twice the parallel ones, which no interference gives.
    Raises ValueError for a negative δ_mean, and as ``mean_deviation`` does.
    """
    _check_remeasured(latencies, remeasured)
    _check_positive("latency", latencies)
    if delta_mean < 0:
        raise ValueError(f"δ_mean is {delta_mean}, a mean of magnitudes is not negative")
    limit = PUBLISHED_SCALING_LIMIT if published else 1.0
    factor = 1 - delta_mean if delta_mean < limit else 1.0
    return [
        min(latency, remeasured[place]) if published and place in remeasured else latency * factor
        for place, latency in enumerate(latencies)
    ]


def contending_within(doubt: float) -> float:
    """How much slower than the best a candidate may seem and yet be it, where two measurements of
    one candidate differ by ``doubt`` on average, as a share: both may be off by as much."""
    return max(CONTENDING, 2 * doubt)


def select_ranked(
    latencies: Sequence[float], share: float = RANKED_SHARE, contending: float = CONTENDING
) -> tuple[int, ...]:
    """The top K to measure once more in isolation when tuning is over, best first; of equal ones
    the earlier. K = ⌈share · |C|⌉ and at least 1.

    Departure: of 64 candidates the paper's K is one, and then nothing is ranked. Here those that
    are within ``contending`` of the best are taken too, up to ``CONTENDERS`` in all; 0 is the
    paper's K alone.

    ``latencies`` has all of C, infinite where a candidate failed: those count for K and are never
    selected. Raises ValueError for a share outside 0 … 1 and for a latency that is neither
    positive nor infinite.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the share of candidates to rank is {share}, not between 0 and 1")
    measured = [place for place, latency in enumerate(latencies) if latency != math.inf]
    _check_positive("latency", [latencies[place] for place in measured])
    order = sorted(measured, key=lambda place: latencies[place])
    count = max(1, math.ceil(share * len(latencies) - _SAME))
    if contending and order:
        limit = (1 + contending) * latencies[order[0]]
        near = sum(latencies[place] <= limit for place in order)
        count = max(count, min(near, CONTENDERS))
    return tuple(order[:count])


def _check_positive(noun: str, values: Sequence[float]) -> None:
    for value in values:
        if not 0 < value < math.inf:
            raise ValueError(f"a {noun} is {value}, it must be positive and finite")


def _check_remeasured(latencies: Sequence[float], remeasured: Mapping[int, float]) -> None:
    for place in remeasured:
        if not 0 <= place < len(latencies):
            raise ValueError(f"candidate {place} was re-measured, there are {len(latencies)}")
    _check_positive("latency", [latencies[place] for place in remeasured])
    _check_positive("re-measured latency", list(remeasured.values()))
