"""Medians, intervals and outliers against what is known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from workers.measure.report import report, shape
from workers.measure.statistics import (
    ENOUGH,
    enough,
    median,
    median_interval,
    median_ratio,
    outlier_scores,
    outliers,
    rank_correlation,
    ratio_interval,
)


def normal(count: int, seed: int, mean: float = 10.0, sigma: float = 1.0) -> list[float]:
    return [float(x) for x in np.random.default_rng(seed).normal(mean, sigma, count)]


def test_the_median_resists_outliers() -> None:
    assert median([3.0, 1.0, 1000.0]) == 3.0
    with pytest.raises(ValueError, match="no samples"):
        median([])


def test_the_interval_is_deterministic_and_holds_the_median() -> None:
    samples = normal(40, seed=1)
    low, high = median_interval(samples, seed=5)
    assert (low, high) == median_interval(samples, seed=5)
    assert low < median(samples) < high


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    intervals = [median_interval(normal(30, seed), seed) for seed in range(300)]
    covered = sum(low <= 10.0 <= high for low, high in intervals)
    assert 0.90 <= covered / 300 <= 0.99


def test_the_interval_narrows_with_more_samples() -> None:
    few, many = median_interval(normal(10, 1)), median_interval(normal(1000, 1))
    assert many[1] - many[0] < (few[1] - few[0]) / 3


def test_a_single_sample_and_none() -> None:
    assert median_interval([2.0]) == (2.0, 2.0)
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


def test_the_ratio_of_pairs_ignores_what_slows_both() -> None:
    drift = np.linspace(1, 3, 50)
    base = [float(x) for x in drift * normal(50, 1, sigma=0.1)]
    half = [float(x) for x in drift * normal(50, 2, mean=5.0, sigma=0.05)]
    low, high = ratio_interval(base, half)
    assert 1.9 < low < 2.0 < high < 2.1
    assert median_interval(base)[1] / median_interval(half)[0] > 2.4
    with pytest.raises(ValueError, match="3 and 2 samples make no pairs"):
        ratio_interval([1, 2, 3], [1, 2])


@pytest.mark.parametrize("count", [1, 2, 5, 6, 30, 999, 1001, 5000])
def test_the_interval_holds_the_median_of_any_number_of_samples(count: int) -> None:
    samples = normal(count, count)
    low, high = median_interval(samples)
    assert low <= median(samples) <= high
    if 1 < count <= 8:
        assert (low, high) == (min(samples), max(samples))
    if count > 900:
        expected = 2 * 1.96 * 1.2533 / count**0.5  # of the median of normal samples
        assert 0.7 < (high - low) / expected < 1.5


@pytest.mark.parametrize("samples", [6, 10, 20])
def test_few_samples_of_a_long_tail_are_not_believed_too_much(samples: int) -> None:
    covered = 0
    for seed in range(300):
        drawn = np.random.default_rng(seed).lognormal(0, 1, samples)
        low, high = median_interval(drawn.tolist(), seed)
        covered += low <= 1 <= high
    assert covered / 300 >= 0.92


def test_neighbours_that_are_alike_widen_the_interval() -> None:
    random = np.random.default_rng(1)
    level, series = 0.0, []
    for step in random.normal(0, 0.05, 300):
        level = 0.8 * level + step
        series.append(10 + level)
    shuffled = random.permutation(series).tolist()
    alike, independent = median_interval(series), median_interval(shuffled)
    assert alike[1] - alike[0] > 1.5 * (independent[1] - independent[0])


def test_the_median_ratio_is_that_of_pairs() -> None:
    assert median_ratio([2.0, 30.0, 400.0], [1.0, 10.0, 100.0]) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("first", "second", "correlation"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 1000], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 1, 2, 2], [1, 2, 1, 2], 0.0),
        ([5, 5, 5], [1, 2, 3], 0.0),
        ([1, 2, 2, 3], [1, 3, 2, 4], 0.9486833),
    ],
)
def test_the_rank_correlation(first: list[float], second: list[float], correlation: float) -> None:
    assert rank_correlation(first, second) == pytest.approx(correlation)


def test_each_side_of_the_median_has_its_own_spread() -> None:
    """A long tail above does not hide a sample that is much too quick, nor the other way round."""
    above = [9.0, 9.8, 9.9, 9.95, 10.0, 11.0, 12.0, 13.0, 14.0]
    scores = dict(zip(above, outlier_scores(above), strict=True))
    assert scores[14.0] < 3
    assert scores[9.0] > 3
    below = [20.0 - latency for latency in above]
    assert outlier_scores(below) == pytest.approx(outlier_scores(above))
    assert outlier_scores([1.0, 1.0, 1.0, 2.0])[3] == np.inf


def test_the_report_names_the_outliers() -> None:
    samples = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 7.0, 1.01, 0.99, 1.0, 1.02, 0.98]
    found = report(samples)
    assert [(outlier.index, outlier.latency_ms) for outlier in found.outliers] == [(6, 7.0)]
    assert found.outliers[0].score is not None
    assert found.outliers[0].score > 100
    assert found.outlier_share == pytest.approx(1 / 12)
    assert found.shape == "steady"
    assert found.low_ms <= found.median_ms == 1.0 <= found.high_ms
    assert json.loads(json.dumps(found.to_json()))["outliers"][0]["index"] == 6


@pytest.mark.parametrize("seed", range(20))
def test_the_shape_of_samples(seed: int) -> None:
    random = np.random.default_rng(seed)
    steady = random.normal(10, 0.3, 60)
    spiked = steady * np.where(random.random(60) < 0.05, 5, 1)
    assert shape(steady.tolist()) == shape(spiked.tolist()) == "steady"
    assert shape(random.uniform(10, 11, 60).tolist()) == "steady"
    assert shape((steady + np.linspace(0, 3, 60)).tolist()) == "drifting"
    modes = np.where(random.permutation(60) < 20, 12, 10) + random.normal(0, 0.1, 60)
    assert shape(modes.tolist()) == "bimodal"
    assert shape([3.0] * 60) == "steady"
    assert shape([1.0, 2.0, 3.0]) == "steady"


def test_outliers_by_the_modified_z_score() -> None:
    assert outliers([1.0, 1.1, 0.9, 1.05, 0.95, 9.0]) == 1
    assert outliers([1.0, 1.1, 0.9]) == 0
    assert outliers([1.0] * 9 + [2.0]) == 1
    assert outliers([]) == 0


def test_the_fewest_samples_that_can_prove_something() -> None:
    """Their extremes hold the median with the confidence, and those of one fewer do not."""
    assert enough(0.95) == ENOUGH
    for confidence in (0.5, 0.9, 0.95, 0.99, 0.9999):
        fewest = enough(confidence)
        assert 1 - 2 / 2**fewest >= confidence > 1 - 2 / 2 ** (fewest - 1)


def test_more_confidence_takes_a_wider_interval() -> None:
    for count in (20, 2000):
        samples = normal(count, seed=3)
        plain, sure = median_interval(samples), median_interval(samples, confidence=0.999)
        assert sure[0] < plain[0] < plain[1] < sure[1]
        assert median_interval(samples, confidence=0.95) == plain
    base, own = normal(30, 1), normal(30, 2)
    assert ratio_interval(base, own, confidence=0.999)[0] < ratio_interval(base, own)[0]
