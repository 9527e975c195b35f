"""What holds for every measurer of candidates in other processes, and what DOPpler adds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.subjects import Crowded, Ending, Spinning

from workers.measure.effort import Effort
from workers.measure.measurement import Failure
from workers.measure.parallel.calibrator import REMEASURED_SHARE, CalibratorForm
from workers.measure.parallel.doppler import SMALLEST, DopplerMeasurer
from workers.measure.parallel.fixed import FixedMeasurer
from workers.measure.parallel.pool import WorkerPool
from workers.measure.parallel.ranking import measured_in_turns
from workers.measure.parallel.react import Branch, Cause, ReactPolicy
from workers.measure.parallel.rounds import ParallelRound, SubjectMeasurer, Taken
from workers.measure.parallel.subject import Subject

EFFORT = Effort(target_ms=5, limit_ms=20, min_repeats=3, max_repeats=5, warm_up_ms=5)
SMALL = ReactPolicy(max_dp=3)

MEASURERS: dict[str, Callable[[WorkerPool], SubjectMeasurer]] = {
    "serial": lambda pool: FixedMeasurer(pool, 1, EFFORT),
    "naive": lambda pool: FixedMeasurer(pool, 3, EFFORT),
    **{
        f"doppler, {form}": lambda pool, form=form: DopplerMeasurer(
            pool, EFFORT, SMALL, calibrator=form
        )
        for form in CalibratorForm
    },
}


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        yield


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with closing(WorkerPool(["cpu"])) as made:
        yield made


@pytest.fixture(params=MEASURERS)
def measurer(request: pytest.FixtureRequest, pool: WorkerPool) -> SubjectMeasurer:
    return MEASURERS[request.param](pool)


def test_latencies_are_in_the_order_of_the_candidates(measurer: SubjectMeasurer) -> None:
    took = (1.0, 4.0, 2.0, 8.0, 1.0, 3.0)
    rounds: list[ParallelRound] = []
    found = measurer.measure([Spinning(ms) for ms in took], rounds.append)
    for taken, ms in zip(found, took, strict=True):
        assert taken is not None
        assert taken.device_ms == pytest.approx(ms, rel=0.3)
        assert taken.wall_ms > 0.99 * taken.device_ms
        assert taken.failure is None
    assert [one.number for one in rounds] == list(range(1, len(rounds) + 1))
    assert [taken for one in rounds for taken in one.taken] == found
    for one in rounds:
        assert len(one.taken) <= max(one.degree_of_parallelism, SMALLEST)
        assert len(one.outcomes) == len(one.taken) + one.remeasured
        assert one.duration_s > 0


def test_a_failure_is_an_infinite_latency_with_its_kind(measurer: SubjectMeasurer) -> None:
    ends = ["", "wrong", "crash", "", "memory", "compile"]
    found = measurer.measure([Ending(1.0, how) for how in ends])
    kinds = {
        "wrong": Failure.WRONG_RESULT,
        "crash": Failure.CRASH,
        "memory": Failure.OUT_OF_MEMORY,
        "compile": Failure.COMPILE,
    }
    for taken, how in zip(found, ends, strict=True):
        assert taken is not None
        assert taken.failure is kinds.get(how)
        assert math.isinf(taken.latency_ms) == bool(how)
        assert bool(taken.reason) == bool(how)


def test_what_is_not_begun_in_time_is_none(measurer: SubjectMeasurer) -> None:
    assert measurer.measure([Spinning(1.0)] * 2, expired=lambda: True) == [None, None]


def test_nothing_to_measure_is_no_round(measurer: SubjectMeasurer) -> None:
    rounds: list[ParallelRound] = []
    assert measurer.measure([], rounds.append) == []
    assert rounds == []


def test_doppler_measures_more_at_once_while_that_is_accurate(pool: WorkerPool) -> None:
    """A thread's own clock does not count what others do."""
    measurer = DopplerMeasurer(
        pool, EFFORT, ReactPolicy(max_dp=3, tau=0.5), calibrator=CalibratorForm.PAPER
    )
    rounds: list[ParallelRound] = []
    measurer.measure([Spinning(2.0)] * 10, rounds.append)
    assert [one.degree_of_parallelism for one in rounds] == [1, 3, 3, 3]
    assert rounds[0].remeasured == 0, "it was alone"
    assert all(one.remeasured >= 1 for one in rounds[1:])
    assert all(one.delta_mean < 0.5 for one in rounds)
    steps = [one.react for one in rounds]
    assert all(step is not None and step.cause is Cause.ACCURATE for step in steps)
    assert measurer.state is not None
    assert measurer.state.d_p == 3


def test_what_only_parallelism_fails_is_measured_and_lowers_the_degree(
    pool: WorkerPool, tmp_path: Path
) -> None:
    crowded = [Crowded(1.0, str(tmp_path), most=2)] * (1 + SMALLEST + 2)
    measurer = DopplerMeasurer(pool, EFFORT, ReactPolicy(max_dp=3, tau=0.3))
    rounds: list[ParallelRound] = []
    found = measurer.measure(crowded, rounds.append)
    assert all(taken is not None and math.isfinite(taken.latency_ms) for taken in found)
    second = rounds[1]
    assert second.degree_of_parallelism == 3
    assert second.due_to_parallelism >= 1
    assert second.react is not None
    assert second.react.branch is Branch.MULTIPLICATIVE_DECREASE
    assert second.react.cause in (Cause.FAILURES, Cause.DEVIATION_AND_FAILURES)
    assert rounds[2].degree_of_parallelism == 2


def test_it_goes_on_from_the_state_of_another(pool: WorkerPool) -> None:
    first = DopplerMeasurer(pool, EFFORT, SMALL)
    first.measure([Spinning(1.0)])
    second = DopplerMeasurer(pool, EFFORT, SMALL, state=first.state, done=first.done)
    rounds: list[ParallelRound] = []
    second.measure([Spinning(1.0)] * 3, rounds.append)
    assert (rounds[0].number, rounds[0].degree_of_parallelism) == (2, 3)


def test_what_several_rounds_told_decides_how_much_is_measured_again(pool: WorkerPool) -> None:
    """A fifth of what was measured beside others, over all rounds, and of the first round one; more
    only if more are outliers."""
    measurer = DopplerMeasurer(pool, EFFORT, ReactPolicy(max_dp=2, tau=9.0))
    rounds: list[ParallelRound] = []
    found = measurer.measure([Spinning(1.0)] * 21, rounds.append)
    assert [one.degree_of_parallelism for one in rounds] == [1, 2, 2, 2]
    assert [len(one.taken) for one in rounds] == [1, SMALLEST, SMALLEST, 4]
    owed = 0.0
    for one in rounds[1:]:
        owed += REMEASURED_SHARE * len(one.taken)
        assert one.remeasured == max(math.floor(owed + 1e-9), one.outliers)
        owed = min(1.0, max(0.0, owed - one.remeasured))
    for taken in found:
        assert taken is not None
        if taken.alone_ms is not None:
            assert taken.latency_ms == taken.alone_ms
    pairs = [one for one in found if one is not None and one.alone_ms is not None]
    assert [(pair.beside_ms, pair.alone_ms) for pair in measurer.evidence.pairs] == [
        (one.device_ms, one.alone_ms) for one in pairs
    ]


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_best_are_measured_in_turns_until_they_fall_behind(
    latencies: list[float], chance: Random
) -> None:
    """With noise that is small beside what they differ by, the best stay to the end, and each has
    the median of its passes."""
    passes: list[list[Spinning]] = []

    def isolated(subjects: Sequence[Subject]) -> list[Taken]:
        chosen = [subject for subject in subjects if isinstance(subject, Spinning)]
        passes.append(chosen)
        noisy = [one.ms * chance.uniform(0.99, 1.01) for one in chosen]
        return [Taken(ms, ms, ms, ms, runs_ms=(ms,)) for ms in noisy]

    subjects = [Spinning(ms) for ms in latencies]
    found = measured_in_turns(isolated, subjects, passes=3, contending=0.1)
    assert passes[0] == subjects
    assert len(passes) == 3
    best = min(latencies)
    for ms, taken in zip(latencies, found, strict=True):
        assert taken.latency_ms == pytest.approx(ms, rel=0.011)
        if ms > 1.13 * best:
            assert len(taken.runs_ms) == 1
    for done, following in pairwise(passes):
        assert 1 <= len(following) <= -(-len(done) // 2)
    longest = [ms for ms, taken in zip(latencies, found, strict=True) if len(taken.runs_ms) == 3]
    assert min(longest) < 1.021 * best


def test_who_fails_once_is_not_ranked_again() -> None:
    told = iter([[Taken(2.0, runs_ms=(2.0,)), failing()], [failing()]])
    found = measured_in_turns(lambda subjects: next(told), [Spinning(2.0), Spinning(1.0)], 2)
    assert [one.failure for one in found] == [Failure.CRASH, Failure.CRASH]
    assert measured_in_turns(lambda subjects: [], []) == []


def failing() -> Taken:
    return Taken(math.inf, failure=Failure.CRASH)
