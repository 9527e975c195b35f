"""Statistics of latencies: robust, seeded, and cheap for some hundreds of samples.

Latencies are skewed, heavy-tailed, and each is like the one before it: a burst of interrupts or a
lower clock lasts longer than one run. So medians and not means; and resampling in blocks, because
drawing single samples takes ten runs in one slow second for ten independent witnesses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 1000
ENOUGH = 6
"""The fewest samples whose extremes hold the median with the confidence: 1 - 2 / 2⁶ = 97 %."""

MAD_TO_SIGMA = 0.6745
"""Makes the median absolute deviation of normal data comparable to a standard deviation."""

OUTLIER_SCORE = 3.0
"""DOPpler, Section 4: a modified Z-score above it marks an outlier."""

_DOUBTFUL = 1.645
"""A lag-1 correlation under this many standard errors is taken for none: one-sided 5 %."""

Vector = NDArray[np.float64]


def median(samples: Sequence[float]) -> float:
    """The median; raises ValueError for none."""
    if not samples:
        raise ValueError("the median of no samples is undefined")
    return float(np.median(samples))


def median_interval(
    samples: Sequence[float], seed: int = 0, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """An interval of the median, of 95 % unless told: the percentile interval of a block bootstrap,
    widened to the order statistics that hold it in any case if the samples are independent.

    Fewer than ``enough`` samples give their extremes, which hold the median less often than that.
    Deterministic for a seed; raises ValueError for no samples.
    """
    values = np.asarray(samples, dtype=np.float64)
    if not values.size:
        raise ValueError("the interval of no samples is undefined")
    low, high = _order_interval(values, confidence)
    tail = (1 - confidence) / 2 * 100
    resampled = np.percentile(_resampled_medians(values, seed), [tail, 100 - tail])
    return min(low, float(resampled[0])), max(high, float(resampled[1]))


def enough(confidence: float) -> int:
    """The fewest samples whose extremes hold the median with the confidence: 1 - 2 / 2ⁿ of it."""
    return max(1, math.ceil(1 - math.log2(1 - confidence) - 1e-9))


def median_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> float:
    """The median of the ratios of pairs; see ``ratio_interval``."""
    return math.exp(median(_log_ratios(numerator, denominator).tolist()))


def ratio_interval(
    numerator: Sequence[float],
    denominator: Sequence[float],
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> tuple[float, float]:
    """An interval, of 95 % unless told, of the median of numerator / denominator where the
    ``i``-th samples of both were taken side by side.

    The ratio of each pair is taken first: what slows both down alike, a drift or a burst, leaves
    it as it is, and neither shifts nor widens the interval. Raises ValueError if there are not as
    many of each.
    """
    ratios = _log_ratios(numerator, denominator).tolist()
    low, high = median_interval(ratios, seed, confidence)
    return math.exp(low), math.exp(high)


def outlier_scores(samples: Sequence[float]) -> list[float]:
    """Each sample's modified Z-score, 0.6745 · |x - median| / MAD, with a MAD for either side of
    the median (double MAD; DOPpler, Section 4), as latencies have a long tail on one of them.
    Infinite for what differs from a median that at least half of its side shares."""
    values = np.asarray(samples, dtype=np.float64)
    if not values.size:
        return []
    deviations = values - np.median(values)
    upper, lower = deviations[deviations >= 0], -deviations[deviations <= 0]
    spread = np.where(deviations >= 0, np.median(upper), np.median(lower))
    distance = np.abs(deviations)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.where(distance > 0, MAD_TO_SIGMA * distance / spread, 0.0)
    return [float(score) for score in scores]


def outliers(samples: Sequence[float]) -> int:
    """How many samples have a modified Z-score above 3."""
    return sum(score > OUTLIER_SCORE for score in outlier_scores(samples))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: the correlation of the ranks, equal values sharing theirs; 0 where one of the
    two never changes."""
    one, two = _ranks(np.asarray(first)), _ranks(np.asarray(second))
    scale = math.sqrt(float(one @ one) * float(two @ two))
    return float(one @ two) / scale if scale else 0.0


def _ranks(values: Vector) -> Vector:
    """Ranks less their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared = (2 * last - counts - 1) / 2
    ranks: Vector = shared[inverse]
    return ranks - ranks.mean() if ranks.size else ranks


def _log_ratios(numerator: Sequence[float], denominator: Sequence[float]) -> Vector:
    if len(numerator) != len(denominator):
        raise ValueError(f"{len(numerator)} and {len(denominator)} samples make no pairs")
    ratios: Vector = np.log(np.asarray(numerator, dtype=np.float64)) - np.log(
        np.asarray(denominator, dtype=np.float64)
    )
    return ratios


def _order_interval(values: Vector, confidence: float) -> tuple[float, float]:
    """The narrowest pair of order statistics, symmetric in rank, that holds the median of the
    distribution with the confidence (the sign test's interval); the extremes if there is none."""
    ordered, count = np.sort(values), values.size
    first = _samples_outside(len(ordered), confidence)
    return float(ordered[first]), float(ordered[count - 1 - first])


def _samples_outside(count: int, confidence: float) -> int:
    """How many of ``count`` samples may be left out on either side: the most k for which a fair
    coin falls heads fewer than k + 1 times in ``count`` with no more than half the error."""
    if count > 1000:  # where the binomial is normal, and 2⁻ⁿ too small for a float
        deviations = NormalDist().inv_cdf((1 + confidence) / 2)
        return int(count / 2 - deviations / 2 * math.sqrt(count)) - 1
    outside, below = 0, 0.0
    while (below := below + math.comb(count, outside) / 2**count) <= (1 - confidence) / 2:
        outside += 1
    return max(outside - 1, 0)


def _resampled_medians(values: Vector, seed: int) -> Vector:
    """Medians of RESAMPLES circular block resamples; the same draws for the same lengths."""
    count = values.size
    block = _block_length(values)
    starts = np.random.default_rng(seed).integers(0, count, (RESAMPLES, -(-count // block)))
    draws = (starts[:, :, None] + np.arange(block)) % count
    medians: Vector = np.median(values[draws.reshape(RESAMPLES, -1)[:, :count]], axis=1)
    return medians


def _block_length(values: Vector) -> int:
    """The best length for a series in which each value is like the one before it with correlation
    r: (6 r² / (1 - r²)²)^(1/3) · n^(1/3) (Politis and White, 2004, corrected in 2009, put for a
    first-order autoregression). 1 where the correlation may be chance; n / 3 at most."""
    count = len(values)
    if count < ENOUGH:
        return 1
    correlation = rank_correlation(values[1:].tolist(), values[:-1].tolist())
    correlation += 1 / count  # the estimate is too small by about that much
    if correlation < _DOUBTFUL / math.sqrt(count):
        return 1
    square = min(correlation, 0.97) ** 2
    best: float = (6 * square / (1 - square) ** 2 * count) ** (1 / 3)
    return max(1, min(math.ceil(best), count // 3))
