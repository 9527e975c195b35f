"""A tuning session on real kernels: what it tells, and how it goes on when it was stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from support.kernels import Misbuilt, Tampered, small_matmul

from workers.measure.effort import Effort
from workers.measure.measurement import Failure
from workers.measure.parallel.doppler import DopplerMeasurer
from workers.measure.parallel.evidence import Evidence
from workers.measure.parallel.pool import WorkerPool
from workers.tuning.kernels.pool import BuildError, BuildPool
from workers.tuning.kernels.source import Source
from workers.tuning.recording import learned
from workers.tuning.records import (
    KernelRecord,
    RoundRecord,
    SpanKind,
    TrialRecord,
    dump_lines,
    load_lines,
)
from workers.tuning.session import (
    MeasurerKind,
    MeasurerOptions,
    TuningError,
    TuningOptions,
    TuningSession,
    TuningTask,
    make_measurer,
)
from workers.tuning.targets import target
from workers.tuning.tuner import Candidate
from workers.tuning.tuners.catalog import UnknownTunerError

pytest.importorskip("tvm")

TESTS = Path(__file__).parents[1]
EFFORT = Effort(target_ms=1, limit_ms=10, min_repeats=3, max_repeats=3, warm_up_ms=1)
SMALL, OTHER = small_matmul(8), small_matmul(12)
OPTIONS = TuningOptions(
    tasks=(TuningTask(SMALL),),
    target=target({"kind": "llvm", "num-cores": 1}),
    trials=6,
    tuner="grid",
    batch_size=3,
)


@dataclass
class Heard:
    """Keeps what it is told."""

    rounds: list[RoundRecord] = field(default_factory=list)
    kernels: list[KernelRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def round(self, record: RoundRecord) -> None:
        self.rounds.append(record)

    def kernel(self, record: KernelRecord) -> None:
        self.kernels.append(record)

    def note(self, text: str) -> None:
        self.notes.append(text)

    @property
    def trials(self) -> list[TrialRecord]:
        return [trial for record in self.rounds for trial in record.trials]

    @property
    def candidates(self) -> list[str]:
        return [trial.candidate for trial in self.trials]


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS))
        yield


@pytest.fixture(scope="module")
def builds(importable: None) -> Iterator[BuildPool]:
    with closing(BuildPool(1, timeout_s=5.0)) as made:
        yield made


@pytest.fixture(scope="module")
def pool(importable: None) -> Iterator[WorkerPool]:
    with closing(WorkerPool(["cpu"], "workers.tuning.kernels.runtime:load_cpu")) as made:
        yield made


Make = Callable[..., TuningSession]


@pytest.fixture
def make(builds: BuildPool, pool: WorkerPool, tmp_path: Path) -> Make:
    def made(
        options: TuningOptions,
        kind: MeasurerKind = MeasurerKind.DOPPLER,
        session: type[TuningSession] = TuningSession,
    ) -> TuningSession:
        measurer = make_measurer(MeasurerOptions(kind, effort=EFFORT), pool, builds, 3, options)
        return session(options, measurer, pool, builds, tmp_path)

    return made


def run(
    session: TuningSession, earlier: Sequence[RoundRecord] = (), rounds: int | None = None
) -> Heard:
    """To the end, or until so many rounds were told."""
    heard = Heard()
    ended = session.run(heard, earlier, lambda: rounds is not None and len(heard.rounds) >= rounds)
    assert ended == (rounds is None)
    return heard


@pytest.fixture(scope="module")
def grid(builds: BuildPool, pool: WorkerPool, tmp_path_factory: pytest.TempPathFactory) -> Heard:
    """A session that nothing interrupts."""
    folder = tmp_path_factory.mktemp("grid")
    measurer = make_measurer(MeasurerOptions(effort=EFFORT), pool, builds, 3, OPTIONS)
    return run(TuningSession(OPTIONS, measurer, pool, builds, folder))


def test_every_trial_is_recorded_once(grid: Heard) -> None:
    assert [trial.trial for trial in grid.trials] == list(range(1, 7))
    assert len(set(grid.candidates)) == 6
    for trial in grid.trials:
        assert trial.failure is None, trial.reason
        assert trial.program == SMALL.key
        assert Candidate(trial.trace).key == trial.candidate
        assert trial.latency_ms is not None
        assert trial.device_ms is not None
        assert trial.wall_ms is not None
        assert trial.latency_ms > 0
        if trial.alone_ms is not None:
            assert trial.latency_ms == trial.alone_ms
        assert trial.build_s > 0


def test_rounds_follow_react_and_end_with_their_batch(grid: Heard) -> None:
    assert [record.number for record in grid.rounds] == list(range(1, len(grid.rounds) + 1))
    assert {record.batch for record in grid.rounds} == {1, 2}
    assert grid.rounds[0].degree_of_parallelism == 1
    for record, following in pairwise(grid.rounds):
        assert record.react is not None
        assert following.react is not None
        assert following.react.d_p_before == record.react.d_p
        assert following.degree_of_parallelism <= record.react.d_p
        assert record.react.lower <= record.react.upper
        assert 0 <= record.started_s < record.ended_s <= following.started_s
    for number in (1, 2):
        batch = [record for record in grid.rounds if record.batch == number]
        assert sum(len(record.trials) for record in batch) == 3
        assert {record.asked for record in batch} == {3}


def test_spans_tell_what_each_process_did(grid: Heard) -> None:
    for record in grid.rounds:
        trials = {trial.trial for trial in record.trials}
        by_kind = {kind: [span for span in record.spans if span.kind is kind] for kind in SpanKind}
        assert {span.trial for span in by_kind[SpanKind.BUILD]} == trials
        assert len(by_kind[SpanKind.PARALLEL]) + len(by_kind[SpanKind.ALONE]) == (
            len(trials) + record.remeasured
        )
        for span in record.spans:
            assert span.trial in trials
            assert span.started_s < span.ended_s <= record.ended_s
            assert span.device == ("" if span.kind is SpanKind.BUILD else "cpu")
        if record.degree_of_parallelism == 1:
            assert by_kind[SpanKind.PARALLEL] == []
        assert record.cpu_share is None or 0 <= record.cpu_share <= 1


def test_building_goes_on_while_others_are_measured(grid: Heard) -> None:
    """By one process: the second candidate of a batch is begun before the first was measured."""
    first, second = grid.rounds[:2]
    builds = [span for span in second.spans if span.kind is SpanKind.BUILD]
    assert first.batch == second.batch
    assert builds[0].started_s < first.ended_s


def test_the_best_kernel_is_measured_alone_and_has_its_source(grid: Heard) -> None:
    (kernel,) = grid.kernels
    told = [trial.latency_ms for trial in grid.trials if trial.latency_ms is not None]
    assert kernel.ranked[0].told_ms == min(told)
    (ranked,) = [one for one in kernel.ranked if one.candidate == kernel.candidate]
    assert kernel.candidate == grid.trials[kernel.trial - 1].candidate
    assert kernel.latency_ms == ranked.device_ms
    assert kernel.latency_ms == min(one.device_ms for one in kernel.ranked if one.device_ms)
    assert "@T.prim_func" in kernel.tir
    assert "define" in kernel.source
    assert Path(kernel.library).read_bytes()[:4] == b"\x7fELF"
    assert KernelRecord.from_json(json.loads(json.dumps(kernel.to_json()))) == kernel


def test_records_hold_what_latencies_were_calibrated_by(
    builds: BuildPool, pool: WorkerPool, tmp_path: Path
) -> None:
    """So that a resumed session goes on with the same evidence."""
    options = replace(OPTIONS, trials=9, batch_size=9)
    measurer = make_measurer(MeasurerOptions(effort=EFFORT), pool, builds, 3, options)
    assert isinstance(measurer, DopplerMeasurer)
    heard = run(TuningSession(options, measurer, pool, builds, tmp_path))
    evidence = Evidence()
    for record in heard.rounds:
        stored = json.loads(json.dumps(record.to_json()))
        evidence = learned(evidence, RoundRecord.from_json(stored))
    assert evidence.pairs
    assert evidence == measurer.evidence


@pytest.mark.parametrize("kind", [MeasurerKind.NAIVE, MeasurerKind.SERIAL])
def test_other_measurers_take_a_batch_as_one_round(
    make: Make, kind: MeasurerKind, grid: Heard
) -> None:
    heard = run(make(replace(OPTIONS, trials=3), kind))
    (record,) = heard.rounds
    assert record.degree_of_parallelism == (1 if kind is MeasurerKind.SERIAL else 3)
    assert record.react is None
    assert heard.candidates == grid.candidates[:3]
    assert [trial.latency_ms for trial in heard.trials] == [trial.wall_ms for trial in heard.trials]


@pytest.mark.parametrize("rounds", [1, 2])
def test_what_was_stopped_goes_on_to_the_same_candidates(
    make: Make, grid: Heard, rounds: int
) -> None:
    """Also in the middle of a batch. Nothing is measured twice, and REACT goes on."""
    stopped = run(make(OPTIONS), rounds=rounds)
    earlier = load_lines(dump_lines(stopped.rounds))
    assert earlier == stopped.rounds
    resumed = run(make(OPTIONS), earlier)
    assert stopped.candidates + resumed.candidates == grid.candidates
    assert resumed.rounds[0].number == rounds + 1
    assert resumed.trials[0].trial == len(stopped.trials) + 1
    assert resumed.rounds[0].started_s >= stopped.rounds[-1].ended_s
    before, after = stopped.rounds[-1].react, resumed.rounds[0].react
    assert before is not None
    assert after is not None
    assert after.d_p_before == before.d_p
    assert resumed.notes == []
    assert len(resumed.kernels) == 1


def test_a_batch_in_one_round_can_be_stopped_within_it(make: Make, grid: Heard) -> None:
    """What was begun is recorded, and what was not is measured by the next session."""
    calls, heard = count(), Heard()
    session = make(OPTIONS, MeasurerKind.SERIAL)
    assert session.run(heard, expired=lambda: next(calls) >= 5) is False
    assert 0 < len(heard.candidates) < 3
    resumed = run(make(OPTIONS, MeasurerKind.SERIAL), heard.rounds)
    assert heard.candidates + resumed.candidates == grid.candidates


@pytest.mark.parametrize("tuner", ["annealing", "random"])
def test_a_tuner_that_learns_proposes_again_what_it_did(make: Make, tuner: str) -> None:
    """With the same answers: those of the records."""
    options = replace(OPTIONS, tuner=tuner)
    whole = run(make(options))
    first = [record for record in whole.rounds if record.batch == 1]
    resumed = run(make(options), load_lines(dump_lines(first)))
    assert resumed.candidates == whole.candidates[3:]
    assert resumed.notes == []


def test_more_trials_go_on_where_fewer_ended(make: Make, grid: Heard) -> None:
    ended = run(make(replace(OPTIONS, trials=4)))
    assert len(ended.rounds[-1].trials) == 1
    more = run(make(OPTIONS), ended.rounds)
    assert ended.candidates + more.candidates == grid.candidates
    assert run(make(OPTIONS), [*ended.rounds, *more.rounds]).rounds == []


def test_records_win_where_the_tuner_has_changed_its_mind(make: Make, grid: Heard) -> None:
    """Another tuner's records: all of them stay, and none is measured again."""
    earlier = [record for record in grid.rounds if record.batch == 1]
    heard = run(make(replace(OPTIONS, tuner="random")), earlier)
    assert "other candidates" in heard.notes[0]
    assert len(heard.candidates) == 3
    assert not set(heard.candidates) & set(grid.candidates[:3])
    with pytest.raises(TuningError, match="not tuned here"):
        run(make(replace(OPTIONS, tasks=(TuningTask(OTHER),))), earlier)


def test_a_killed_session_loses_the_round_it_was_in(
    make: Make, grid: Heard, tmp_path: Path
) -> None:
    file = tmp_path / "rounds.jsonl"
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from test_tuning_session import EFFORT, OPTIONS, Heard\n"
        "from workers.tuning.records import dump_lines\n"
        "from workers.tuning.session import MeasurerOptions, open_session\n"
        "class Writing(Heard):\n"
        "    def round(self, record):\n"
        "        with open(sys.argv[1], 'a') as file: file.write(dump_lines([record]))\n"
        "folder = Path(sys.argv[2])\n"
        "measurer = MeasurerOptions(degree=3, effort=EFFORT)\n"
        "with open_session(OPTIONS, measurer, ['cpu'], folder, 1) as session:\n"
        "    session.run(Writing())\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS / 'tuning'}"}
    command = [sys.executable, "-c", program, str(file), str(tmp_path / "killed")]
    with subprocess.Popen(command, env=environment) as process:
        deadline = time.monotonic() + 60
        while not (file.exists() and "\n" in file.read_text()):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    earlier = load_lines(file.read_text())
    assert earlier
    resumed = run(make(OPTIONS), earlier)
    measured = [trial.candidate for record in earlier for trial in record.trials]
    assert measured + resumed.candidates == grid.candidates


class Failing(TuningSession):
    """Each of the first candidates ends in another way."""

    ends = ("wrong", "crash", "hang", "raise", "build crash", "build memory", "")

    def _source(self, search: Any, candidate: Candidate) -> Source:
        seen: list[str] = self.__dict__.setdefault("seen", [])
        if candidate.key not in seen:
            seen.append(candidate.key)
        end = self.ends[seen.index(candidate.key)]
        if end in ("wrong", "crash", "hang"):
            return Tampered(SMALL, end)
        if end:
            return Misbuilt(SMALL, end.removeprefix("build "))
        return super()._source(search, candidate)


def test_failures_are_recorded_by_kind_and_the_session_goes_on(make: Make) -> None:
    options = replace(OPTIONS, trials=7, batch_size=7)
    heard = run(make(options, MeasurerKind.NAIVE, session=Failing))
    assert [trial.failure for trial in heard.trials] == [
        Failure.WRONG_RESULT,
        Failure.CRASH,
        Failure.TIMEOUT,
        Failure.COMPILE,
        Failure.CRASH,
        Failure.OUT_OF_MEMORY,
        None,
    ]
    (record,) = heard.rounds
    assert record.failures == {
        "compile": 1,
        "crash": 2,
        "out_of_memory": 1,
        "timeout": 1,
        "wrong_result": 1,
    }
    assert record.timeouts == record.successes == 1
    assert all(trial.reason for trial in heard.trials if trial.failure)
    assert heard.kernels[0].trial == 7


class Unbuildable(TuningSession):
    """Nothing can be built, or nothing can be written."""

    how = "raise"

    def _source(self, search: Any, candidate: Candidate) -> Source:
        return Misbuilt(SMALL, self.how)


def test_a_round_of_which_nothing_can_be_built_measures_nothing(make: Make) -> None:
    heard = run(make(replace(OPTIONS, trials=3), session=Unbuildable))
    (record,) = heard.rounds
    assert record.degree_of_parallelism == record.successes == 0
    assert record.failures == {"compile": 3}
    assert heard.kernels == []
    assert "could be measured" in heard.notes[0]


def test_a_full_disk_ends_the_session_and_loses_no_round(make: Make, builds: BuildPool) -> None:
    class Full(Unbuildable):
        how = "disk"

    heard = Heard()
    with pytest.raises(BuildError, match="the disk is full"):
        make(OPTIONS, session=Full).run(heard)
    assert heard.rounds == []


def test_several_programs_each_have_their_share(make: Make) -> None:
    """The first batches divide the trials; later ones go where most is to be gained."""
    heavy, light = TuningTask(OTHER, weight=50.0), TuningTask(SMALL)
    options = replace(OPTIONS, tasks=(light, heavy), trials=8, batch_size=2)
    heard = run(make(options))
    order = [record.program for record in heard.rounds]
    assert order[0] == SMALL.key
    by_batch = {record.batch: record.program for record in heard.rounds}
    assert by_batch == {1: SMALL.key, 2: OTHER.key, 3: OTHER.key, 4: OTHER.key}
    assert [kernel.program for kernel in heard.kernels] == [SMALL.key, OTHER.key]
    assert [kernel.weight for kernel in heard.kernels] == [1.0, 50.0]


def test_what_has_expired_begins_nothing(make: Make) -> None:
    heard = Heard()
    assert make(OPTIONS).run(heard, expired=lambda: True) is False
    assert heard.rounds == []
    assert heard.kernels == []


def test_what_makes_no_session_is_refused() -> None:
    with pytest.raises(TuningError, match="no tensor program"):
        replace(OPTIONS, tasks=())
    with pytest.raises(TuningError, match="0 trials for 1 programs"):
        replace(OPTIONS, trials=0)
    with pytest.raises(TuningError, match="there twice"):
        replace(OPTIONS, tasks=(TuningTask(SMALL), TuningTask(SMALL)))
    with pytest.raises(TuningError, match="weight"):
        replace(OPTIONS, tasks=(TuningTask(SMALL, weight=0.0),))
    with pytest.raises(TuningError, match="batch size is 0"):
        replace(OPTIONS, batch_size=0)
    with pytest.raises(UnknownTunerError, match="no tuner 'magic'; there are: annealing"):
        replace(OPTIONS, tuner="magic")


def test_without_tvm_a_session_says_what_to_install(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "workers.tuning.space")
    monkeypatch.setitem(sys.modules, "tvm.s_tir.meta_schedule", None)
    with pytest.raises(TuningError, match=r"pip install 'plait\[tvm\]'"):
        make(OPTIONS)
