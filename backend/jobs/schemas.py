"""Wire and storage forms of a job. Imported by the workers too: pydantic only."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from backend.jobs.kernel_options import KernelOptions
from backend.jobs.states import JobState

MODEL_PATTERN = r"^(zoo:[a-z0-9_]+|upload:[0-9a-f-]{36})$"


class Strict(BaseModel):
    """Refuses fields it does not know, so that a misspelt option is an error."""

    model_config = ConfigDict(extra="forbid")


AUTO = "auto"
"""In place of a scheduler's name: all of them, combined and refined, beside what the user has."""

Strategies = Literal["both", "parallel", "merge"]
Threads = Literal["searched", "device"]
SearchMode = Literal["exhaustive", "exact", "guided"]


class IosOptions(Strict):
    """IOS: pruning P(r, s) (Section 4.3), strategies (Section 6.1), and how it is searched."""

    max_units_per_group: Annotated[int, Field(ge=1, le=64, description="the paper's r")] = 3
    max_groups_per_stage: Annotated[int, Field(ge=1, le=64, description="the paper's s")] = 8
    strategies: Annotated[
        Strategies,
        Field(description="run groups side by side, merge operators, or the better of both"),
    ] = "both"
    threads: Annotated[
        Threads,
        Field(
            description="on a CPU, whether other threads are tried for the groups of a stage than "
            "those that the device gives them"
        ),
    ] = "searched"
    mode: Annotated[
        SearchMode,
        Field(
            description="measure every stage; those that bounds cannot exclude; or those that a "
            "model of contention expects to be good"
        ),
    ] = "guided"
    gap: Annotated[
        float,
        Field(ge=0, lt=1, description="stop within this fraction of the bound; 0.01 is 1 %"),
    ] = 0.0


class OparaOptions(Strict):
    """Opara: how its two algorithms tell Units apart and what they follow from."""

    strict: Annotated[
        bool,
        Field(
            description="as published: classes by a table of operators, demands of one thread "
            "block, as many streams as it wants; needs a GPU, real or simulated"
        ),
    ] = False


Granularity = Literal["operator", "fused", "block"]
"""What is one Unit: every kernel, operators fused as a kernel would be, or every linear run of
those between two branchings."""


Provider = Literal["aten", "inductor", "onnxruntime"]
"""Who implements the operators: PyTorch's own kernels, code that TorchInductor makes, or, on a CPU,
ONNX Runtime."""


StageMeasurer = Literal["serial", "doppler"]


class Purpose(StrEnum):
    """``tune`` finds schedules; ``inspect`` ends after the import, with the facts of the graph;
    ``kernels`` tunes tensor programs into kernels."""

    TUNE = "tune"
    INSPECT = "inspect"
    KERNELS = "kernels"


Model = Annotated[str, StringConstraints(pattern=MODEL_PATTERN)]


class JobSpec(Strict):
    """What to tune: model + device + batch sizes + schedulers + budget. A job for kernels has
    ``kernels`` in place of schedulers, and may name tensor programs there in place of a model."""

    model: Annotated[
        Model | None,
        Field(
            description="zoo:NAME or upload:ID; null where kernels.programs are tuned",
            examples=["zoo:squeezenet"],
        ),
    ] = None
    device: Annotated[str, StringConstraints(min_length=1, max_length=64)] = "cpu"
    batch_sizes: Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1)] = [1]
    sequence_length: Annotated[
        int | None,
        Field(
            ge=1,
            le=1 << 20,
            description="size of every dimension that the model leaves open besides the batch; "
            "null keeps those that it was exported with",
        ),
    ] = None
    schedulers: Annotated[
        list[str],
        Field(min_length=1, description="by name; auto stands for all, and what the user has"),
    ] = [AUTO]
    budget_seconds: Annotated[
        float, Field(gt=0, le=86400, description="time to search, per batch size")
    ] = 300
    seed: int = 0
    granularity: Annotated[
        Granularity, Field(description="what is scheduled as one unit; finer searches longer")
    ] = "fused"
    ios: IosOptions = IosOptions()
    opara: OparaOptions = OparaOptions()
    provider: Annotated[
        Provider, Field(description="who implements the operators; a device offers some")
    ] = "aten"
    measurer: Annotated[
        StageMeasurer,
        Field(
            description="stages one at a time, or several beside each other as DOPpler does; what "
            "is chosen is measured again alone in either case"
        ),
    ] = "serial"
    allow_noise: Annotated[
        bool, Field(description="measure although the machine is busy; the results say so")
    ] = False
    purpose: Annotated[
        Purpose,
        Field(description="tune, only inspect the model's graph, or tune kernels"),
    ] = Purpose.TUNE
    kernels: Annotated[
        KernelOptions | None, Field(description="of a job for kernels, and only of that")
    ] = None

    @field_validator("batch_sizes", "schedulers")
    @classmethod
    def _unique(cls, items: list[Any]) -> list[Any]:
        if len(set(items)) != len(items):
            raise ValueError("each entry may appear once")
        return items

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.purpose is not Purpose.KERNELS:
            if self.kernels is not None:
                raise ValueError(f"kernels: only for a job of purpose kernels, not {self.purpose}")
            if self.model is None:
                raise ValueError("model: name one, as zoo:NAME or upload:ID")
            return self
        if self.kernels is None:
            raise ValueError("kernels: say which tensor programs are tuned and how; {} will do")
        if self.model is None and not self.kernels.programs:
            raise ValueError("model: name one, or tensor programs as kernels.programs")
        if self.model is not None and self.kernels.programs:
            raise ValueError("kernels.programs: name them or a model, not both")
        if len(self.batch_sizes) > 1:
            raise ValueError("batch_sizes: a job for kernels has one")
        return self


class JobCreate(JobSpec):
    """A JobSpec with a label for people."""

    name: Annotated[str, StringConstraints(max_length=200)] = ""


class JobProgress(BaseModel):
    """Stage and step: what the job is doing now, how far, and when it should be done."""

    stage: str = "queued"
    step: int = 0
    steps: int = 0
    message: str = ""
    eta_seconds: float | None = None


class JobProblem(BaseModel):
    """Why a job failed: a kind for programs, a sentence for people, an operator where known."""

    kind: str
    detail: str
    operator: str | None = None


class SkippedContender(BaseModel):
    """A scheduler, provider or alternative that took no part, and why."""

    contender: str
    reason: str


class Faster(BaseModel):
    """An alternative of the user's own that is faster than every schedule."""

    name: str
    latency_ms: float


class FloorRead(BaseModel):
    """A latency in ms below which no schedule of the model's units is expected; an estimate."""

    name: str
    ms: float


class BatchSummary(BaseModel):
    """The winner of one batch size. ``speedup`` is baseline over winner; 1.0 if nothing won.

    ``tied_with`` could not be told apart from the winner, which is preferred to them.
    ``faster_alternative`` is what the user already has and is faster than anything here: keep that.
    ``why`` says in words what the winner gains, ``gap`` which part of its latency lies above the
    highest of the ``floors``.
    """

    batch_size: int
    winner: str
    latency_ms: float
    baseline_ms: float
    speedup: float
    simulated: bool
    tied_with: list[str] = []
    faster_alternative: Faster | None = None
    skipped: list[SkippedContender] = []
    why: list[str] = []
    floors: list[FloorRead] = []
    gap: float | None = None


class JobRead(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: UUID
    name: str
    state: JobState
    spec: JobSpec
    model_name: str
    progress: JobProgress
    problem: JobProblem | None
    summary: list[BatchSummary] | None
    attempt: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    event_seq: int


class JobPage(BaseModel):
    """A keyset page: pass ``next_cursor`` back as ``cursor`` for the following one."""

    items: list[JobRead]
    next_cursor: str | None


class EventType(StrEnum):
    """The ``event:`` field of the SSE stream; the shapes of ``data`` are the classes below."""

    STATE = "state"
    PROGRESS = "progress"
    SEARCH = "search"
    ROUND = "round"
    RESULT = "result"
    LOG = "log"
    TUNING_ROUND = "tuning_round"
    TUNING_KERNEL = "tuning_kernel"


class StateEvent(BaseModel):
    state: JobState
    previous: JobState
    attempt: int
    problem: JobProblem | None = None


SearchEnd = Literal["complete", "optimal", "gap", "converged", "budget"]
"""Everything was measured; the best schedule equals the bound; it is within the gap asked for;
nothing better is expected, which proves nothing; the budget was used up."""


class SearchEvent(BaseModel):
    """Where a search stands. Equal parts of the model (``blocks``) are searched and counted once.

    ``block`` parts are solved. No schedule that the search considers is faster than ``bound_ms``,
    and none at all than ``critical_path_ms``, as long as ``bound_holds``; ``expected_ms`` is only
    what a model expects of the fastest.
    Of ``states_visited`` the fastest schedule is known, as Algorithm 1 of IOS knows it of a state
    that it has visited; what is pruned is in no schedule that beats the best; both follow from the
    bounds, too.
    ``best_ms`` may rise where ``stages_rechecked`` does: what was luck is taken back. ``ended`` is
    null until the last event of a search.
    """

    scheduler: str
    batch_size: int
    elapsed_seconds: float
    block: int
    blocks: int
    states: int
    transitions: int
    stages_measured: int
    stages_total: int
    best_ms: float | None
    bound_ms: float | None = None
    critical_path_ms: float | None = None
    expected_ms: float | None = None
    states_visited: int = 0
    states_pruned: int = 0
    stages_pruned: int = 0
    stages_rechecked: int = 0
    bound_holds: bool = True
    ended: SearchEnd | None = None


class RoundEvent(BaseModel):
    scheduler: str
    batch_size: int
    number: int
    degree_of_parallelism: int
    candidates: int
    timeout_seconds: float
    failures: int
    timeouts: int
    outliers: int
    remeasured: int
    mean_deviation: float
    duration_seconds: float


class ResultEvent(BaseModel):
    scheduler: str
    batch_size: int
    latency_ms: float
    low_ms: float
    high_ms: float
    verified: bool
    simulated: bool


class TuningRoundEvent(BaseModel):
    """A round of measuring kernels of ``program`` is over: its row without trials and spans. Both
    ``trials`` and ``best_ms`` are of that program so far, ``trials_done`` is of the whole job."""

    number: int
    program: str
    batch: int
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
    trials: int
    trials_done: int


class TuningKernelEvent(BaseModel):
    """A program is tuned: its best kernel, measured in isolation, can be downloaded."""

    program: str
    trial: int
    candidate: str
    latency_ms: float
    wall_ms: float


class LogEvent(BaseModel):
    level: Literal["debug", "info", "warning", "error"]
    message: str


class EventRead(BaseModel):
    """One row of ``job_event``; ``seq`` counts from 1 within a job and is the SSE event id."""

    model_config = ConfigDict(from_attributes=True)

    seq: int
    type: EventType
    data: dict[str, Any]
    created_at: datetime
