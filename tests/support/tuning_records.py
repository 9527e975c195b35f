"""Records of tuning as sessions tell them, and jobs for kernels whose worker tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker
from support import rows

from backend.jobs.schemas import JobProgress, JobSpec
from backend.storage import Storage
from workers.measure.measurement import Failure
from workers.runner.registration import kernel_offer
from workers.runner.store import JobStore, claim_next
from workers.tuning.program import TensorProgram
from workers.tuning.programs import catalog
from workers.tuning.records import (
    KernelRecord,
    RankedRecord,
    ReactRecord,
    RoundRecord,
    SpanKind,
    SpanRecord,
    TrialRecord,
)

MATMUL = catalog.program("matmul", {"rows": 32, "inner": 32, "columns": 32})
CONVOLUTION = catalog.program(
    "conv2d_nchw",
    {"in_channels": 4, "out_channels": 8, "height": 8, "width": 8},
)
STEP = ReactRecord("exploration", "growth", 1, 2, 2, 2, 0.5, 1, 4)


def spec(**kernels: Any) -> dict[str, Any]:
    """A job for kernels of the two small programs above, as REST takes it."""
    programs = [
        {"family": program.family, "sizes": dict(program.sizes)}
        for program in (MATMUL, CONVOLUTION)
    ]
    options = {"programs": programs, "tuner": "grid", "trials": 16, "batch_size": 8, **kernels}
    return {"purpose": "kernels", "device": "cpu", "kernels": options}


def capabilities() -> dict[str, Any]:
    """Of a device whose worker has TVM."""
    return {**rows.CAPABILITIES, "kernels": kernel_offer()}


def trial(number: int, latency_ms: float | None, program: TensorProgram = MATMUL) -> TrialRecord:
    """A candidate that was measured, or that took too long where there is no latency."""
    failed = latency_ms is None
    return TrialRecord(
        program=program.key,
        trial=number,
        candidate=f"candidate{number}",
        trace=f'["trace {number}"]',
        latency_ms=latency_ms,
        device_ms=latency_ms,
        wall_ms=None if latency_ms is None else 1.5 * latency_ms,
        alone_ms=None,
        cycles=None,
        instructions=1e22 if number == 1 else None,
        failure=Failure.TIMEOUT if failed else None,
        reason="it took more than 1 s" if failed else "",
        build_s=0.125,
    )


def round_record(number: int, *trials: TrialRecord, react: bool = True) -> RoundRecord:
    """A round of these trials."""
    timeouts = sum(one.failure is Failure.TIMEOUT for one in trials)
    return RoundRecord(
        number=number,
        batch=1,
        asked=8,
        program=trials[0].program,
        degree_of_parallelism=number,
        timeout_s=1.0,
        successes=len(trials) - timeouts,
        failures={"timeout": timeouts} if timeouts else {},
        outliers=1,
        remeasured=1,
        due_to_parallelism=0,
        delta_mean=0.1 + 0.2,
        started_s=float(number - 1),
        ended_s=number - 1e-7,
        cpu_share=0.5,
        react=STEP if react else None,
        trials=trials,
        spans=tuple(
            SpanRecord(SpanKind.PARALLEL, 0, "cpu", one.trial, 0.0, 1e-7, one.failure)
            for one in trials
        ),
    )


def kernel_record(chosen: TrialRecord, library: Path) -> KernelRecord:
    """The kernel of a trial, in a file that this writes."""
    library.write_bytes(b"\x7fELF")
    latency = chosen.latency_ms or 0.0
    ranked = RankedRecord(
        trial=chosen.trial,
        candidate=chosen.candidate,
        told_ms=latency,
        device_ms=latency,
        wall_ms=latency,
        low_ms=0.9 * latency,
        high_ms=1.1 * latency,
        samples=10,
        failure=None,
        reason="",
    )
    return KernelRecord(
        program=chosen.program,
        weight=1.0,
        trials=2,
        trial=chosen.trial,
        candidate=chosen.candidate,
        trace=chosen.trace,
        latency_ms=latency,
        wall_ms=latency,
        tir="@T.prim_func",
        source="define i32 @main",
        library=str(library),
        ranked=(ranked,),
    )


def queue(sessions: sessionmaker[Session], **kernels: Any) -> UUID:
    """A queued job for kernels."""
    wanted = JobSpec.model_validate(spec(**kernels))
    job = rows.job(
        spec=wanted.model_dump(mode="json"), purpose=wanted.purpose.value, model_name="matmul"
    )
    with sessions(expire_on_commit=False) as session, session.begin():
        session.add(job)
    return job.id


def claimed(sessions: sessionmaker[Session], storage: Storage) -> JobStore:
    """The oldest queued job, as its worker writes it."""
    claim = claim_next(sessions, lambda event: None, ["cpu"], "worker", lease=30)
    assert claim is not None
    return JobStore(sessions, lambda event: None, claim, storage)


def progress(done: int) -> JobProgress:
    return JobProgress(stage="tuning", step=done, steps=16)
