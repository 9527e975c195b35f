"""The adaptive timeout (DOPpler, Eq. 2) against worked values, its bounds and its direction."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.measure.parallel.timeouts import (
    DEFAULT_TIMEOUT,
    LONGEST_S,
    SHORTEST_S,
    AdaptiveTimeout,
    PaperTimeout,
    PublishedTimeout,
)

DEGREES = st.integers(1, 10_000)
DEVICES = st.integers(1, 64)
TIMEOUTS = st.one_of(
    st.just(PublishedTimeout()),
    st.floats(1e-4, 10).map(PaperTimeout),
    st.builds(PublishedTimeout, st.floats(1, 10), st.floats(0.001, 1)),
)


@pytest.mark.parametrize(
    ("d_p", "seconds"), [(1, 4), (8, 6), (16, 9), (32, 17), (43, 19), (44, 20), (48, 20), (64, 20)]
)
def test_the_published_form_is_the_default(d_p: int, seconds: int) -> None:
    assert PublishedTimeout() == DEFAULT_TIMEOUT
    assert DEFAULT_TIMEOUT.seconds(d_p) == seconds


def test_the_published_form_counts_devices_in_pairs() -> None:
    # ⌈2 / 2⌉ · 16 = 16 candidates, ⌈3 / 2⌉ · 16 = ⌈4 / 2⌉ · 16 = 32
    assert [DEFAULT_TIMEOUT.seconds(16, devices) for devices in (1, 2, 3, 4)] == [9, 9, 17, 17]


def test_the_published_form_does_not_exceed_its_maximum_where_tanh_is_one() -> None:
    assert math.tanh((400 - 20.25) * 0.06) == 1  # 9.1 + 10.9 + 1 = 21 by the bare formula
    assert DEFAULT_TIMEOUT.seconds(400) == 20


@pytest.mark.parametrize(
    ("d_p", "devices", "seconds"),
    [
        (1, 1, 4),  # 40 · tanh(0.01) = 0.4, below η
        (16, 1, 6),  # 40 · tanh(0.16) = 6.35
        (32, 1, 12),  # 40 · tanh(0.32) = 12.38
        (16, 2, 12),  # the same product of d_p and G
        (64, 1, 20),  # 40 · tanh(0.64) = 22.6, above ι
    ],
)
def test_the_papers_form(d_p: int, devices: int, seconds: int) -> None:
    assert PaperTimeout(phi=0.02).seconds(d_p, devices) == seconds


def test_the_papers_form_takes_its_bounds() -> None:
    timeout = PaperTimeout(phi=1.0, shortest_s=2.5, longest_s=7.5)
    assert timeout.seconds(64) == 7  # ⌊7.5⌋
    assert PaperTimeout(1e-6, 2.5, 7.5).seconds(1) == 2


def test_the_published_form_takes_its_bounds() -> None:
    assert [PublishedTimeout(shortest_s=6).seconds(d_p) for d_p in (1, 8, 16)] == [6, 6, 9]
    # ⌊4.1 · tanh(-0.015) + 5.9⌋ + 1 and ⌊4.1 · tanh(2.625) + 5.9⌋ + 1
    assert [PublishedTimeout(longest_s=10).seconds(d_p) for d_p in (20, 64)] == [6, 10]


@given(TIMEOUTS, DEGREES, DEVICES)
def test_a_timeout_stays_within_its_bounds(
    timeout: AdaptiveTimeout, d_p: int, devices: int
) -> None:
    assert SHORTEST_S <= timeout.seconds(d_p, devices) <= LONGEST_S


@given(TIMEOUTS, DEGREES, DEGREES, DEVICES)
def test_more_at_once_never_gets_less_time(
    timeout: AdaptiveTimeout, one: int, other: int, devices: int
) -> None:
    few, many = sorted((one, other))
    assert timeout.seconds(few, devices) <= timeout.seconds(many, devices)
    assert timeout.seconds(few, devices) <= timeout.seconds(few, devices + 1)


@pytest.mark.parametrize("timeout", [PaperTimeout(0.02), PublishedTimeout()])
def test_a_round_needs_candidates_and_devices(timeout: AdaptiveTimeout) -> None:
    with pytest.raises(ValueError, match="the degree of parallelism is 0"):
        timeout.seconds(0)
    with pytest.raises(ValueError, match="there are 0 devices"):
        timeout.seconds(1, 0)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_parameters_are_positive_and_finite(wrong: float) -> None:
    with pytest.raises(ValueError, match="φ is"):
        PaperTimeout(wrong)
    with pytest.raises(ValueError, match="the softness z is"):
        PublishedTimeout(softness=wrong)
    with pytest.raises(ValueError, match="the steepness s is"):
        PublishedTimeout(steepness=wrong)
    with pytest.raises(ValueError, match="the bounds must be"):
        PaperTimeout(0.02, shortest_s=wrong)


def test_the_bounds_are_in_order() -> None:
    with pytest.raises(ValueError, match=r"between 9.0 s and 3.0 s"):
        PublishedTimeout(shortest_s=9.0, longest_s=3.0)
