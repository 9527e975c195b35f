"""The Calibrator (DOPpler, Eqs. 3 to 5) against plain definitions and planted outliers."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workers.measure.parallel.calibrator import (
    CONTENDERS,
    Selection,
    find_outliers,
    mean_deviation,
    ratio_scores,
    remeasurement_count,
    scale_latencies,
    select_ranked,
    select_remeasurements,
)

MEASURED = st.lists(
    st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), min_size=1, max_size=40
).map(lambda pairs: ([float(n) for n, _ in pairs], [float(n) for _, n in pairs]))
SEEDS = st.integers(0, 2**32 - 1)


def plain_scores(latencies: list[float], durations: list[float]) -> list[float]:
    """Double MAD as it is defined, one candidate at a time."""
    ratios = [one / whole for one, whole in zip(latencies, durations, strict=True)]
    middle = statistics.median(ratios)
    below = statistics.median([middle - r for r in ratios if r <= middle] or [0.0])
    above = statistics.median([r - middle for r in ratios if r >= middle] or [0.0])
    scores = []
    for ratio in ratios:
        spread = below if ratio < middle else above
        distance = abs(ratio - middle)
        if distance == 0:
            scores.append(0.0)
        else:
            scores.append(0.6745 * distance / spread if spread else math.inf)
    return scores


def steady(count: int, seed: int) -> tuple[list[float], list[float]]:
    """Latencies of very different candidates, 60 runs of each and some overhead: even ratios."""
    random = np.random.default_rng(seed)
    latencies = random.uniform(0.1, 10, count)
    return latencies.tolist(), (60 * latencies * random.uniform(1.02, 1.06, count)).tolist()


@given(MEASURED)
def test_scores_are_those_of_the_definition(measured: tuple[list[float], list[float]]) -> None:
    latencies, durations = measured
    ratios = np.asarray(latencies) / np.asarray(durations)
    gaps = np.abs(ratios - np.median(ratios)) / np.median(ratios)
    assume(not ((gaps > 0) & (gaps < 1e-8)).any())
    assert ratio_scores(latencies, durations) == pytest.approx(plain_scores(latencies, durations))


def test_scores_by_hand() -> None:
    # r = 1, 3, 4, 5, 9; the median is 4; MAD below: median(0, 1, 3) = 1, above: (0, 1, 5) = 1
    scores = ratio_scores([1, 6, 12, 20, 45], [1, 2, 3, 4, 5])
    assert scores == pytest.approx([2.0235, 0.6745, 0, 0.6745, 3.3725])
    assert find_outliers([1, 6, 12, 20, 45], [1, 2, 3, 4, 5]) == (4,)
    assert find_outliers([1, 6, 12, 20, 45], [1, 2, 3, 4, 5], threshold=2) == (0, 4)
    assert find_outliers([1, 6, 12, 20, 45], [1, 2, 3, 4, 5], threshold=scores[4]) == ()


@given(MEASURED, st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_scores_do_not_depend_on_units(
    measured: tuple[list[float], list[float]], of_latency: float, of_duration: float
) -> None:
    latencies, durations = measured
    ratios = np.asarray(latencies) / np.asarray(durations)
    gaps = np.abs(ratios - np.median(ratios)) / np.median(ratios)
    assume(not ((gaps > 1e-12) & (gaps < 1e-7)).any())
    scaled = ratio_scores([of_latency * t for t in latencies], [of_duration * t for t in durations])
    assert scaled == pytest.approx(ratio_scores(latencies, durations), rel=1e-6, abs=1e-6)


@given(st.integers(0, 1000), st.sampled_from([0.5, 0.8, 1.25, 2.0]), st.integers(1, 4))
def test_planted_outliers_are_found_on_either_side(seed: int, factor: float, planted: int) -> None:
    latencies, durations = steady(40, seed)
    assert all(place >= 0 for place in find_outliers(latencies, durations))
    places = np.random.default_rng(seed).choice(40, planted, replace=False).tolist()
    for place in places:
        latencies[place] *= factor
    assert set(places) <= set(find_outliers(latencies, durations))


@given(st.floats(1e-6, 1e6), st.lists(st.floats(1e-3, 1e3), max_size=40))
def test_candidates_with_one_ratio_have_no_outliers(ratio: float, durations: list[float]) -> None:
    """Although rounding makes the ratios of proportional times differ in their last bits."""
    latencies = [ratio * duration for duration in durations]
    assert ratio_scores(latencies, durations) == [0.0] * len(durations)
    assert find_outliers(latencies, durations) == ()


def test_what_leaves_a_side_without_spread_is_an_outlier() -> None:
    durations = [1.0] * 9
    latencies = [5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.001, 4.0, 3.0]
    # above: five of six equal the median; below: the MAD of (0 · 6, 1, 2) is 0 too
    assert ratio_scores(latencies, durations)[6:] == [math.inf] * 3
    assert find_outliers(latencies, durations) == (6, 7, 8)
    # one side alone: the MAD below 3 is the median of 2, 1.5, 1, 0, 0, 0
    scores = ratio_scores([1, 1.5, 2, 3, 3, 3, 3.1], [1] * 7)
    assert scores == pytest.approx([2.698, 2.0235, 1.349, 0, 0, 0, math.inf])


def test_times_are_positive_pairs() -> None:
    with pytest.raises(ValueError, match="2 latencies and 1 durations make no pairs"):
        ratio_scores([1, 2], [1])
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"a latency is {wrong}"):
            ratio_scores([wrong], [1.0])
        with pytest.raises(ValueError, match=f"a duration is {wrong}"):
            ratio_scores([1.0], [wrong])
    with pytest.raises(ValueError, match="the threshold of outliers is 0"):
        find_outliers([1.0], [1.0], 0)


@pytest.mark.parametrize(
    ("outliers", "successes", "zeta", "count"),
    [
        (0, 64, 0.2, 13),  # ⌈12.8⌉
        (20, 64, 0.2, 20),
        (0, 15, 0.2, 3),
        (0, 1, 0.2, 1),
        (0, 0, 0.2, 0),
        (0, 64, 0.0, 0),
        (3, 3, 1.0, 3),
        (0, 100, 0.07, 7),  # 0.07 · 100 is 7.000000000000001 in floating point
    ],
)
def test_how_many_are_remeasured(outliers: int, successes: int, zeta: float, count: int) -> None:
    assert remeasurement_count(outliers, successes, zeta) == count


def test_how_many_cannot_be_remeasured() -> None:
    with pytest.raises(ValueError, match="4 outliers of 3"):
        remeasurement_count(4, 3)
    with pytest.raises(ValueError, match=r"ζ is 1\.5"):
        remeasurement_count(0, 3, 1.5)


@given(MEASURED, SEEDS)
def test_all_outliers_and_a_sample_of_the_others_are_selected(
    measured: tuple[list[float], list[float]], seed: int
) -> None:
    selection = select_remeasurements(*measured, seed)
    outliers = find_outliers(*measured)
    assert selection.outliers == outliers
    assert not set(selection.sampled) & set(outliers)
    assert selection.candidates == tuple(sorted({*outliers, *selection.sampled}))
    assert len(selection.candidates) == max(len(outliers), math.ceil(len(measured[0]) / 5))
    assert set(selection.candidates) <= set(range(len(measured[0])))
    assert selection == select_remeasurements(*measured, seed)


def test_the_sample_is_drawn_evenly_and_by_its_seed() -> None:
    latencies, durations = [float(n) for n in range(1, 21)], [60.0 * n for n in range(1, 21)]
    drawn = [select_remeasurements(latencies, durations, seed) for seed in range(500)]
    assert len({selection.sampled for selection in drawn}) > 300
    times = np.bincount([place for selection in drawn for place in selection.sampled], minlength=20)
    assert times.sum() == 500 * 4
    assert 60 < times.min() <= times.max() < 145  # 100 on average, give or take 9
    assert select_remeasurements([], [], 0) == Selection((), ())
    assert len(select_remeasurements(latencies, durations, 0, count=1).candidates) == 1
    assert select_remeasurements(latencies, durations, 0, count=0) == Selection((), ())


def test_the_mean_deviation() -> None:
    # |8 - 10| / 10 = 0.2 and |22 - 20| / 20 = 0.1: of the parallel latency, in either direction
    assert mean_deviation([10.0, 20.0, 7.0], {0: 8.0, 1: 22.0}) == pytest.approx(0.15)
    assert mean_deviation([10.0], {0: 10.0}) == 0
    assert math.isnan(mean_deviation([10.0], {}))
    with pytest.raises(ValueError, match="candidate 3 was re-measured, there are 1"):
        mean_deviation([10.0], {3: 10.0})
    with pytest.raises(ValueError, match="a re-measured latency is inf"):
        mean_deviation([10.0], {0: math.inf})
    with pytest.raises(ValueError, match=r"a latency is 0\.0"):
        mean_deviation([0.0], {0: 1.0})


@given(MEASURED, st.data(), st.floats(1e-3, 1e3))
def test_the_mean_deviation_is_its_definition_in_any_unit(
    measured: tuple[list[float], list[float]], data: st.DataObject, unit: float
) -> None:
    latencies, isolated = measured
    places = data.draw(st.sets(st.integers(0, len(latencies) - 1), min_size=1))
    remeasured = {place: isolated[place] for place in places}
    plain = sum(abs(isolated[p] - latencies[p]) / latencies[p] for p in places) / len(places)
    delta = mean_deviation(latencies, remeasured)
    assert delta == pytest.approx(plain)
    in_unit = {place: unit * latency for place, latency in remeasured.items()}
    assert mean_deviation([unit * t for t in latencies], in_unit) == pytest.approx(delta)


@given(MEASURED, st.floats(0, 0.99))
def test_the_papers_scaling_is_its_equation_and_uniform(
    measured: tuple[list[float], list[float]], delta: float
) -> None:
    latencies, durations = measured
    plain = [t / v * (v - v * delta) for t, v in zip(latencies, durations, strict=True)]
    scaled = scale_latencies(latencies, {0: 1.0}, delta)
    assert scaled == pytest.approx(plain)
    assert [s / t for s, t in zip(scaled, latencies, strict=True)] == pytest.approx(
        [1 - delta] * len(latencies)
    )


def test_the_published_scaling_leaves_the_remeasured_their_better_latency() -> None:
    latencies, remeasured = [10.0, 10.0, 10.0, 20.0], {0: 8.0, 1: 11.0}
    assert scale_latencies(latencies, remeasured, 0.1, published=True) == [8, 10, 9, 18]
    assert scale_latencies(latencies, remeasured, 0.1) == [9, 9, 9, 18]
    assert scale_latencies(latencies, remeasured, 0.24, published=True)[3] == pytest.approx(15.2)
    for delta in (0.25, 0.4, 2.0):
        assert scale_latencies(latencies, remeasured, delta, published=True) == [8, 10, 10, 20]


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("delta", [math.nan, 1.0, 3.0, math.inf, 0.0])
def test_a_deviation_that_says_nothing_scales_nothing(published: bool, delta: float) -> None:
    assert scale_latencies([10.0, 20.0], {}, delta, published) == [10, 20]


def test_scaling_refuses_what_is_no_latency() -> None:
    with pytest.raises(ValueError, match=r"δ_mean is -0\.1"):
        scale_latencies([1.0], {}, -0.1)
    with pytest.raises(ValueError, match="a latency is inf"):
        scale_latencies([math.inf], {}, 0.1)
    with pytest.raises(ValueError, match="candidate 1 was re-measured"):
        scale_latencies([1.0], {1: 1.0}, 0.1)


@pytest.mark.parametrize(
    ("candidates", "share", "count"),
    [
        (1, 0.01, 1),
        (64, 0.01, 1),
        (100, 0.01, 1),
        (101, 0.01, 2),
        (500, 0.01, 5),
        (9, 0.0, 1),
        (100, 0.07, 7),
    ],
)
def test_how_many_are_ranked(candidates: int, share: float, count: int) -> None:
    assert len(select_ranked([1.0] * candidates, share, contending=0)) == count


def test_those_close_to_the_best_are_ranked_beside_the_share() -> None:
    latencies = [1.2, 1.0, 1.1, 1.11, math.inf, 1.05]
    assert select_ranked(latencies) == (1, 5, 2)
    assert select_ranked(latencies, contending=0.15) == (1, 5, 2, 3)
    assert select_ranked(latencies, contending=0) == (1,)
    assert len(select_ranked([1.0] * 64)) == CONTENDERS
    assert len(select_ranked([1.0] * 64, share=0.5)) == 32


def test_the_best_are_ranked_first_and_failures_never() -> None:
    latencies = [3.0, math.inf, 1.0, 2.0, 1.0, math.inf]
    assert select_ranked(latencies, share=0.5) == (2, 4, 3)
    assert select_ranked(latencies) == (2, 4)
    assert select_ranked(latencies, share=1.0) == (2, 4, 3, 0)
    assert select_ranked([math.inf] * 300) == ()
    assert select_ranked([]) == ()
    assert select_ranked([math.inf] * 199 + [5.0]) == (199,)
    with pytest.raises(ValueError, match=r"rank is 1\.1"):
        select_ranked(latencies, 1.1)
    with pytest.raises(ValueError, match="a latency is nan"):
        select_ranked([1.0, math.nan])
