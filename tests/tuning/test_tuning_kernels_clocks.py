"""What keeps others off while a candidate is measured in isolation, and how CUPTI's records become
runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.subjects import Spinning

from workers.measure.effort import Effort
from workers.measure.parallel.calibrator import CalibratorForm
from workers.measure.parallel.doppler import SMALLEST, DopplerMeasurer
from workers.measure.parallel.fixed import FixedMeasurer
from workers.measure.parallel.pool import WorkerPool
from workers.measure.parallel.react import ReactPolicy
from workers.measure.parallel.rounds import ParallelRound
from workers.tuning.kernels.cuda import CuptiClock

EFFORT = Effort(target_ms=2, limit_ms=5, min_repeats=2, max_repeats=2, warm_up_ms=1)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        with closing(WorkerPool(["cpu"])) as made:
            yield made


@dataclass
class Quiet:
    """How often others were kept away."""

    entered: int = 0
    inside: bool = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        assert not self.inside
        self.entered, self.inside = self.entered + 1, True
        yield
        self.inside = False


def test_doppler_is_alone_at_degree_one_and_when_it_measures_again(pool: WorkerPool) -> None:
    quiet, rounds = Quiet(), list[ParallelRound]()
    measurer = DopplerMeasurer(pool, EFFORT, ReactPolicy(max_dp=2), alone=quiet)
    measurer.measure([Spinning(0.5)] * 5, rounds.append)
    again = sum(bool(one.remeasured) for one in rounds)
    single = sum(one.degree_of_parallelism == 1 for one in rounds)
    assert again >= 1
    assert quiet.entered == again + single
    before = quiet.entered
    assert all(taken.alone_ms for taken in measurer.isolated([Spinning(0.5)]))
    assert quiet.entered == before + 1
    assert measurer.isolated([]) == []


@pytest.mark.parametrize(("degree", "entered"), [(1, 1), (2, 0)])
def test_a_fixed_degree_is_alone_if_it_is_one(pool: WorkerPool, degree: int, entered: int) -> None:
    quiet = Quiet()
    measurer = FixedMeasurer(pool, degree, EFFORT, alone=quiet)
    assert measurer.round_size(5) == 5
    measurer.measure([Spinning(0.5)] * 2)
    assert quiet.entered == entered
    assert all(taken.alone_ms for taken in measurer.isolated([Spinning(0.5)]))
    assert quiet.entered == entered + 1


@pytest.mark.parametrize(
    ("form", "d_p", "sizes"),
    [
        (CalibratorForm.PAPER, 3, [1, 3, 3, 3]),
        (CalibratorForm.PUBLISHED, 3, [1, 3, 3, 3]),
        (CalibratorForm.POOLED, 3, [1, 3, SMALLEST, SMALLEST]),
        (CalibratorForm.POOLED, 1, [1, 1, 1, 1]),
        (CalibratorForm.POOLED, 12, [1, 3, 9, 12]),
    ],
)
def test_how_many_candidates_doppler_takes_in_a_round(
    pool: WorkerPool, form: CalibratorForm, d_p: int, sizes: list[int]
) -> None:
    policy = ReactPolicy(max_dp=16, initial_dp=d_p)
    measurer = DopplerMeasurer(pool, EFFORT, policy, calibrator=form)
    assert [measurer.round_size(left) for left in (1, 3, 9, 40)] == sizes


@dataclass
class Activity:
    kind: str
    start: int
    end: int


class RecordedCupti:
    """What ``cupti-python`` offers, with the records of runs that were made up."""

    class ActivityKind:
        CONCURRENT_KERNEL = "kernel"

    def __init__(self, activities: list[Activity]) -> None:
        self._activities = activities
        self.enabled = 0

    def activity_register_callbacks(
        self, requested: Callable[[], tuple[int, int]], completed: Callable[[list[Activity]], None]
    ) -> None:
        assert requested()[0] > 0
        self._completed = completed

    def activity_enable(self, kind: str) -> None:
        self.enabled += 1

    def activity_disable(self, kind: str) -> None:
        self.enabled -= 1

    def activity_flush_all(self, flag: int) -> None:
        self._completed(self._activities)


def test_the_kernels_of_a_run_are_added_up() -> None:
    """Records arrive in any order, and those of copies among them."""
    runs = [
        Activity("kernel", 9_000_000, 9_250_000),
        Activity("kernel", 1_000_000, 1_500_000),
        Activity("copy", 1_600_000, 5_000_000),
        Activity("kernel", 2_000_000, 2_250_000),
        Activity("kernel", 8_000_000, 8_500_000),
    ]
    cupti, made = RecordedCupti(runs), list[int]()
    found = CuptiClock(cupti).milliseconds(lambda: made.append(1), 2)
    assert found == [pytest.approx(0.75), pytest.approx(0.75)]
    assert len(made) == 2
    assert cupti.enabled == 0


def test_records_that_are_no_equal_runs_are_no_latency() -> None:
    kernel = Activity("kernel", 1, 2)
    for records in ([], [kernel] * 3):
        cupti = RecordedCupti(records)
        with pytest.raises(RuntimeError, match="equal runs"):
            CuptiClock(cupti).milliseconds(lambda: None, 2)
        assert cupti.enabled == 0
