"""Wire forms of what a job for kernels tunes and found."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

Ended = Literal["complete", "exhausted", "budget"]
"""All trials were made; no design space had more candidates; the time was used up."""


class TunedUnit(BaseModel):
    """Where in a model a program is computed: by ``operators`` of the Unit."""

    unit: str
    operators: list[str]


class TuningProgramRead(BaseModel):
    """A tensor program of the job: how often it occurs (``weight``), its GFLOPs, how many trials it
    had so far, and the lowest latency that its tuner was told, in ms."""

    program: str
    name: str
    weight: float
    gflops: float
    trials: int
    best_ms: float | None
    tuned: bool
    units: list[TunedUnit]


class UncoveredRead(BaseModel):
    """Operators of the model that no tensor program computes, and why."""

    reason: str
    operators: list[str]
    gflops: float


class TuningRead(BaseModel):
    """What the job tunes and how far it is. ``covered`` is the programs' part of the model's FLOPs,
    null without a model; ``failures`` counts trials by kind; ``tuned_s`` are the seconds of tuning
    so far, which ``budget_seconds`` limits. ``ended`` is null until it has."""

    programs: list[TuningProgramRead]
    rounds: int
    trials: int
    trials_wanted: int
    tuned_s: float
    failures: dict[str, int]
    uncovered: list[UncoveredRead]
    covered: float | None
    target: dict[str, Any] | None
    ended: Ended | None
    tuned: bool


class TuningRoundRead(BaseModel):
    """A round of measuring: which candidates in flight at once (``degree_of_parallelism``), within
    which bounds the next ones are, and what became of them. Times are seconds of tuning since the
    job began, latencies ms; ``delta_mean`` is DOPpler's Eq. 4."""

    model_config = ConfigDict(from_attributes=True)

    number: int
    attempt: int
    program: str
    batch: int
    asked: int
    degree_of_parallelism: int
    lower: int | None
    upper: int | None
    timeout_s: float
    successes: int
    failures: dict[str, int]
    timeouts: int
    outliers: int
    remeasured: int
    due_to_parallelism: int
    delta_mean: float | None
    started_s: float
    ended_s: float
    cpu_share: float | None
    best_ms: float | None
    react: dict[str, Any] | None
    created_at: datetime


class TuningTrialRead(BaseModel):
    """A candidate: the latency that its tuner was told, and by which clocks it was measured, in ms;
    or its ``failure``, with a ``reason``."""

    model_config = ConfigDict(from_attributes=True)

    trial: int
    round: int
    program: str
    candidate: str
    latency_ms: float | None
    device_ms: float | None
    wall_ms: float | None
    alone_ms: float | None
    cycles: float | None
    instructions: float | None
    failure: str | None
    reason: str
    build_s: float
    trace: Annotated[str | None, Field(description="null unless it was asked for")] = None


class RankedRead(BaseModel):
    """A candidate that was among the best, built again and measured in isolation: the median of
    so many ``samples`` by the device's clock, with its 95 % interval, in ms."""

    trial: int
    candidate: str
    told_ms: float
    device_ms: float | None
    wall_ms: float | None
    low_ms: float | None
    high_ms: float | None
    samples: int
    failure: str | None
    reason: str


class TuningKernelRead(BaseModel):
    """The best kernel of a program, measured in isolation: its schedule (``tir``), and the code
    that was generated from it (``source``)."""

    model_config = ConfigDict(from_attributes=True)

    job_id: UUID
    program: str
    trial: int
    candidate: str
    latency_ms: float
    wall_ms: float
    tir: str
    source: str
    ranked: list[RankedRead]
    filename: str
    size_bytes: int
    sha256: str
    created_at: datetime
