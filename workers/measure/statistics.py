"""Statistics of latencies: robust, seeded, and cheap for some tens of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 1000
MAD_TO_SIGMA = 0.6745
"""Makes the median absolute deviation of normal data comparable to a standard deviation."""

OUTLIER_SCORE = 3.0
"""DOPpler, Section 4: a modified Z-score above it marks an outlier."""


def median(samples: Sequence[float]) -> float:
    """The median; raises ValueError for none."""
    if not samples:
        raise ValueError("the median of no samples is undefined")
    return float(np.median(samples))


def median_interval(samples: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile-bootstrap interval of the median. Deterministic for a seed."""
    return _percentiles(_resampled_medians(np.asarray(samples, dtype=np.float64), seed))


def ratio_interval(
    numerator: Sequence[float], denominator: Sequence[float], seed: int = 0
) -> tuple[float, float]:
    """The 95 % bootstrap interval of median(numerator) / median(denominator) where the ``i``-th
    samples of both were taken side by side: pairs are resampled, so that what slowed both down
    does not widen the interval. Raises ValueError if there are not as many of each."""
    if len(numerator) != len(denominator):
        raise ValueError(f"{len(numerator)} and {len(denominator)} samples make no pairs")
    over = _resampled_medians(np.asarray(numerator, dtype=np.float64), seed)
    under = _resampled_medians(np.asarray(denominator, dtype=np.float64), seed)
    return _percentiles(over / under)


def outliers(samples: Sequence[float]) -> int:
    """How many samples have a modified Z-score, 0.6745 · |x - median| / MAD, above 3."""
    values = np.asarray(samples, dtype=np.float64)
    if not values.size:
        return 0
    deviations = np.abs(values - np.median(values))
    spread = np.median(deviations)
    return int(np.count_nonzero(MAD_TO_SIGMA * deviations > OUTLIER_SCORE * spread))


def _resampled_medians(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Medians of RESAMPLES samples drawn with replacement; the same draws for the same length."""
    if not values.size:
        raise ValueError("the interval of no samples is undefined")
    draws = np.random.default_rng(seed).integers(0, values.size, (RESAMPLES, values.size))
    medians: NDArray[np.float64] = np.median(values[draws], axis=1)
    return medians


def _percentiles(values: NDArray[np.float64]) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)
