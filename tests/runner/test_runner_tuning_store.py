"""What a job for kernels is resumed from: rounds in PostgreSQL, as they were told."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from support import tuning_records
from support.tuning_records import CONVOLUTION, MATMUL, progress, round_record, trial

from backend.db.tables import Job, JobEvent, TuningRound, TuningTrial
from backend.jobs.gate import change, lock
from backend.jobs.kernel_options import KernelProgram
from backend.jobs.states import JobAction
from backend.settings import Settings
from backend.storage import Storage
from workers.runner.store import JobStore, LeaseLostError
from workers.runner.tuning import named_programs, names_of
from workers.runner.tuning_store import TuningStore
from workers.tuning.program import ProgramError
from workers.tuning.programs import catalog
from workers.tuning.targets import target

Sessions = sessionmaker[Session]


@pytest.fixture
def store(sessions: Sessions, settings: Settings) -> JobStore:
    tuning_records.queue(sessions)
    return tuning_records.claimed(sessions, Storage(settings.storage_url))


def test_rounds_come_back_as_they_were_told(store: JobStore) -> None:
    """To the last bit, as a session is resumed from them."""
    records = TuningStore(store)
    told = [
        round_record(1, trial(1, 0.1 + 0.2), trial(2, None)),
        round_record(2, trial(3, 1e-9, CONVOLUTION), react=False),
    ]
    for record in told:
        records.round(record, progress(1))
    assert TuningStore(store).earlier() == told


def test_the_best_goes_on_where_it_was(store: JobStore, sessions: Sessions) -> None:
    TuningStore(store).round(round_record(1, trial(1, 2.0)), progress(1))
    resumed = TuningStore(store)
    resumed.earlier()
    resumed.round(round_record(2, trial(2, 3.0)), progress(2))
    resumed.round(round_record(3, trial(3, None)), progress(3))
    with sessions() as session:
        rows = session.scalars(select(TuningRound).order_by(TuningRound.number)).all()
        events = session.scalars(select(JobEvent).where(JobEvent.type == "tuning_round")).all()
        assert [row.best_ms for row in rows] == [2.0, 2.0, 2.0]
        assert sorted(event.data["trials_done"] for event in events) == [1, 2, 3]


def test_a_stale_worker_writes_nothing_of_a_round(store: JobStore, sessions: Sessions) -> None:
    with sessions() as session, session.begin():
        job = session.scalars(lock(session.scalars(select(Job.id)).one())).one()
        session.add(change(job, JobAction.REQUEUE))
    with pytest.raises(LeaseLostError):
        TuningStore(store).round(round_record(1, trial(1, 2.0)), progress(1))
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(TuningRound)) == 0
        assert session.scalar(select(func.count()).select_from(TuningTrial)) == 0


def test_a_round_is_written_whole_or_not_at_all(store: JobStore, sessions: Sessions) -> None:
    records = TuningStore(store)
    records.round(round_record(1, trial(1, 2.0)), progress(1))
    with pytest.raises(Exception, match="tuning_trial"):
        records.round(round_record(2, trial(2, 2.0), trial(1, 2.0)), progress(2))
    assert [record.number for record in TuningStore(store).earlier()] == [1]
    with sessions() as session:
        events = session.scalars(select(JobEvent).where(JobEvent.type == "tuning_round")).all()
        assert len(events) == 1


def test_what_is_tuned_is_found_once_for_all_attempts(store: JobStore) -> None:
    records = TuningStore(store)
    assert records.undertaking() is None
    wanted = [KernelProgram(family="matmul", sizes={"rows": 7}), KernelProgram(workload=GPT2)]
    found = named_programs(wanted)
    records.begin(found, target({"kind": "llvm", "num-cores": 1}))
    assert TuningStore(store).undertaking() == found
    assert [one.name for one in found.programs][1] == GPT2
    assert catalog.from_key(found.programs[1].program) == catalog.workloads()[GPT2]


GPT2 = "matmul.gpt2_attention"


def test_a_program_that_is_named_twice_is_tuned_once() -> None:
    twice = [KernelProgram(workload=GPT2, weight=weight) for weight in (1.0, 2.5)]
    (found,) = named_programs(twice).programs
    assert found.weight == 3.5


def test_programs_that_look_alike_have_names_that_differ() -> None:
    strided = catalog.program("conv2d_nchw", {**dict(CONVOLUTION.sizes), "dilation_height": 1})
    padded = catalog.program("conv2d_nchw", {**dict(CONVOLUTION.sizes), "relu": 1})
    names = names_of([MATMUL, CONVOLUTION, padded])
    assert strided == CONVOLUTION
    assert names[padded] == f"{names[CONVOLUTION]} (2)"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (KernelProgram(workload="matmul.gpt2"), "perhaps matmul.gpt2_attention"),
        (KernelProgram(workload="x"), "there are conv1d_ncw.wav2vec2"),
        (KernelProgram(family="matmull"), "perhaps matmul"),
        (KernelProgram(family="matmul", sizes={"row": 1}), "perhaps rows"),
        (KernelProgram(family="matmul", sizes={"rows": 0}), "matmul: rows"),
        (
            KernelProgram(family="conv2d_nchw", sizes={"height": 1, "kernel_height": 9}),
            "conv2d_nchw",
        ),
    ],
)
def test_programs_that_do_not_exist_are_refused_with_words(
    program: KernelProgram, said: str
) -> None:
    with pytest.raises(ProgramError, match=said):
        named_programs([program])
