"""Jobs for kernels in this process, on real kernels and a real PostgreSQL: how they end when
something goes wrong, and what they keep."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from onnx import helper
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from support import rows
from support.kernels import Misbuilt, Tampered
from support.onnx_models import model, written
from support.tuning_records import MATMUL, spec

from backend.db.tables import (
    Job,
    JobEvent,
    ProfileEntry,
    TuningKernel,
    TuningProgram,
    TuningRound,
    TuningRun,
    TuningTrial,
)
from backend.jobs.gate import change, lock
from backend.jobs.schemas import JobSpec
from backend.jobs.states import JobAction
from backend.settings import Settings
from backend.storage import Storage
from workers import devices
from workers.devices.base import DeviceError, DeviceFacts
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelFile, ModelSource
from workers.runner import registration
from workers.runner.problems import job_problem
from workers.runner.profile_store import DatabaseIndex
from workers.runner.quiet import NoisePolicy
from workers.runner.store import JobStore, LeaseLostError, claim_next, end_attempt
from workers.runner.tuning import TuningPlace, run_tuning
from workers.tuning.kernels.pool import BuildError
from workers.tuning.program import ProgramError
from workers.tuning.session import TuningError, TuningSession
from workers.tuning.tuner import Candidate

pytest.importorskip("tvm")

TESTS = Path(__file__).parents[1]
Sessions = sessionmaker[Session]
ONE = [{"family": "matmul", "sizes": dict(MATMUL.sizes)}]


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    """What tests build is known in the building processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS))
        yield


@dataclass
class Attempts:
    """One job, and how its attempts go. ``heard`` is told of every event once it is stored."""

    sessions: Sessions
    storage: Storage
    folder: Path
    heard: Callable[[JobEvent], None] = lambda event: None
    discover: Callable[[], Sequence[DeviceFacts]] = devices.discover
    source: ModelSource | None = None
    job: UUID = field(init=False)

    def queue(self, wanted: dict[str, Any]) -> None:
        made = JobSpec.model_validate(wanted)
        job = rows.job(
            spec=made.model_dump(mode="json"), purpose=made.purpose.value, device=made.device
        )
        with self.sessions(expire_on_commit=False) as session, session.begin():
            session.add(job)
        self.job = job.id

    def run(self, **changes: Any) -> None:
        """An attempt, with a specification that differs in these fields."""
        with self.sessions() as session:
            stored = session.get_one(Job, self.job)
            wanted = JobSpec.model_validate({**stored.spec, **changes})
        self.claim = claim_next(self.sessions, self._announce, [wanted.device], "worker", 30)
        assert self.claim is not None
        store = JobStore(self.sessions, self._announce, self.claim, self.storage)
        index = DatabaseIndex(self.sessions, self.job)
        limits = SandboxLimits(memory_bytes=4 << 30, seconds=60)
        self.folder.mkdir(exist_ok=True)
        place = TuningPlace(
            store, index, self.folder, limits, NoisePolicy(allow=True), self.discover
        )
        run_tuning(wanted, self.source, place)

    def act(self, action: JobAction) -> None:
        with self.sessions() as session, session.begin():
            session.add(change(session.scalars(lock(self.job)).one(), action))

    def rows(self, table: Any, *order: Any) -> list[Any]:
        with self.sessions(expire_on_commit=False) as session:
            return list(session.scalars(select(table).order_by(*order)))

    @property
    def candidates(self) -> list[str]:
        return [row.candidate for row in self.rows(TuningTrial, TuningTrial.trial)]

    @property
    def logged(self) -> str:
        events = self.rows(JobEvent, JobEvent.seq)
        return "\n".join(event.data["message"] for event in events if event.type == "log")

    def _announce(self, event: JobEvent) -> None:
        self.heard(event)


@pytest.fixture
def attempts(sessions: Sessions, settings: Settings, tmp_path: Path) -> Attempts:
    return Attempts(sessions, Storage(settings.storage_url), tmp_path / "work")


def cancel_at(attempts: Attempts, number: int) -> Callable[[JobEvent], None]:
    def heard(event: JobEvent) -> None:
        if event.type == "tuning_round" and event.data["number"] == number:
            attempts.act(JobAction.CANCEL)

    return heard


def test_a_job_goes_on_with_its_records_and_with_what_is_left_of_its_budget(
    attempts: Attempts,
) -> None:
    attempts.queue(spec(programs=ONE, trials=6, batch_size=3))
    attempts.heard = cancel_at(attempts, 1)
    with pytest.raises(LeaseLostError, match="cancelled"):
        attempts.run()
    assert attempts.claim is not None
    end_attempt(attempts.sessions, attempts.heard, attempts.claim, 3, "cancelled")
    (first,) = attempts.rows(TuningRound)
    kept = attempts.candidates
    attempts.act(JobAction.RESUME)

    attempts.run(budget_seconds=first.ended_s / 2)
    assert attempts.candidates == kept  # as its time was up already
    assert attempts.rows(Job)[0].state == "succeeded"
    (run,) = attempts.rows(TuningRun)
    assert run.ended == "budget"
    assert f"after {len(kept)} of 6 trials" in attempts.logged
    (kernel,) = attempts.rows(TuningKernel)
    assert kernel.candidate in kept
    (known,) = attempts.rows(ProfileEntry)
    assert (known.provider, known.signature, known.job_id) == ("tvm", MATMUL.key, attempts.job)
    assert known.context == f"kernel threads=1 candidate={kernel.candidate}"
    assert known.low_ms <= known.latency_ms == kernel.latency_ms <= known.high_ms
    assert known.samples > 1


def test_a_full_disk_ends_a_job_which_keeps_its_records_and_goes_on(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = TuningSession._source

    def until_full(session: TuningSession, search: Any, candidate: Candidate) -> Any:
        full = session._batches > 1
        return Misbuilt(MATMUL, "disk") if full else built(session, search, candidate)

    monkeypatch.setattr(TuningSession, "_source", until_full)
    attempts.queue(spec(programs=ONE, trials=4, batch_size=2))
    with pytest.raises(BuildError) as raised:
        attempts.run()
    problem = job_problem(raised.value)
    assert problem is not None
    assert (problem.kind, "the disk is full" in problem.detail) == ("disk_full", True)
    kept = attempts.candidates
    assert len(kept) == 2
    attempts.act(JobAction.FAIL)
    attempts.act(JobAction.RESUME)

    monkeypatch.setattr(TuningSession, "_source", built)
    attempts.run()
    assert attempts.candidates[:2] == kept
    assert len(set(attempts.candidates)) == 4
    assert [row.ended for row in attempts.rows(TuningRun)] == ["complete"]
    assert "goes on after 2 trials" in attempts.logged


def test_a_device_that_vanishes_ends_the_job_before_its_failures_are_recorded(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate that crashes on a device that is there is the candidate's fault."""
    monkeypatch.setattr(TuningSession, "_source", lambda *_: Tampered(MATMUL, "crash"))
    there = list(devices.discover())
    attempts.discover = lambda: there
    attempts.queue(spec(programs=ONE, trials=2, batch_size=1, measurer={"kind": "serial"}))

    def heard(event: JobEvent) -> None:
        if event.type == "tuning_round":
            there.clear()

    attempts.heard = heard
    with pytest.raises(DeviceError, match="no device 'cpu' here"):
        attempts.run()
    (recorded,) = attempts.rows(TuningTrial)
    assert (recorded.failure, recorded.trial) == ("crash", 1)


def test_a_full_disk_is_told_apart_from_a_defect() -> None:
    with (
        Path("/dev/full").open("wb", buffering=0) as full,
        pytest.raises(OSError, match="No space left") as raised,
    ):
        full.write(b"kernel")
    problem = job_problem(raised.value)
    assert problem is not None
    assert problem.kind == "disk_full"
    assert job_problem(FileNotFoundError("a defect")) is None


def test_a_job_without_a_kernel_fails_with_words_and_keeps_why(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TuningSession, "_source", lambda *_: Misbuilt(MATMUL, "raise"))
    attempts.queue(spec(programs=ONE, trials=2))
    with pytest.raises(TuningError, match="no kernel came of 2 trials"):
        attempts.run()
    trials = attempts.rows(TuningTrial)
    assert [(row.failure, "no such intrinsic" in row.reason) for row in trials] == [
        ("compile", True)
    ] * 2
    assert attempts.rows(TuningRun)[0].ended is None
    attempts.act(JobAction.FAIL)
    attempts.act(JobAction.RESUME)
    monkeypatch.undo()
    with pytest.raises(TuningError, match="no kernel came of 2 trials"):
        attempts.run(budget_seconds=1e-3)


def test_a_budget_without_a_round_fails_with_words(attempts: Attempts) -> None:
    attempts.queue(spec(programs=ONE, trials=2))
    with pytest.raises(TuningError, match="before a round was over; allow more"):
        attempts.run(budget_seconds=1e-6)
    assert attempts.candidates == []


def of_model(**kernels: Any) -> dict[str, Any]:
    return {"purpose": "kernels", "model": f"upload:{UUID(int=1)}", "kernels": kernels}


def test_a_models_programs_are_tuned_by_how_often_they_occur(
    attempts: Attempts, tmp_path: Path
) -> None:
    """Two convolutions that are one program, and a pooling that none computes."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w2"], ["b"], name="second", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["b"], ["y"]),
    ]
    weights = {name: np.full((4, 4, 3, 3), 0.1, np.float32) for name in ("w1", "w2")}
    path = written(model(nodes, {"x": [1, 4, 8, 8]}, ["y"], weights), tmp_path)
    attempts.source = ModelFile(path, "onnx")
    attempts.queue(of_model(tuner="grid", trials=1, measurer={"kind": "serial"}))
    attempts.run()
    (program,) = attempts.rows(TuningProgram)
    assert (program.weight, program.name) == (2.0, "conv2d_nchw 1x4x8x8, 4x4x3x3 to 1x4x8x8")
    assert len({unit["unit"] for unit in program.units}) == 2
    assert all(unit["operators"] for unit in program.units)
    (run,) = attempts.rows(TuningRun)
    assert 0.9 < run.covered < 1
    (lost,) = run.uncovered
    assert (lost["gflops"] > 0, len(lost["operators"])) == (True, 1)
    assert "not covered by tensor programs" in attempts.logged
    assert [kernel.program for kernel in attempts.rows(TuningKernel)] == [program.program]


def test_a_model_without_tensor_programs_fails_with_words(
    attempts: Attempts, tmp_path: Path
) -> None:
    path = written(model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 4]}, ["y"]), tmp_path)
    attempts.source = ModelFile(path, "onnx")
    attempts.queue(of_model())
    with pytest.raises(ProgramError, match="no operator that a tensor program computes") as raised:
        attempts.run()
    problem = job_problem(raised.value)
    assert problem is not None
    assert problem.kind == "program"


@pytest.mark.parametrize(
    ("wanted", "kind", "said"),
    [
        ({**spec(), "device": "sim:v100"}, "device", "a simulated GPU runs no kernels"),
        ({**spec(), "device": "cuda:77"}, "device", "no device 'cuda:77' here; known: cpu"),
        (spec(programs=[{"workload": "matmul.gpt3"}]), "program", "perhaps matmul.gpt2_attention"),
        (
            spec(programs=[{"family": "matmul", "sizes": {"rows": 2**31 - 1}}]),
            "program",
            "at most",
        ),
        (spec(tuner="gird"), "tuner", "there are: annealing"),
        (spec(trials=1), "tuning", "1 trials for 2 programs"),
    ],
)
def test_what_cannot_be_tuned_fails_with_words(
    attempts: Attempts, wanted: dict[str, Any], kind: str, said: str
) -> None:
    """What the service could not know when the job was made, or what has changed since."""
    attempts.queue(wanted)
    with pytest.raises((DeviceError, ValueError)) as raised:
        attempts.run()
    problem = job_problem(raised.value)
    assert problem is not None
    assert problem.kind == kind
    assert said in problem.detail


def test_a_worker_without_tvm_says_so_and_offers_no_kernels(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registration.kernel_offer() is not None
    monkeypatch.delitem(sys.modules, "workers.tuning.space", raising=False)
    monkeypatch.setitem(sys.modules, "tvm", None)
    assert registration.kernel_offer() is None
    attempts.queue(spec(programs=ONE))
    with pytest.raises(TuningError, match=r"pip install 'plait\[tvm\]'"):
        attempts.run()
    assert attempts.rows(TuningProgram) == []
