"""The measuring processes: however a candidate ends, the next one is measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.subjects import Crowded, Ending, Spinning

from workers.measure.effort import Effort
from workers.measure.measurement import Failure
from workers.measure.parallel.pool import PoolError, WorkerPool
from workers.measure.parallel.rounds import device_latency
from workers.measure.parallel.subject import Outcome, Subject

EFFORT = Effort(target_ms=5, limit_ms=20, min_repeats=3, max_repeats=5, warm_up_ms=5)
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS))
        yield


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with closing(WorkerPool(["cpu"])) as made:
        yield made


def measured(pool: WorkerPool, *subjects: Subject, degree: int = 1) -> list[Outcome]:
    outcomes = pool.measure(subjects, degree, 2.0, EFFORT)
    assert [outcome and outcome.position for outcome in outcomes] == list(range(len(subjects)))
    return [outcome for outcome in outcomes if outcome is not None]


def test_one_process_measures_all_that_end_well(pool: WorkerPool) -> None:
    outcomes = measured(pool, *(Spinning(ms) for ms in (1.0, 2.0, 4.0)))
    for outcome, ms in zip(outcomes, (1.0, 2.0, 4.0), strict=True):
        assert outcome.reading is not None
        assert device_latency(outcome.reading) == pytest.approx(ms, rel=0.2)
        runs = sum(run.wall_ms for run in outcome.reading.runs)
        assert outcome.reading.duration_s * 1e3 > runs
        assert outcome.ended_s - outcome.started_s > outcome.reading.duration_s
    assert {outcome.worker for outcome in outcomes} == {0}
    assert pool.started == 1


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ("memory", Failure.OUT_OF_MEMORY, "MemoryError"),
        ("compile", Failure.COMPILE, "no such intrinsic"),
        ("launch", Failure.LAUNCH, "cpu has no such kernel"),
        ("wrong", Failure.WRONG_RESULT, "output 0 differs by 0.5"),
        ("crash", Failure.CRASH, "ended by SIGSEGV"),
        ("exit", Failure.CRASH, "exit code 3"),
        ("hang", Failure.TIMEOUT, "more than 2 s"),
    ],
)
def test_each_failure_is_told_apart_and_the_next_candidate_measured(
    pool: WorkerPool, how: str, kind: Failure, words: str
) -> None:
    failed, after = measured(pool, Ending(1.0, how), Spinning(1.0))
    assert (failed.reading, failed.failure) == (None, kind)
    assert words in failed.reason
    assert after.reading is not None
    replaced = kind in (Failure.CRASH, Failure.TIMEOUT)
    assert after.worker == (1 if replaced else 0)


def test_the_late_result_of_one_that_timed_out_reaches_nobody(pool: WorkerPool) -> None:
    """It would be there by the time that the second one's is read."""
    slow = Spinning(700.0)  # three runs and more take over two seconds
    outcomes = measured(pool, slow, *[Spinning(1.0)] * 3)
    assert outcomes[0].failure is Failure.TIMEOUT
    for outcome in outcomes[1:]:
        assert outcome.reading is not None
        assert device_latency(outcome.reading) < 50


def test_as_many_are_in_flight_as_the_degree_says(pool: WorkerPool, tmp_path: Path) -> None:
    crowded = [Crowded(1.0, str(tmp_path), most=3)] * 9
    assert all(outcome.reading for outcome in measured(pool, *crowded, degree=3))
    assert pool.started == 3
    failed = measured(pool, *crowded, degree=5)
    assert Failure.OUT_OF_MEMORY in {outcome.failure for outcome in failed}


def test_devices_share_the_candidates_unless_each_has_its_place() -> None:
    with closing(WorkerPool(["cpu", "other"])) as pool:
        outcomes = measured(pool, *[Spinning(1.0)] * 4)
        assert {outcome.device for outcome in outcomes} == {"cpu", "other"}
        placed = pool.measure([Spinning(1.0)] * 3, 1, 2.0, EFFORT, places=["other"] * 3)
        assert [outcome and outcome.device for outcome in placed] == ["other"] * 3


def test_what_was_not_begun_is_none_and_nothing_is_lost(pool: WorkerPool) -> None:
    told: list[Outcome] = []
    outcomes = pool.measure(
        [Spinning(1.0)] * 4, 1, 2.0, EFFORT, told=told.append, expired=lambda: len(told) == 2
    )
    assert outcomes == [*told, None, None]
    assert len(told) == 2


def test_an_interrupted_pool_kills_what_is_in_flight_and_goes_on(pool: WorkerPool) -> None:
    def interrupt(outcome: Outcome) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.measure([Spinning(1.0), Ending(1.0, "hang")], 2, 30.0, EFFORT, told=interrupt)
    start = time.monotonic()
    (outcome,) = measured(pool, Spinning(1.0))
    assert outcome.reading is not None
    assert time.monotonic() - start < 20


def test_no_process_outlives_who_started_it() -> None:
    """Killed, in the middle of a candidate that hangs."""
    program = (
        "from support.subjects import Ending\n"
        "from workers.measure.parallel.pool import WorkerPool\n"
        "from workers.measure.effort import Effort\n"
        "pool = WorkerPool(['cpu'])\n"
        "def found(outcome): print(pool._idle['cpu'][0].pid, flush=True)\n"
        "pool.measure([Ending(1.0, 'launch')], 1, 9.0, Effort(), told=found)\n"
        "pool.measure([Ending(1.0, 'hang')], 1, 60.0, Effort())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        time.sleep(0.3)
        os.kill(worker, 0)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{worker}").exists() and _state(worker) != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def test_a_process_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.measure.parallel.pool._MODULE", "no.such.module")
    with (
        pytest.raises(PoolError, match="ended before it was ready"),
        closing(WorkerPool(["cpu"])) as pool,
    ):
        pool.measure([Spinning(1.0)], 1, 2.0, EFFORT)


def test_bad_arguments_are_refused(pool: WorkerPool) -> None:
    with pytest.raises(ValueError, match="at least one device"):
        WorkerPool([])
    with pytest.raises(ValueError, match="must be at least 1"):
        pool.measure([], 0, 2.0, EFFORT)
