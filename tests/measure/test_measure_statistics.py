"""Medians, intervals and outliers against what is known."""

from __future__ import annotations

import numpy as np
import pytest

from workers.measure.statistics import median, median_interval, outliers, ratio_interval


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


def test_outliers_by_the_modified_z_score() -> None:
    assert outliers([1.0, 1.1, 0.9, 1.05, 0.95, 9.0]) == 1
    assert outliers([1.0, 1.1, 0.9]) == 0
    assert outliers([1.0] * 9 + [2.0]) == 1
    assert outliers([]) == 0
