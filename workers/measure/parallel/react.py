"""REACT: how many candidates to measure at once in the next round (DOPpler, Section 4.3,
Algorithm 2, Eqs. 6 and 7).

Binary Increase Congestion control (BIC) for a degree of parallelism d_p: a round that was too
inaccurate, or failed too many candidates, lowers d_p by a factor; every other one raises it, in
large steps far from the adaptive maximum A, in small ones close to it, and in growing ones beyond.

Pure: a state and what was observed of a round give the next state. Where the paper is silent or
contradicts itself:

- The initial d_p and α, the initial A, are not given; here 1 and 128, as in the published code.
- Whether Eq. 7 follows Eq. 6 in the same round is not said. Here a round takes one of them, as in
  BIC and in the published code: both together would raise d_p after a bad round at d_p 1.
- "δ_mean or N_err,dp have surpassed τ" compares a count with 5 %. Here it is the share that
  parallelism failed of what can be measured, N_err,dp / (N_err,dp + N_succ).
- Section 5.3 calls τ = 10 % stricter than 5 %, yet a larger τ tolerates more. Larger is laxer here.
- The bars of Eq. 6 are floors, and Eq. 7's γ need not be whole: d_p + γ is floored too. Neither
  equation keeps d_p within 1 … max_dp, nor A at 1 or more; here both are kept.
- Nothing is said of rounds that ran fewer than d_p, nor of those of which δ is unknown: see
  ``react``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

_ROUNDING = 1e-9
"""So that 5 · (1 - 0.2) floors to 4 whatever the factor's last bit is."""


class ReactForm(StrEnum):
    """Whose REACT: the paper's equations, or what the authors' published code does."""

    PAPER = "paper"
    PUBLISHED = "published"


class Branch(StrEnum):
    """What REACT did with d_p after a round."""

    MULTIPLICATIVE_DECREASE = "multiplicative_decrease"
    BINARY_INCREASE = "binary_increase"
    MAX_PROBING = "max_probing"
    HOLD = "hold"


class Cause(StrEnum):
    """Why it did so."""

    DEVIATION = "deviation"
    FAILURES = "failures"
    DEVIATION_AND_FAILURES = "deviation_and_failures"
    ACCURATE = "accurate"
    UNKNOWN_DEVIATION = "unknown_deviation"
    PARTIAL_ROUND = "partial_round"

    @property
    def bad(self) -> bool:
        """Whether the round was too inaccurate or failed too many."""
        return self in (Cause.DEVIATION, Cause.FAILURES, Cause.DEVIATION_AND_FAILURES)


@dataclass(frozen=True, slots=True)
class ReactPolicy:
    """REACT's parameters, with the paper's values; α and the initial d_p are the published code's.

    ``beta`` (β) is how much of d_p a bad round costs, ``gamma_min`` and ``gamma_max`` bound what a
    good one adds, ``tau`` (τ) is the deviation and the share of failures that are still good,
    ``alpha`` (α) is the first A and may exceed ``max_dp``, the tuner's batch size. Raises
    ValueError for values with which d_p could not move or not stay in 1 … ``max_dp``.
    """

    form: ReactForm = ReactForm.PAPER
    max_dp: int = 64
    beta: float = 0.2
    gamma_min: float = 2.0
    gamma_max: float = 12.0
    tau: float = 0.05
    alpha: int = 128
    initial_dp: int = 1

    def __post_init__(self) -> None:
        if self.max_dp < 1:
            raise ValueError(f"max_dp is {self.max_dp}, at least 1 is measured at a time")
        if not 0 < self.beta < 1:
            raise ValueError(f"β is {self.beta}, it must be between 0 and 1")
        if not 1 <= self.gamma_min <= self.gamma_max < math.inf:
            raise ValueError(
                f"γ is between {self.gamma_min} and {self.gamma_max}: the bounds must be at least"
                " 1, finite and in that order"
            )
        if not 0 <= self.tau < math.inf:
            raise ValueError(f"τ is {self.tau}, it must be 0 or more and finite")
        if self.alpha < 1:
            raise ValueError(f"α is {self.alpha}, it must be 1 or more")
        if not 1 <= self.initial_dp <= self.max_dp:
            raise ValueError(f"the initial d_p is {self.initial_dp}, not in 1 … {self.max_dp}")


@dataclass(frozen=True, slots=True)
class ReactState:
    """``d_p``, the degree of parallelism of the next round, and ``adaptive_max``, A."""

    d_p: int
    adaptive_max: int

    def __post_init__(self) -> None:
        if self.d_p < 1:
            raise ValueError(f"d_p is {self.d_p}, at least 1 is measured at a time")
        if self.adaptive_max < 1:
            raise ValueError(f"the adaptive maximum A is {self.adaptive_max}, it must be 1 or more")


@dataclass(frozen=True, slots=True)
class RoundObservation:
    """What REACT is told of a round.

    ``degree`` is how many candidates really were in flight on each device; a batch's last round has
    fewer than d_p (``degree_to_run``). ``delta_mean`` is Eq. 4 as a share, NaN if nothing was
    re-measured. ``failures_due_to_parallelism`` is N_err,dp and ``successes`` N_succ
    (``failures.count_failures``). With several devices the published code takes the worst one's
    δ_mean and failures; the paper does not tell them apart.
    """

    degree: int
    delta_mean: float
    failures_due_to_parallelism: int
    successes: int

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise ValueError(f"the round's degree of parallelism is {self.degree}, not 1 or more")
        if self.delta_mean < 0:
            raise ValueError(f"δ_mean is {self.delta_mean}, a mean of magnitudes is not negative")
        if self.failures_due_to_parallelism < 0 or self.successes < 0:
            raise ValueError(
                f"{self.failures_due_to_parallelism} failures and {self.successes} successes: a"
                " count is not negative"
            )


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of REACT, as the dashboard draws it. ``gamma`` is the γ of Eq. 7 that was added
    before flooring, 0 where nothing was."""

    before: ReactState
    observed: RoundObservation
    after: ReactState
    branch: Branch
    cause: Cause
    gamma: float = 0.0

    @property
    def words(self) -> str:
        """The step in a line, such as ``multiplicative decrease (deviation): d_p 64 to 51, A 128
        to 57``."""
        return (
            f"{_spoken(self.branch)} ({_spoken(self.cause)}): d_p {self.before.d_p} to"
            f" {self.after.d_p}, A {self.before.adaptive_max} to {self.after.adaptive_max}"
        )


def initial_state(policy: ReactPolicy) -> ReactState:
    """Before the first round: A = α."""
    return ReactState(policy.initial_dp, policy.alpha)


def degree_to_run(state: ReactState, candidates_left: int, devices: int = 1) -> int:
    """How many candidates the next round has in flight on each device: d_p, or as many as the
    batch still has for it. Raises ValueError if there are no candidates or devices."""
    if candidates_left < 1 or devices < 1:
        raise ValueError(f"{candidates_left} candidates on {devices} devices make no round")
    return min(state.d_p, math.ceil(candidates_left / devices))


def react(
    state: ReactState, observed: RoundObservation, policy: ReactPolicy | None = None
) -> Transition:
    """The state after a round, Eqs. 6 and 7.

    ``paper``: a bad round lowers d_p from the degree that was run. A good one raises it, unless it
    ran fewer than d_p, which says nothing of d_p, or δ is unknown (NaN) though several ran at once:
    then everything is held. At degree 1 there is nothing to interfere, so that δ need not be known.
    A tuner always ends: a round uses up candidates whatever REACT does.

    ``published`` departs from it thus:

    - d_p is raised by 1 before either branch. ⌊(d_p + 1) · 0.8⌋ is d_p up to 4, so that it never
      falls below 4 by bad rounds alone, however large the program is.
    - What a batch's last round ran becomes d_p, and is raised from there, so that even good rounds
      lower d_p. An unknown δ counts as 0, and a round at degree 1 is never bad.
    - Failures are compared with ⌊degree · τ⌋: one of fewer than 20 is too many. As counts are
      whole this is N_err,dp / degree > τ, so that it differs from the paper's form only where
      some of the candidates cannot be measured at all.
    - Nothing there keeps d_p at max_dp but a batch's end; here max_dp does.

    Raises ValueError if d_p exceeds max_dp, or the round's degree d_p.
    """
    policy = policy or ReactPolicy()
    if state.d_p > policy.max_dp:
        raise ValueError(f"d_p is {state.d_p}, max_dp only {policy.max_dp}")
    if observed.degree > state.d_p:
        raise ValueError(f"the round ran {observed.degree} at once, d_p was {state.d_p}")
    published = policy.form is ReactForm.PUBLISHED
    cause = _published_cause(observed, policy) if published else _cause(observed, policy)
    d_p = observed.degree + 1 if published else observed.degree
    if cause.bad:
        return _decrease(d_p, state, observed, cause, policy)
    if not published:
        if cause is Cause.ACCURATE and observed.degree < state.d_p:
            cause = Cause.PARTIAL_ROUND
        if cause is not Cause.ACCURATE:
            return Transition(state, observed, state, Branch.HOLD, cause)
    return _increase(d_p, state, observed, cause, policy)


def reach(state: ReactState, policy: ReactPolicy | None = None) -> tuple[int, int]:
    """The bounds of the degree after the next full round: d_p if it is bad, d_p if it is good."""
    bad = RoundObservation(state.d_p, math.inf, 0, state.d_p)
    good = RoundObservation(state.d_p, 0.0, 0, state.d_p)
    return react(state, bad, policy).after.d_p, react(state, good, policy).after.d_p


def _cause(observed: RoundObservation, policy: ReactPolicy) -> Cause:
    measurable = observed.failures_due_to_parallelism + observed.successes
    failing = observed.failures_due_to_parallelism > policy.tau * measurable + _ROUNDING
    if (cause := _bad_cause(observed.delta_mean > policy.tau, failing)) is not None:
        return cause
    if math.isnan(observed.delta_mean) and observed.degree > 1:
        return Cause.UNKNOWN_DEVIATION
    return Cause.ACCURATE


def _published_cause(observed: RoundObservation, policy: ReactPolicy) -> Cause:
    if observed.degree == 1:
        return Cause.ACCURATE
    allowed = math.floor(observed.degree * policy.tau + _ROUNDING)
    failing = observed.failures_due_to_parallelism > allowed
    return _bad_cause(observed.delta_mean > policy.tau, failing) or Cause.ACCURATE


def _bad_cause(deviating: bool, failing: bool) -> Cause | None:
    if deviating and failing:
        return Cause.DEVIATION_AND_FAILURES
    if deviating:
        return Cause.DEVIATION
    return Cause.FAILURES if failing else None


def _decrease(
    d_p: int, state: ReactState, observed: RoundObservation, cause: Cause, policy: ReactPolicy
) -> Transition:
    """Eq. 6. A round that is bad below A has A lowered under what it ran (BIC's fast convergence);
    one that is bad beyond A has found a new A."""
    lowered = d_p * (2 - policy.beta) / 2 if d_p < state.adaptive_max else d_p
    after = ReactState(
        _within(d_p * (1 - policy.beta), policy), max(1, math.floor(lowered + _ROUNDING))
    )
    return Transition(state, observed, after, Branch.MULTIPLICATIVE_DECREASE, cause)


def _increase(
    d_p: int, state: ReactState, observed: RoundObservation, cause: Cause, policy: ReactPolicy
) -> Transition:
    """Eq. 7."""
    maximum = state.adaptive_max
    if d_p < maximum:
        branch, gamma = Branch.BINARY_INCREASE, (maximum - d_p) / 2
    else:
        branch, gamma = Branch.MAX_PROBING, float(d_p - maximum)
    gamma = max(min(gamma, policy.gamma_max), policy.gamma_min)
    after = ReactState(_within(d_p + gamma, policy), maximum)
    return Transition(state, observed, after, branch, cause, gamma)


def _within(d_p: float, policy: ReactPolicy) -> int:
    return min(policy.max_dp, max(1, math.floor(d_p + _ROUNDING)))


def _spoken(name: StrEnum) -> str:
    return name.value.replace("_", " ")
