"""REACT and the Calibrator together on a synthetic device: the shape of DOPpler's Figure 12, where
larger programs get fewer candidates at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from workers.measure.measurement import Failure
from workers.measure.parallel.calibrator import (
    mean_deviation,
    scale_latencies,
    select_remeasurements,
)
from workers.measure.parallel.failures import count_failures
from workers.measure.parallel.react import (
    Cause,
    ReactForm,
    ReactPolicy,
    RoundObservation,
    Transition,
    degree_to_run,
    initial_state,
    react,
)

BATCH, ROUNDS, REPEATS = 64, 10, 60


@dataclass(frozen=True)
class Program:
    """A tensor program of which the device bears ``capacity`` candidates at once before they slow
    each other down, and three times as many before memory runs out. Times in ms."""

    name: str
    capacity: int
    latency: float

    def alone(self, candidate: int) -> float:
        return self.latency * (1 + 4 * chance(candidate, 1))

    def beside(self, candidate: int, degree: int) -> float | Failure:
        """A latency measured with ``degree`` at once: half a percent of noise, and interference
        that grows beyond the capacity and meets each candidate differently."""
        if degree > 3 * self.capacity and chance(candidate, 2) < 0.5:
            return Failure.OUT_OF_MEMORY
        crowded = max(0.0, degree / self.capacity - 1)
        slower = 0.01 * chance(candidate, 3) + crowded * (0.5 + chance(candidate, 4))
        return self.alone(candidate) * (1 + slower)

    def duration(self, candidate: int, latency: float) -> float:
        """Of the measurement: the runs, and what starting them takes."""
        return REPEATS * latency * (1.05 + 0.02 * chance(candidate, 5))


def chance(candidate: int, what: int) -> float:
    """Uniform in 0 … 1 and always the same for a candidate."""
    return float(np.random.default_rng((candidate, what)).random())


SMALL, MEDIUM, LARGE = (
    Program("small", 64, 0.02),
    Program("medium", 20, 0.5),
    Program("large", 2, 9),
)


@dataclass(frozen=True)
class Round:
    step: Transition
    raw_error: float
    scaled_error: float


def tune(program: Program, policy: ReactPolicy, count: int = ROUNDS) -> list[Round]:
    """The rounds of a tuning run, in batches as tuners give them."""
    state, rounds, candidate, left = initial_state(policy), [], 0, 0
    while len(rounds) < count:
        left = left or BATCH
        degree = degree_to_run(state, left)
        measured = {c: program.beside(c, degree) for c in range(candidate, candidate + degree)}
        candidate, left = candidate + degree, left - degree

        outcomes = [m if isinstance(m, Failure) else None for m in measured.values()]
        failures = count_failures(
            outcomes, {place: None for place, kind in enumerate(outcomes) if kind is not None}
        )
        good = {c: m for c, m in measured.items() if not isinstance(m, Failure)}
        latencies, truth = list(good.values()), [program.alone(c) for c in good]
        remeasured: dict[int, float] = {}
        if degree > 1:
            durations = [program.duration(c, m) for c, m in good.items()]
            selected = select_remeasurements(latencies, durations, seed=len(rounds))
            remeasured = {place: truth[place] for place in selected.candidates}
        delta = mean_deviation(latencies, remeasured)
        scaled = scale_latencies(latencies, remeasured, delta)
        observed = RoundObservation(degree, delta, failures.due_to_parallelism, failures.successes)
        rounds.append(
            Round(
                step := react(state, observed, policy),
                error(latencies, truth),
                error(scaled, truth),
            )
        )
        state = step.after
    return rounds


def error(latencies: list[float], truth: list[float]) -> float:
    """The mean relative error."""
    return float(np.mean(np.abs(np.asarray(latencies) / np.asarray(truth) - 1)))


def degrees(rounds: list[Round]) -> list[int]:
    return [round_.step.before.d_p for round_ in rounds]


def test_a_small_program_gets_the_whole_batch_within_ten_rounds() -> None:
    rounds = tune(SMALL, ReactPolicy())
    assert degrees(rounds)[0] == 1
    assert rounds[-1].step.after.d_p >= 48
    assert not any(round_.step.cause.bad for round_ in rounds)
    assert degrees(tune(SMALL, ReactPolicy(), 20))[-1] == 64


def test_a_medium_program_gets_what_the_device_bears_within_ten_rounds() -> None:
    found = degrees(tune(MEDIUM, ReactPolicy(), 60))
    within = range(16, 24)  # ⌊0.8 · 21⌋ … 21 + 2, as τ may let 21 pass for what 20 is
    assert any(degree in within for degree in found[:ROUNDS])
    assert all(degree in within for degree in found[ROUNDS:])


def test_a_large_program_gets_one_to_three_within_ten_rounds() -> None:
    found = degrees(tune(LARGE, ReactPolicy(), 60))
    assert max(found) == 13
    assert found[ROUNDS - 1] <= 4
    assert set(found[ROUNDS:]) <= {2, 3, 4}
    assert np.mean(found[ROUNDS:]) <= 3


def test_larger_programs_get_fewer_at_once() -> None:
    small, medium, large = (
        np.mean(degrees(tune(program, ReactPolicy(), 30))[ROUNDS:])
        for program in (SMALL, MEDIUM, LARGE)
    )
    assert small > 2 * medium > 4 * large


def test_the_published_form_starts_again_from_what_a_batch_leaves() -> None:
    """Although no round of a small program is bad, it never gets the whole batch."""
    rounds = tune(SMALL, ReactPolicy(ReactForm.PUBLISHED), 60)
    assert not any(round_.step.cause.bad for round_ in rounds)
    assert max(degrees(rounds)) < 64
    assert min(degrees(rounds)[ROUNDS:]) < 40


def test_the_published_form_leaves_a_large_program_at_four() -> None:
    """But for a batch's end, ⌊0.8 (d_p + 1)⌋ falls no further (see ``react``)."""
    found = tune(LARGE, ReactPolicy(ReactForm.PUBLISHED), 60)
    full = [round_.step for round_ in found[ROUNDS:] if round_.step.cause.bad]
    assert full
    assert min(step.after.d_p for step in full if step.observed.degree >= 4) >= 4
    assert np.mean(degrees(found[ROUNDS:])) > np.mean(
        degrees(tune(LARGE, ReactPolicy(), 60))[ROUNDS:]
    )


@pytest.mark.parametrize("program", [MEDIUM, LARGE])
def test_scaling_brings_crowded_rounds_closer_to_the_truth(program: Program) -> None:
    crowded = [r for r in tune(program, ReactPolicy(), 40) if r.step.cause.bad]
    assert len(crowded) > 3
    assert sum(r.scaled_error for r in crowded) < 0.6 * sum(r.raw_error for r in crowded)


def test_running_out_of_memory_is_seen_as_a_failure_of_parallelism() -> None:
    first_bad = next(r.step for r in tune(LARGE, ReactPolicy()) if r.step.cause.bad)
    assert first_bad.observed.degree == 13
    assert first_bad.cause is Cause.DEVIATION_AND_FAILURES
    assert 0 < first_bad.observed.failures_due_to_parallelism < 13
    assert not math.isnan(first_bad.observed.delta_mean)
