"""The tables. PostgreSQL is the truth; migrations/ must reproduce exactly this (alembic check)."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012  # SQLAlchemy reads it as a plain class attribute
        str: Text,
        float: Double,
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB,
        list[dict[str, Any]]: JSONB,
        list[list[float]]: JSONB,
        list[str]: ARRAY(Text),
        bytes: LargeBinary,
    }


def _created() -> Mapped[datetime]:
    return mapped_column(server_default=func.now())


class ApiToken(Base):
    """A bearer token; only the HMAC of its secret part is kept."""

    __tablename__ = "api_token"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    hint: Mapped[str]  # the last characters, so that a person can tell tokens apart
    digest: Mapped[bytes] = mapped_column(unique=True)
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime] = _created()
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class LoginLink(Base):
    """A one-time link that turns into a browser session."""

    __tablename__ = "login_link"

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime] = _created()
    expires_at: Mapped[datetime]


class BrowserSession(Base):
    __tablename__ = "browser_session"

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime] = _created()
    expires_at: Mapped[datetime]
    last_used_at: Mapped[datetime | None]


class Upload(Base):
    """A model file. The same bytes are stored once."""

    __tablename__ = "upload"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    sha256: Mapped[str] = mapped_column(unique=True)
    filename: Mapped[str]
    format: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    storage_key: Mapped[str]
    created_at: Mapped[datetime] = _created()


class Device(Base):
    """A device that a worker offers, with what can be asked of it (``capabilities``)."""

    __tablename__ = "device"

    name: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    description: Mapped[str]
    fingerprint: Mapped[str]
    facts: Mapped[dict[str, Any]]
    capabilities: Mapped[dict[str, Any]]  # {"schedulers": [...], "providers": [...], ...}
    worker: Mapped[str]
    registered_at: Mapped[datetime] = _created()
    last_progress_at: Mapped[datetime]


class Job(Base):
    __tablename__ = "job"
    __table_args__ = (
        Index("ix_job_created", "created_at", "id"),
        Index("ix_job_purpose_created", "purpose", "created_at", "id"),
        Index("ix_job_queue", "device", "state", "created_at"),
        CheckConstraint("(lease_expires_at IS NULL) = (worker IS NULL)", name="lease_has_worker"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    model_name: Mapped[str]
    upload_id: Mapped[UUID | None] = mapped_column(ForeignKey("upload.id", ondelete="RESTRICT"))
    spec: Mapped[dict[str, Any]]
    device: Mapped[str]
    purpose: Mapped[str] = mapped_column(server_default="tune")
    state: Mapped[str]
    progress: Mapped[dict[str, Any]]
    problem: Mapped[dict[str, Any] | None]
    summary: Mapped[list[dict[str, Any]] | None]
    attempt: Mapped[int] = mapped_column(server_default="0")
    fence: Mapped[int] = mapped_column(BigInteger, server_default="0")
    worker: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    event_seq: Mapped[int] = mapped_column(BigInteger, server_default="0")
    created_at: Mapped[datetime] = _created()
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class ModelGraph(Base):
    """The facts of a model's Graph as the last import made it, whichever job that was for.

    ``model`` is what a job's spec names (``zoo:NAME`` or ``upload:ID``); deleting the upload
    deletes its graphs. ``facts`` is ``backend.models.schemas.GraphFacts``.
    """

    __tablename__ = "model_graph"
    __table_args__ = (
        UniqueConstraint(
            "model",
            "batch_size",
            "sequence_length",
            "granularity",
            name="uq_model_graph_choice",
            postgresql_nulls_not_distinct=True,
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    model: Mapped[str]
    upload_id: Mapped[UUID | None] = mapped_column(ForeignKey("upload.id", ondelete="CASCADE"))
    batch_size: Mapped[int]
    sequence_length: Mapped[int | None]
    granularity: Mapped[str]
    graph_hash: Mapped[str]
    facts: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = _created()


class JobEvent(Base):
    """Append-only. ``seq`` is taken from ``job.event_seq`` under the job's row lock, so that a
    reader who has seen ``seq`` has seen everything before it."""

    __tablename__ = "job_event"

    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    type: Mapped[str]
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class JobResult(Base):
    """One scheduler's schedule for one batch size, or an alternative of the user's own, measured
    and verified. ``kind`` says which of the two; an alternative has an empty ``schedule`` and
    timeline. ``place`` ranks all of one batch size from 1, and is null for results of old.

    ``search`` holds what finding it took: states, transitions, stages_measured, stages_total,
    seconds, predicted_ms, bound_ms, bound_holds, ended, notes. ``provider`` implemented the
    operators, and ``environment`` says under what conditions they were measured.
    """

    __tablename__ = "job_result"
    __table_args__ = (UniqueConstraint("job_id", "batch_size", "scheduler"),)

    id: Mapped[UUID] = mapped_column(primary_key=True)
    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    batch_size: Mapped[int]
    scheduler: Mapped[str]
    latency_ms: Mapped[float]
    low_ms: Mapped[float]
    high_ms: Mapped[float]
    samples: Mapped[int]
    simulated: Mapped[bool]
    verified: Mapped[bool]
    max_abs_error: Mapped[float]
    winner: Mapped[bool] = mapped_column(server_default="false")
    provider: Mapped[str] = mapped_column(server_default="aten")
    kind: Mapped[str] = mapped_column(server_default="schedule")
    place: Mapped[int | None]
    schedule: Mapped[dict[str, Any]]
    search: Mapped[dict[str, Any]]
    environment: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    created_at: Mapped[datetime] = _created()


class Timeline(Base):
    """When each Unit ran on which stream: [{unit, kind, stream, start_ms, end_ms, waited}], where
    ``waited`` says what held it up: [{reason, ms}]. ``resident_warps`` are steps [ms, warps on the
    whole device from then on], none where there are no warps."""

    __tablename__ = "timeline"

    result_id: Mapped[UUID] = mapped_column(
        ForeignKey("job_result.id", ondelete="CASCADE"), primary_key=True
    )
    spans: Mapped[list[dict[str, Any]]]
    resident_warps: Mapped[list[list[float]]] = mapped_column(server_default="[]")


class MeasurementRound(Base):
    """The DP-level history (DOPpler): one row per batch that a measurer took."""

    __tablename__ = "measurement_round"
    __table_args__ = (Index("ix_measurement_round_job", "job_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    attempt: Mapped[int]
    scheduler: Mapped[str]
    batch_size: Mapped[int]
    number: Mapped[int]
    degree_of_parallelism: Mapped[int]
    candidates: Mapped[int]
    timeout_s: Mapped[float]
    failures: Mapped[int]
    timeouts: Mapped[int]
    outliers: Mapped[int]
    remeasured: Mapped[int]
    mean_deviation: Mapped[float]
    duration_s: Mapped[float]
    created_at: Mapped[datetime] = _created()


class ProfileEntry(Base):
    """The ProfileIndex: every measurement ever taken, never shared between devices."""

    __tablename__ = "profile_entry"
    __table_args__ = (UniqueConstraint("device_fingerprint", "provider", "context", "signature"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    device_fingerprint: Mapped[str]
    provider: Mapped[str]
    context: Mapped[str]
    signature: Mapped[str]
    latency_ms: Mapped[float | None]  # null when it failed
    low_ms: Mapped[float | None]
    high_ms: Mapped[float | None]
    samples: Mapped[int]
    outliers: Mapped[int]
    simulated: Mapped[bool]
    failure: Mapped[str | None]
    reason: Mapped[str | None]
    job_id: Mapped[UUID | None] = mapped_column(ForeignKey("job.id", ondelete="SET NULL"))
    created_at: Mapped[datetime] = _created()


class Artifact(Base):
    """A file that a finished job offers for download."""

    __tablename__ = "artifact"
    __table_args__ = (UniqueConstraint("job_id", "batch_size"),)

    id: Mapped[UUID] = mapped_column(primary_key=True)
    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    batch_size: Mapped[int]
    filename: Mapped[str]
    storage_key: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]
    created_at: Mapped[datetime] = _created()


class TuningRun(Base):
    """What a job that tunes kernels set out to do, and how it ended: ``complete``, ``exhausted``
    (no design space has more candidates) or ``budget``; null until then.

    ``uncovered`` are a model's operators that no tensor program computes: [{reason, operators,
    gflops}], and ``covered`` is the programs' part of its FLOPs, null where no model was given.
    ``target`` is TVM's, as JSON.
    """

    __tablename__ = "tuning_run"

    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    target: Mapped[str]
    uncovered: Mapped[list[dict[str, Any]]]
    covered: Mapped[float | None]
    ended: Mapped[str | None]
    created_at: Mapped[datetime] = _created()


class TuningProgram(Base):
    """A tensor program that a job tunes. ``program`` is its key, the same in every job; ``weight``
    is how often it occurs, and ``units`` where in the model: [{unit, operators}]. ``place`` orders
    them as the job has them, from 0; ``gflops`` are of one occurrence."""

    __tablename__ = "tuning_program"

    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    program: Mapped[str] = mapped_column(primary_key=True)
    place: Mapped[int]
    name: Mapped[str]
    weight: Mapped[float]
    units: Mapped[list[dict[str, Any]]]
    gflops: Mapped[float]


class TuningRound(Base):
    """A round of measuring a job's kernels: what ``workers.tuning.records.RoundRecord`` says but
    its trials, from which the job is resumed. Never changed once it is there.

    ``lower`` and ``upper`` bound the next degree of parallelism and are REACT's, as ``react`` is,
    the whole step; ``failures`` counts candidates by kind. ``started_s`` and ``ended_s`` are
    seconds of tuning since the job began, without what passed while it was stopped. ``best_ms`` is
    the lowest latency of the round's program so far. ``spans`` are what processes did: [{kind,
    process, device, trial, started_s, ended_s, failure}].
    """

    __tablename__ = "tuning_round"

    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    program: Mapped[str]
    batch: Mapped[int]
    asked: Mapped[int]
    degree_of_parallelism: Mapped[int]
    lower: Mapped[int | None]
    upper: Mapped[int | None]
    timeout_s: Mapped[float]
    successes: Mapped[int]
    failures: Mapped[dict[str, Any]]
    timeouts: Mapped[int]
    outliers: Mapped[int]
    remeasured: Mapped[int]
    due_to_parallelism: Mapped[int]
    delta_mean: Mapped[float | None]
    started_s: Mapped[float]
    ended_s: Mapped[float]
    cpu_share: Mapped[float | None]
    best_ms: Mapped[float | None]
    react: Mapped[dict[str, Any] | None]
    spans: Mapped[list[dict[str, Any]]]
    created_at: Mapped[datetime] = _created()


class TuningTrial(Base):
    """One candidate of a job's kernels, written together with its round. ``latency_ms`` is what
    the tuner was told, null where there is a ``failure``, and ``trace`` is what its kernel is built
    from."""

    __tablename__ = "tuning_trial"

    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    trial: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    round: Mapped[int]
    program: Mapped[str]
    candidate: Mapped[str]
    trace: Mapped[str]
    latency_ms: Mapped[float | None]
    device_ms: Mapped[float | None]
    wall_ms: Mapped[float | None]
    alone_ms: Mapped[float | None]
    cycles: Mapped[float | None]
    instructions: Mapped[float | None]
    failure: Mapped[str | None]
    reason: Mapped[str]
    build_s: Mapped[float]


class TuningKernel(Base):
    """The best kernel of a program, and its zip in storage. ``ranked`` are the candidates that were
    measured in isolation at the end: [{trial, candidate, told_ms, device_ms, wall_ms, failure,
    reason}]."""

    __tablename__ = "tuning_kernel"

    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    program: Mapped[str] = mapped_column(primary_key=True)
    trial: Mapped[int]
    candidate: Mapped[str]
    latency_ms: Mapped[float]
    wall_ms: Mapped[float]
    tir: Mapped[str]
    source: Mapped[str]
    trace: Mapped[str]
    ranked: Mapped[list[dict[str, Any]]]
    filename: Mapped[str]
    storage_key: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]
    created_at: Mapped[datetime] = _created()


class MeasuringHost(Base):
    """A device of another machine that measures candidates for jobs (``workers --measure``).

    ``worker`` is the process that has the name now, and ``seen_at`` when it last said that it is
    there. ``capabilities`` say what it can measure: {"orders": version, "tvm": version}.
    """

    __tablename__ = "measuring_host"

    name: Mapped[str] = mapped_column(primary_key=True)
    worker: Mapped[str]
    device: Mapped[str]
    fingerprint: Mapped[str]
    capabilities: Mapped[dict[str, Any]]
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class MeasuringOrder(Base):
    """One candidate that ``worker`` of ``host`` shall measure, for the attempt of a job that had
    ``fence``; those of a ``batch`` together, ``degree`` at once.

    It is waiting, claimed (until ``lease_expires_at``, which is renewed), done, refused, or
    withdrawn, and an ``outcome`` is only ever written to one that is claimed. ``form`` says what is
    measured, and is the whole of it with ``library``, which is there until it is answered, and the
    file in storage that is named by the digest in ``form``. Kept until the job has ended.
    """

    __tablename__ = "measuring_order"
    __table_args__ = (
        Index("ix_measuring_order_job", "job_id"),
        Index(
            "ix_measuring_order_waiting", "worker", "id", postgresql_where=text("state = 'waiting'")
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    fence: Mapped[int] = mapped_column(BigInteger)
    batch: Mapped[UUID]
    host: Mapped[str]
    worker: Mapped[str]
    form: Mapped[dict[str, Any]]
    library: Mapped[bytes | None]
    effort: Mapped[dict[str, Any]]
    degree: Mapped[int]
    timeout_s: Mapped[float]
    state: Mapped[str]
    claimed_at: Mapped[datetime | None]
    lease_expires_at: Mapped[datetime | None]
    outcome: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime] = _created()
