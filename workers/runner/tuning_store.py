"""What a job for kernels writes to the database and is resumed from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert

from backend.db.tables import TuningKernel, TuningProgram, TuningRound, TuningRun, TuningTrial
from backend.jobs.gate import append
from backend.jobs.schemas import EventType, JobProgress, TuningKernelEvent, TuningRoundEvent
from workers.runner.store import JobStore
from workers.tuning.records import VERSION, KernelRecord, RoundRecord, TrialRecord
from workers.tuning.targets import KernelTarget

_OF_A_ROUND = (
    "number", "batch", "asked", "program", "degree_of_parallelism", "timeout_s", "successes",
    "failures", "outliers", "remeasured", "due_to_parallelism", "delta_mean", "started_s",
    "ended_s", "cpu_share", "react", "spans",
)  # fmt: skip
_OF_A_TRIAL = tuple(field.name for field in fields(TrialRecord))


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tensor program of a job: its key, its name for people, how often it occurs, where in the
    model ({unit, operators}), and its GFLOPs."""

    program: str
    name: str
    weight: float
    gflops: float
    units: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Operators of the model that no program computes, and why."""

    reason: str
    operators: tuple[str, ...]
    gflops: float


@dataclass(frozen=True, slots=True)
class Undertaking:
    """What a job tunes. ``covered`` is the programs' part of the model's FLOPs, None without a
    model."""

    programs: tuple[Tuned, ...]
    uncovered: tuple[Uncovered, ...] = ()
    covered: float | None = None


class TuningStore:
    """Writes for one claimed job for kernels. Each is one transaction under the job's row lock and
    fence, and raises LeaseLostError once the claim is stale."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._best: dict[str, float] = {}
        self._trials: dict[str, int] = defaultdict(int)

    def undertaking(self) -> Undertaking | None:
        """What an earlier attempt found to tune."""
        with self._store.locked() as (session, job, _):
            run = session.get(TuningRun, job.id)
            if run is None:
                return None
            rows = session.scalars(
                select(TuningProgram)
                .where(TuningProgram.job_id == job.id)
                .order_by(TuningProgram.place)
            )
            return Undertaking(
                programs=tuple(
                    Tuned(row.program, row.name, row.weight, row.gflops, tuple(row.units))
                    for row in rows
                ),
                uncovered=tuple(
                    Uncovered(one["reason"], tuple(one["operators"]), one["gflops"])
                    for one in run.uncovered
                ),
                covered=run.covered,
            )

    def begin(self, found: Undertaking, target: KernelTarget) -> None:
        """Store what is tuned, once for all attempts."""
        with self._store.locked() as (session, job, _):
            session.add(
                TuningRun(
                    job_id=job.id,
                    target=target.text,
                    uncovered=[asdict(one) for one in found.uncovered],
                    covered=found.covered,
                )
            )
            session.add_all(
                TuningProgram(
                    job_id=job.id,
                    place=place,
                    program=one.program,
                    name=one.name,
                    weight=one.weight,
                    gflops=one.gflops,
                    units=list(one.units),
                )
                for place, one in enumerate(found.programs)
            )

    def earlier(self) -> list[RoundRecord]:
        """The records of all rounds so far, in order. To be asked for before a round is stored."""
        with self._store.locked() as (session, job, _):
            trials: dict[int, list[TuningTrial]] = defaultdict(list)
            for trial in session.scalars(
                select(TuningTrial).where(TuningTrial.job_id == job.id).order_by(TuningTrial.trial)
            ):
                trials[trial.round].append(trial)
            rounds = session.scalars(
                select(TuningRound).where(TuningRound.job_id == job.id).order_by(TuningRound.number)
            )
            records = [_record(row, trials[row.number]) for row in rounds]
        for record in records:
            self._count(record)
        return records

    def round(self, record: RoundRecord, progress: JobProgress) -> None:
        """A round with all of its trials: all of it or nothing."""
        self._count(record)
        best = self._best.get(record.program)
        with self._store.locked() as (session, job, events):
            session.add(_round_row(record, job.id, job.attempt, best))
            session.flush()
            session.add_all(_trial_rows(record, job.id))
            event = _round_event(record, best, self._trials)
            events.append(append(job, EventType.TUNING_ROUND, event.model_dump()))
            job.progress = progress.model_dump()
            events.append(append(job, EventType.PROGRESS, progress.model_dump()))

    def kernel(self, record: KernelRecord, archive: Path) -> None:
        """The zip into storage, then its row, in place of what an earlier attempt left."""
        kept = self._store.keep(archive, "kernels")
        event = TuningKernelEvent(
            program=record.program,
            trial=record.trial,
            candidate=record.candidate,
            latency_ms=record.latency_ms,
            wall_ms=record.wall_ms,
        )
        values = {
            **event.model_dump(exclude={"program"}),
            "tir": record.tir,
            "source": record.source,
            "trace": record.trace,
            "ranked": record.to_json()["ranked"],
            **kept,
        }
        with self._store.locked() as (session, job, events):
            session.execute(
                insert(TuningKernel)
                .values(job_id=job.id, program=record.program, **values)
                .on_conflict_do_update(
                    index_elements=[TuningKernel.job_id, TuningKernel.program], set_=values
                )
            )
            events.append(append(job, EventType.TUNING_KERNEL, event.model_dump()))

    def ended(self, how: str) -> None:
        """How tuning ended: see ``TuningRun``."""
        with self._store.locked() as (session, job, _):
            session.execute(update(TuningRun).where(TuningRun.job_id == job.id).values(ended=how))

    def _count(self, record: RoundRecord) -> None:
        self._trials[record.program] += len(record.trials)
        told = [trial.latency_ms for trial in record.trials if trial.latency_ms is not None]
        if told:
            before = self._best.get(record.program, math.inf)
            self._best[record.program] = min(before, *told)


def _round_row(
    record: RoundRecord, job_id: UUID, attempt: int, best_ms: float | None
) -> TuningRound:
    told = record.to_json()
    return TuningRound(
        job_id=job_id,
        attempt=attempt,
        lower=record.react.lower if record.react else None,
        upper=record.react.upper if record.react else None,
        timeouts=record.timeouts,
        best_ms=best_ms,
        **{name: told[name] for name in _OF_A_ROUND},
    )


def _trial_rows(record: RoundRecord, job_id: UUID) -> Iterable[TuningTrial]:
    for trial in record.to_json()["trials"]:
        yield TuningTrial(job_id=job_id, round=record.number, **trial)


def _record(row: TuningRound, trials: Sequence[TuningTrial]) -> RoundRecord:
    told = {name: getattr(row, name) for name in _OF_A_ROUND}
    told["trials"] = [{name: getattr(trial, name) for name in _OF_A_TRIAL} for trial in trials]
    return RoundRecord.from_json({"version": VERSION, **told})


def _round_event(
    record: RoundRecord, best_ms: float | None, trials: Mapping[str, int]
) -> TuningRoundEvent:
    return TuningRoundEvent(
        number=record.number,
        program=record.program,
        batch=record.batch,
        degree_of_parallelism=record.degree_of_parallelism,
        lower=record.react.lower if record.react else None,
        upper=record.react.upper if record.react else None,
        timeout_s=record.timeout_s,
        successes=record.successes,
        failures=dict(record.failures),
        timeouts=record.timeouts,
        outliers=record.outliers,
        remeasured=record.remeasured,
        due_to_parallelism=record.due_to_parallelism,
        delta_mean=record.delta_mean,
        started_s=record.started_s,
        ended_s=record.ended_s,
        cpu_share=record.cpu_share,
        best_ms=best_ms,
        trials=trials[record.program],
        trials_done=sum(trials.values()),
    )
