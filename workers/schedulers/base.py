"""The two interfaces of scheduling: what a scheduler is, and what it may ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workers.graph.graph import Graph
from workers.schedules.schedule import Schedule, Stage


class SchedulerError(ValueError):
    """A scheduler that cannot handle this graph or these options; says which and what to do."""


@dataclass(frozen=True, slots=True)
class StageLatency:
    """A stage's latency, or infinity with the reason it has none (failed, budget used up)."""

    latency_ms: float
    reason: str | None = None


class LatencyOracle(Protocol):
    """Answers what a scheduler asks. Behind it stand a measurer, a device and the ProfileIndex."""

    @property
    def parallelism(self) -> int:
        """How many groups the device can really run at once (cores of a CPU)."""
        ...

    def stage_latencies(self, stages: Sequence[Stage]) -> Sequence[StageLatency]:
        """Latency of each stage alone, in the order given. A batch may be measured in parallel."""
        ...


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """Where a search stands. ``stages_total`` is the number of distinct stages known so far;
    ``best_ms`` is the whole graph's best predicted latency once one is known."""

    block: int
    blocks: int
    states: int
    transitions: int
    stages_measured: int
    stages_total: int
    best_ms: float | None


class SearchObserver(Protocol):
    """Told of progress; must be cheap. The null observer is ``ignore_progress``."""

    def __call__(self, progress: SearchProgress) -> None: ...


def ignore_progress(progress: SearchProgress) -> None:
    """The observer that observes nothing."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A schedule with what finding it took. ``predicted_ms`` sums its stages' latencies."""

    schedule: Schedule
    predicted_ms: float | None
    states: int = 0
    transitions: int = 0
    stages_measured: int = 0
    stages_total: int = 0
    notes: tuple[str, ...] = ()


class Scheduler(Protocol):
    """A pure function of a Graph and a LatencyOracle."""

    @property
    def name(self) -> str: ...

    def schedule(
        self, graph: Graph, oracle: LatencyOracle, observe: SearchObserver = ignore_progress
    ) -> SearchResult:
        """Find a schedule of ``graph``. Raises SchedulerError when it cannot."""
        ...
