"""What a row of latencies looks like: outliers by name, and whether they hang together at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from workers.measure.statistics import (
    OUTLIER_SCORE,
    median,
    median_interval,
    outlier_scores,
    rank_correlation,
)

Shape = Literal["steady", "drifting", "bimodal"]

_ENOUGH = 10
"""Fewer samples than this have no shape worth telling."""

_TRIM = 0.05
"""The largest and smallest samples left out in looking for two modes: a few spikes are no mode."""

_SMALLER_MODE = 0.15
_SPLIT = 0.85
"""Two modes explain this share of the variance by splitting the samples in two. The best split of
normal samples explains 2/π = 64 % of it, of evenly spread ones 75 %."""

_APART = 0.02
"""Two modes whose means differ by less than this, relative to the median, are no matter."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """One sample: its position in the row, its latency, and its modified Z-score."""

    index: int
    latency_ms: float
    score: float | None
    """None for an infinite one: at least half of the samples on its side are equal."""


@dataclass(frozen=True, slots=True)
class SampleReport:
    """``shape`` says whether the median may be trusted to mean something: ``drifting`` samples were
    still changing with time, ``bimodal`` ones have two typical values and no middle."""

    samples: int
    median_ms: float
    low_ms: float
    high_ms: float
    outliers: tuple[Outlier, ...]
    outlier_share: float
    shape: Shape

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def report(samples: Sequence[float]) -> SampleReport:
    """Describe latencies in ms, in the order in which they were taken. Raises ValueError for
    none."""
    low, high = median_interval(samples)
    found = tuple(
        Outlier(index, float(samples[index]), score if np.isfinite(score) else None)
        for index, score in enumerate(outlier_scores(samples))
        if score > OUTLIER_SCORE
    )
    return SampleReport(
        samples=len(samples),
        median_ms=median(samples),
        low_ms=low,
        high_ms=high,
        outliers=found,
        outlier_share=len(found) / len(samples),
        shape=shape(samples),
    )


def shape(samples: Sequence[float]) -> Shape:
    """Drifting: the order of the samples by size and by time agree by half or more, and by more
    than chance (three standard errors). Bimodal: see ``_SPLIT``. Else steady."""
    count = len(samples)
    if count < _ENOUGH:
        return "steady"
    trend = abs(rank_correlation(samples, range(count)))
    if trend >= 0.5 and trend > 3 / np.sqrt(count):
        return "drifting"
    return "bimodal" if _two_modes(samples) else "steady"


def _two_modes(samples: Sequence[float]) -> bool:
    values = np.sort(np.asarray(samples, dtype=np.float64))
    cut = int(len(values) * _TRIM)
    values = values[cut : len(values) - cut]
    count, total = len(values), float(np.var(values))
    if total <= (1e-6 * values.mean()) ** 2:
        return False
    sums = np.cumsum(values)[:-1]
    left = np.arange(1, count)
    means = sums / left, (values.sum() - sums) / (count - left)
    explained = left * (count - left) / count**2 * (means[1] - means[0]) ** 2
    best = int(np.argmax(explained))
    smaller = min(best + 1, count - best - 1) / count
    apart = float(means[1][best] - means[0][best])
    return (
        smaller >= _SMALLER_MODE
        and float(explained[best]) >= _SPLIT * total
        and apart >= _APART * float(np.median(values))
    )
