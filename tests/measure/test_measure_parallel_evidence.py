"""The Calibrator's evidence over several rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.measure.parallel.evidence import DEVIATIONS, RATIOS, Evidence, Pair

DEGREES = st.integers(2, 8)


def pairs(degree: int, ratios: list[float], device: str = "cpu") -> list[Pair]:
    return [Pair(degree, device, 2.0, 2.0 * ratio) for ratio in ratios]


@given(st.lists(st.tuples(DEGREES, st.integers(0, 12)), max_size=40), st.floats(0.0, 1.0))
def test_the_share_holds_over_rounds_of_any_size(
    rounds: list[tuple[int, int]], zeta: float
) -> None:
    evidence, again, firsts = Evidence(), 0, set()
    for degree, successes in rounds:
        due = evidence.due(degree, successes, zeta=zeta)
        assert 0 <= due <= successes
        if successes and degree not in firsts:
            assert due >= 1
        firsts |= {degree} if due else set()
        evidence = evidence.after(successes, pairs(degree, [1.0] * due), zeta)
        assert 0 <= evidence.owed <= 1
        again += due
    wanted = zeta * sum(successes for _, successes in rounds)
    assert wanted - 1 - 1e-6 <= again <= wanted + len(firsts) + 1e-6


def test_rounds_of_two_have_every_fifth_candidate_measured_again() -> None:
    evidence, due = Evidence(), []
    for _ in range(11):
        due.append(evidence.due(2, 2))
        evidence = evidence.after(2, pairs(2, [1.0] * due[-1]))
    assert due == [1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1]


def test_outliers_beyond_the_share_are_no_credit() -> None:
    """They are re-measured in any case, so that a sample of the others still has its turn."""
    evidence = Evidence().after(10, pairs(10, [0.5] * 6))
    assert evidence.owed == 0
    assert evidence.due(10, 10) == 2


def test_the_mean_deviation_is_of_the_newest_pairs_of_the_degree() -> None:
    ratios = [0.9, 0.5, 1.1, 0.7, 0.9, 0.8, 1.2, 0.6, 0.9, 0.9]
    evidence = Evidence((*pairs(2, ratios), *pairs(3, [3.0])))
    newest = math.prod(ratios[-DEVIATIONS:]) ** (1 / DEVIATIONS)
    assert evidence.mean_deviation(2, own=1) == pytest.approx(1 - newest)
    assert evidence.mean_deviation(2, own=10) == pytest.approx(1 - math.prod(ratios) ** 0.1)
    assert evidence.mean_deviation(3, own=0) == 0, "nobody is faster beside others"
    assert math.isnan(evidence.mean_deviation(4, own=0))


def test_noise_of_a_tenth_is_no_deviation_and_interference_of_a_tenth_is() -> None:
    quiet, crowded = [], []
    for seed in range(100):
        noise = np.random.default_rng(seed).normal(0, 0.1, DEVIATIONS)
        quiet.append(Evidence(tuple(pairs(2, np.exp(noise).tolist()))).mean_deviation(2, own=1))
        slow = (np.exp(noise) * 0.85).tolist()
        crowded.append(Evidence(tuple(pairs(2, slow))).mean_deviation(2, own=1))
    assert np.mean(np.array(quiet) > 0.05) < 0.15
    assert np.mean(np.array(crowded) > 0.05) > 0.95


def test_of_a_degree_that_was_bad_every_round_is_looked_at() -> None:
    """So that it is left, and come back to, by what is so now."""
    bad = Evidence(tuple(pairs(2, [0.8] * DEVIATIONS)))
    assert bad.due(2, 2, tau=0.05) == 1
    assert bad.due(2, 2, tau=0.25) == 0
    good = bad.after(2, pairs(2, [1.0] * DEVIATIONS))
    assert good.due(2, 2, tau=0.05) == 0


def test_doubt_is_how_far_two_measurements_are_apart() -> None:
    assert Evidence().doubt == 0
    evidence = Evidence(
        (*pairs(2, [9.0]), *pairs(2, [0.9, 1.1] * (RATIOS // 2 - 1)), *pairs(3, [1.3, 0.7]))
    )
    assert evidence.doubt == pytest.approx((0.1 * (RATIOS - 2) + 0.6) / RATIOS)


@given(st.floats(0.3, 0.97), st.integers(0, 2**32 - 1))
def test_interference_that_is_there_is_taken_off(true: float, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.01, RATIOS)
    evidence = Evidence(tuple(pairs(4, [true * math.exp(sigma) for sigma in noise])))
    assert evidence.factor(4, "cpu") == pytest.approx(true, rel=0.02)
    assert evidence.factor(4, "cuda:0") == 1, "another device"
    assert evidence.factor(3, "cpu") == 1, "another degree"


def test_noise_scales_nothing_ninety_nine_times_of_a_hundred() -> None:
    scaled = 0
    for seed in range(200):
        noise = np.random.default_rng(seed).normal(0, 0.1, 20)
        scaled += Evidence(tuple(pairs(2, np.exp(noise).tolist()))).factor(2, "cpu") != 1
    assert scaled <= 6


def test_a_few_pairs_scale_nothing() -> None:
    assert Evidence(tuple(pairs(2, [0.5] * 7))).factor(2, "cpu") == 1
    assert Evidence(tuple(pairs(2, [0.5] * 8))).factor(2, "cpu") == 0.5
    assert Evidence().factor(2, "cpu") == 1


def test_similar_degrees_are_evidence_for_each_other() -> None:
    evidence = Evidence((*pairs(16, [0.7] * 4), *pairs(24, [0.7] * 4), *pairs(8, [0.1] * 9)))
    assert evidence.factor(20, "cpu") == 0.7
    assert evidence.factor(24, "cpu") == 1


def test_a_factor_follows_what_changes() -> None:
    evidence = Evidence().after(99, pairs(2, [0.5] * 40)).after(99, pairs(2, [0.8] * RATIOS))
    assert evidence.factor(2, "cpu") == 0.8


@pytest.mark.parametrize("latency", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_latency_is_no_evidence(latency: float) -> None:
    with pytest.raises(ValueError, match="a latency is"):
        Pair(2, "cpu", latency, 1.0)
    with pytest.raises(ValueError, match="a latency is"):
        Pair(2, "cpu", 1.0, latency)
