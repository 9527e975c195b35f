"""Which failures parallelism is to blame for."""

from __future__ import annotations

import pytest

from workers.measure.measurement import Failure
from workers.measure.parallel.failures import FailureCount, count_failures


def test_what_neighbours_can_cause_is_repeated() -> None:
    assert {kind for kind in Failure if kind.repeated} == {
        Failure.TIMEOUT,
        Failure.OUT_OF_MEMORY,
        Failure.LAUNCH,
        Failure.CRASH,
    }


def test_failures_that_do_not_recur_are_due_to_parallelism() -> None:
    outcomes = [
        None,
        Failure.TIMEOUT,  # recovers
        Failure.OUT_OF_MEMORY,  # recurs as it was
        Failure.LAUNCH,  # recurs as something else
        Failure.WRONG_RESULT,
        Failure.COMPILE,
        Failure.CRASH,  # not repeated
        None,
        Failure.CRASH,  # recovers
    ]
    repetitions = {1: None, 2: Failure.OUT_OF_MEMORY, 3: Failure.WRONG_RESULT, 8: None}
    found = count_failures(outcomes, repetitions)
    assert found == FailureCount(successes=2, due_to_parallelism=2, lasting=4, undecided=1)


def test_a_round_without_failures_and_one_without_candidates() -> None:
    assert count_failures([None, None], {}) == FailureCount(2, 0, 0, 0)
    assert count_failures([], {}) == FailureCount(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (3, "candidate 3 was repeated, the round had 3"),
        (-1, "candidate -1 was repeated"),
        (0, "candidate 0 was repeated though it succeeded"),
        (1, "candidate 1 was repeated though it failed by wrong_result"),
    ],
)
def test_a_repetition_belongs_to_a_failure(place: int, message: str) -> None:
    outcomes = [None, Failure.WRONG_RESULT, Failure.CRASH]
    with pytest.raises(ValueError, match=message):
        count_failures(outcomes, {place: None})
