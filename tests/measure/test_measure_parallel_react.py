"""REACT (DOPpler, Eqs. 6 and 7): traces worked by hand, and what holds for any of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.measure.parallel.react import (
    Branch,
    Cause,
    ReactForm,
    ReactPolicy,
    ReactState,
    RoundObservation,
    degree_to_run,
    initial_state,
    reach,
    react,
)

PAPER = ReactPolicy(ReactForm.PAPER)
PUBLISHED = ReactPolicy(ReactForm.PUBLISHED)
UP, PROBE, DOWN, HOLD = (
    Branch.BINARY_INCREASE,
    Branch.MAX_PROBING,
    Branch.MULTIPLICATIVE_DECREASE,
    Branch.HOLD,
)


def ran(degree: int, delta: float = 0.01, failures: int = 0, lasting: int = 0) -> RoundObservation:
    """A round of ``degree`` candidates on one device; ``lasting`` of them fail in any case."""
    return RoundObservation(degree, delta, failures, degree - failures - lasting)


@st.composite
def policies(draw: st.DrawFn) -> ReactPolicy:
    max_dp = draw(st.integers(1, 128))
    gamma_min = draw(st.integers(1, 4))
    return ReactPolicy(
        form=draw(st.sampled_from(ReactForm)),
        max_dp=max_dp,
        beta=draw(st.sampled_from([0.05, 0.125, 0.2, 0.5, 0.9])),
        gamma_min=gamma_min,
        gamma_max=draw(st.integers(gamma_min, 32)),
        alpha=draw(st.integers(1, 256)),
        initial_dp=draw(st.integers(1, max_dp)),
    )


@st.composite
def rounds(draw: st.DrawFn, state: ReactState) -> RoundObservation:
    degree = draw(st.sampled_from([state.d_p, max(1, state.d_p // 2), 1]))
    delta = draw(st.sampled_from([0.0, 0.05, 0.0501, 0.3, 5.0, math.inf, math.nan]))
    failures = draw(st.integers(0, degree))
    return RoundObservation(degree, delta, failures, draw(st.integers(0, degree - failures)))


def test_the_papers_form_by_hand() -> None:
    """β = 0.2: a bad round leaves ⌊0.8 d_p⌋, and for A ⌊0.9 d_p⌋ if d_p < A, else d_p."""
    trace = [
        # what was run, the branch, then d_p and A
        (ran(1), UP, 13, 128),  # γ = 127 / 2, at most 12
        (ran(13), UP, 25, 128),  # γ = 115 / 2, at most 12
        (ran(25), UP, 37, 128),
        (ran(37, delta=0.08), DOWN, 29, 33),  # ⌊29.6⌋; 37 < 128: ⌊33.3⌋
        (ran(29), UP, 31, 33),  # γ = 4 / 2
        (ran(31), UP, 33, 33),  # γ = 2 / 2, at least 2
        (ran(33), PROBE, 35, 33),  # d_p = A: γ = 0, at least 2
        (ran(35), PROBE, 37, 33),  # γ = 35 - 33
        (ran(37), PROBE, 41, 33),  # γ = 37 - 33
        (ran(41, failures=3), DOWN, 32, 41),  # 3 / 41 > 5 %; ⌊32.8⌋; 41 >= 33: A = 41
        (ran(32), UP, 36, 41),  # γ = 4.5, ⌊36.5⌋
        (ran(36), UP, 38, 41),  # γ = 2.5, ⌊38.5⌋
        (ran(10), HOLD, 38, 41),  # the batch's last 10 say nothing of 38
        (ran(38, math.nan), HOLD, 38, 41),
        (ran(38, 0.2, failures=5), DOWN, 30, 34),  # ⌊30.4⌋; 38 < 41: ⌊34.2⌋
        (ran(10, 0.2), DOWN, 8, 9),  # from the 10 that were run; 10 < 34: 9
    ]
    state = initial_state(PAPER)
    assert state == ReactState(1, 128)
    for observed, branch, d_p, adaptive_max in trace:
        step = react(state, observed, PAPER)
        assert (step.branch, step.after) == (branch, ReactState(d_p, adaptive_max)), step.words
        state = step.after


def test_the_published_form_by_hand() -> None:
    """As the paper's, from d_p + 1."""
    trace = [
        (ran(1), UP, 14, 128),  # 2; γ = 126 / 2, at most 12
        (ran(14), UP, 27, 128),  # 15 + 12
        (ran(27), UP, 40, 128),  # 28 + 12
        (ran(40, delta=0.08), DOWN, 32, 36),  # 41: ⌊32.8⌋; 41 < 128: ⌊36.9⌋
        (ran(32), UP, 35, 36),  # 33: γ = 1.5, at least 2
        (ran(35), PROBE, 38, 36),  # 36 = A: γ = 0, at least 2
        (ran(38), PROBE, 42, 36),  # 39: γ = 3
        (ran(42, failures=3), DOWN, 34, 43),  # 3 > ⌊2.1⌋; 43: ⌊34.4⌋; 43 >= 36: A = 43
        (ran(10), UP, 23, 43),  # the batch's last 10 become d_p: 11; γ = 16, at most 12
        (ran(23, math.nan), UP, 33, 43),  # unknown is 0: 24; γ = 9.5, ⌊33.5⌋
        (ran(1, 0.9, failures=1), UP, 14, 43),  # alone nothing is bad: 2 + 12
        (ran(14, failures=1), DOWN, 12, 13),  # 1 > ⌊0.7⌋; 15: ⌊12.0⌋; 15 < 43: ⌊13.5⌋
    ]
    state = initial_state(PUBLISHED)
    for observed, branch, d_p, adaptive_max in trace:
        step = react(state, observed, PUBLISHED)
        assert (step.branch, step.after) == (branch, ReactState(d_p, adaptive_max)), step.words
        state = step.after


@pytest.mark.parametrize(
    ("observed", "paper", "published"),
    [
        (ran(30, 0.05), Cause.ACCURATE, Cause.ACCURATE),  # τ must be surpassed
        (ran(30, 0.051), Cause.DEVIATION, Cause.DEVIATION),
        (ran(19, failures=1), Cause.FAILURES, Cause.FAILURES),
        (ran(20, failures=1), Cause.ACCURATE, Cause.ACCURATE),
        (ran(39, failures=2), Cause.FAILURES, Cause.FAILURES),
        (ran(40, failures=2), Cause.ACCURATE, Cause.ACCURATE),
        # of 40, 25 fail in any case: 1 of 15 that can be measured, or 1 of 40
        (ran(40, failures=1, lasting=25), Cause.FAILURES, Cause.ACCURATE),
        (ran(30, 0.2, failures=9), Cause.DEVIATION_AND_FAILURES, Cause.DEVIATION_AND_FAILURES),
        (ran(30, math.nan), Cause.UNKNOWN_DEVIATION, Cause.ACCURATE),
        (ran(30, math.nan, lasting=30), Cause.UNKNOWN_DEVIATION, Cause.ACCURATE),
        (ran(30, math.nan, failures=9), Cause.FAILURES, Cause.FAILURES),
        (ran(30, math.inf), Cause.DEVIATION, Cause.DEVIATION),
        (ran(1, math.nan), Cause.PARTIAL_ROUND, Cause.ACCURATE),
        (ran(29), Cause.PARTIAL_ROUND, Cause.ACCURATE),
    ],
)
def test_what_is_bad(observed: RoundObservation, paper: Cause, published: Cause) -> None:
    state = ReactState(30 if observed.degree in (1, 29) else observed.degree, 64)
    assert react(state, observed, PAPER).cause is paper
    assert react(state, observed, PUBLISHED).cause is published


def test_a_lone_candidate_has_nothing_beside_it() -> None:
    """Nothing is re-measured at degree 1, and yet REACT leaves it."""
    assert react(ReactState(1, 1), ran(1, math.nan), PAPER).after == ReactState(3, 1)
    assert react(ReactState(1, 9), ran(1, 0.9), PAPER).after == ReactState(1, 1)  # ⌊0.8⌋, ⌊0.9⌋


def test_a_round_that_is_bad_at_the_maximum_keeps_it() -> None:
    assert react(ReactState(20, 20), ran(20, 0.1), PAPER).after == ReactState(16, 20)
    assert react(ReactState(20, 21), ran(20, 0.1), PAPER).after == ReactState(16, 18)
    assert react(ReactState(19, 20), ran(19, 0.1), PUBLISHED).after == ReactState(16, 20)


def test_a_partial_round_of_which_nothing_is_known_is_held_for_that() -> None:
    step = react(ReactState(30, 64), ran(20, math.nan), PAPER)
    assert (step.branch, step.cause) == (HOLD, Cause.UNKNOWN_DEVIATION)


def test_a_step_tells_itself_in_words() -> None:
    step = react(ReactState(64, 128), ran(64, 0.3), PAPER)
    assert step.words == "multiplicative decrease (deviation): d_p 64 to 51, A 128 to 57"
    assert (step.before, step.gamma) == (ReactState(64, 128), 0)
    assert react(ReactState(1, 128), ran(1), PAPER).gamma == 12


def test_the_bounds_of_the_next_degree() -> None:
    assert reach(ReactState(37, 128), PAPER) == (29, 49)
    assert reach(ReactState(37, 128), PUBLISHED) == (30, 50)
    assert reach(ReactState(64, 128)) == (51, 64)
    assert reach(ReactState(1, 128)) == (1, 13)


@pytest.mark.parametrize(
    ("d_p", "left", "devices", "degree"),
    [
        (13, 64, 1, 13),
        (13, 13, 1, 13),
        (13, 12, 1, 12),
        (13, 12, 4, 3),
        (13, 13, 4, 4),
        (9, 1, 4, 1),
    ],
)
def test_a_batch_ends_with_what_is_left(d_p: int, left: int, devices: int, degree: int) -> None:
    assert degree_to_run(ReactState(d_p, 128), left, devices) == degree


@given(st.data(), policies())
def test_the_degree_stays_in_bounds_and_never_rises_after_a_bad_round(
    data: st.DataObject, policy: ReactPolicy
) -> None:
    state = initial_state(policy)
    for _ in range(12):
        observed = data.draw(rounds(state))
        low, high = reach(state, policy)
        step = react(state, observed, policy)
        assert 1 <= step.after.d_p <= policy.max_dp
        assert step.after.adaptive_max >= 1
        if step.cause.bad:
            assert step.branch is DOWN
            assert step.after.d_p <= observed.degree
        elif observed.degree == state.d_p and step.branch is not HOLD:
            assert step.after.d_p == high
            assert state.d_p == policy.max_dp or high > state.d_p
        assert 1 <= low <= high <= policy.max_dp
        assert step.branch is not HOLD or step.after == step.before
        state = step.after


@given(st.data(), policies())
def test_in_the_papers_form_a_bad_round_lowers_the_degree(
    data: st.DataObject, policy: ReactPolicy
) -> None:
    policy = ReactPolicy(beta=policy.beta, max_dp=policy.max_dp)
    d_p = data.draw(st.integers(1, policy.max_dp))
    step = react(ReactState(d_p, data.draw(st.integers(1, 256))), ran(d_p, 1.0), policy)
    assert step.after.d_p < d_p or d_p == 1


def test_in_the_published_form_bad_rounds_do_not_lower_four() -> None:
    """⌊5 · 0.8⌋ = 4: a program that bears no more than two at once is measured four at once."""
    for d_p in (1, 2, 3, 4):
        assert react(ReactState(d_p, 64), ran(d_p, delta=1.0), PUBLISHED).after.d_p in (d_p, 14)
    assert react(ReactState(4, 64), ran(4, delta=1.0), PUBLISHED).after.d_p == 4
    assert react(ReactState(4, 64), ran(4, delta=1.0), PAPER).after.d_p == 3


@pytest.mark.parametrize("form", list(ReactForm))
@pytest.mark.parametrize(("max_dp", "gamma_max"), [(1, 12), (8, 12), (64, 12), (64, 64)])
def test_good_rounds_reach_the_maximum(form: ReactForm, max_dp: int, gamma_max: int) -> None:
    """From anywhere: the gap to A halves, then the distance from A doubles, and in between γ_max
    is added: max_dp / γ_max + 2 log₂ γ_max rounds and some. With γ_max = max_dp, O(log max_dp)."""
    policy = ReactPolicy(form, max_dp=max_dp, gamma_max=gamma_max)
    most = math.ceil(max_dp / gamma_max) + 2 * math.ceil(math.log2(gamma_max)) + 4
    for d_p in range(1, max_dp + 1):
        for adaptive_max in range(1, 2 * max_dp + 1):
            state = ReactState(d_p, adaptive_max)
            for _ in range(most):
                state = react(state, ran(state.d_p), policy).after
            assert state.d_p == max_dp, (d_p, adaptive_max)


def test_from_the_start_good_rounds_take_six_steps_to_the_batch_size() -> None:
    state, degrees = initial_state(PAPER), []
    for _ in range(7):
        degrees.append(state.d_p)
        state = react(state, ran(state.d_p), PAPER).after
    assert degrees == [1, 13, 25, 37, 49, 61, 64]


@given(st.integers(1, 63), st.integers(1, 64), st.integers(1, 256))
def test_the_degree_settles_in_a_band_around_what_the_device_bears(
    bearable: int, d_p: int, adaptive_max: int
) -> None:
    """If rounds are bad exactly above c, d_p ends up swinging between ⌊0.8 (c + 1)⌋, what the least
    bad one leaves, and c + max(2, ⌊0.1 (c + 1)⌋), what is probed beyond an A that is at least
    ⌊0.9 (c + 1)⌋; and it goes on trying both sides of c."""
    state = ReactState(d_p, adaptive_max)
    seen = []
    for _ in range(120):
        state = react(state, ran(state.d_p, 0.0 if state.d_p <= bearable else 0.1), PAPER).after
        seen.append(state.d_p)
    settled = seen[60:]
    assert min(settled) >= math.floor(0.8 * (bearable + 1) + 1e-9)
    assert max(settled) <= bearable + max(2, math.floor(0.1 * (bearable + 1) + 1e-9))
    assert min(settled) <= bearable < max(settled)


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="the round ran 5 at once, d_p was 4"):
        react(ReactState(4, 8), ran(5))
    with pytest.raises(ValueError, match="d_p is 65, max_dp only 64"):
        react(ReactState(65, 8), ran(5))
    with pytest.raises(ValueError, match="d_p is 0"):
        ReactState(0, 8)
    with pytest.raises(ValueError, match="A is 0"):
        ReactState(1, 0)
    with pytest.raises(ValueError, match="degree of parallelism is 0"):
        RoundObservation(0, 0.0, 0, 0)
    with pytest.raises(ValueError, match=r"δ_mean is -0\.1"):
        ran(4, -0.1)
    with pytest.raises(ValueError, match="-1 failures and 5 successes"):
        ran(4, failures=-1)
    with pytest.raises(ValueError, match="0 candidates on 1 devices"):
        degree_to_run(ReactState(4, 8), 0)
    with pytest.raises(ValueError, match="3 candidates on 0 devices"):
        degree_to_run(ReactState(4, 8), 3, 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_dp": 0}, "max_dp is 0"),
        ({"beta": 0.0}, "β is 0.0"),
        ({"beta": 1.0}, "β is 1.0"),
        ({"gamma_min": 0.5}, "γ is between 0.5 and 12"),
        ({"gamma_min": 13}, "γ is between 13 and 12"),
        ({"gamma_max": math.inf}, "γ is between 2.0 and inf"),
        ({"tau": -0.1}, "τ is -0.1"),
        ({"tau": math.nan}, "τ is nan"),
        ({"alpha": 0}, "α is 0"),
        ({"initial_dp": 65}, "the initial d_p is 65"),
    ],
)
def test_parameters_with_which_nothing_moves(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReactPolicy(**wrong)
