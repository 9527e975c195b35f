"""The two interfaces of scheduling: what a scheduler is, and what it may ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from workers.graph.graph import Graph
from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel
from workers.hardware.roofline import Roofline
from workers.schedules.schedule import Schedule, Stage


class SchedulerError(ValueError):
    """A scheduler that cannot handle this graph or these options; says which and what to do."""


BUDGET = "budget"
"""The reason of a stage that was not measured because the time to search is used up."""


@dataclass(frozen=True, slots=True)
class StageLatency:
    """A stage's latency, or infinity with the reason it has none (it failed, or BUDGET). A latency
    with the reason BUDGET was not measured once more."""

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

    def recheck(self, stages: Sequence[Stage]) -> Sequence[StageLatency]:
        """Measure stages once more, in turns, and answer from that alone.

        The fastest of many noisy measurements looks faster than it is; a search asks this of the
        stages it has chosen. Where latencies are computed, the answer is as before. So it is for
        stages for which no time is left, with the reason BUDGET beside the latency.
        """
        ...

    @property
    def providers(self) -> Sequence[str | None]:
        """Whose kernels the schedules of ``expected_latencies`` may name for each Unit. None, the
        job's own, is first."""
        ...

    @property
    def gpu(self) -> GpuFacts | None:
        """What the GPU, real or simulated, is made of; None on a CPU."""
        ...

    def roofline(self) -> Roofline:
        """The device's measured ceilings for the graph's element type."""
        ...

    def unit_profiles(self) -> Mapping[str, tuple[Kernel, ...]]:
        """The kernels of every Unit by its name, from one profiled inference that launches the
        Units one after the other; empty for a Unit that launches none. On a CPU a kernel is an
        operator, without grid and the like. Raises SchedulerError if the model cannot be run."""
        ...

    def schedule_latencies(self, schedules: Sequence[Schedule]) -> Sequence[StageLatency]:
        """Latency of the whole graph under each schedule, lowered to a Plan, in the order given.
        Infinite with the reason where that fails, or BUDGET."""
        ...

    def expected_latencies(self, schedules: Sequence[Schedule]) -> Sequence[float]:
        """What a model of the device, calibrated with the Units' measured profiles, expects of each
        schedule in ms: exact where time is simulated, elsewhere an estimate that is never reported
        as a latency. For searches that ask for thousands. Infinite where nothing can be expected;
        raises SchedulerError where there is no model of the device."""
        ...


Ended = Literal["complete", "optimal", "gap", "converged", "budget"]
"""Why a search ended: everything was measured, the best schedule equals its bound, it is within the
gap that was asked for, nothing better is expected (which proves nothing), or the budget was used
up."""


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """Where a search stands, over all parts of the graph; equal parts count once.

    ``block`` of ``blocks`` parts are solved: their best schedule equals their bound. A stage that
    can be run in several ways counts as often in ``stages_...``; ``stages_measured`` have an
    answer, ``stages_pruned`` need none, because no schedule with them beats the best one.
    Of ``states_visited`` the fastest schedule is known, through ``states_pruned`` no schedule of
    the whole beats the best; both follow from the bounds, too.
    ``best_ms`` is the whole graph's best predicted latency once one is known, and no schedule
    within the search space is faster than ``bound_ms``, provided that the bounds of the stages not
    measured hold; ``bound_holds`` unless measured stages contradict what it follows
    from. It is lowered then by as much as they do, until something that they do not contradict
    proves the best schedule optimal.
    Provided the same, no schedule of stages at all is faster than ``critical_path_ms``, however
    the space was pruned or divided; it is known once all single Units are measured.
    ``best_ms`` never rises but where ``stages_rechecked`` grew, and in the last report: luck is
    taken back there. ``expected_ms`` is what a model expects of the optimum, if the search has one.
    ``remaining`` stages are still to be measured, if the search knows that. ``rechecking`` stages
    are measured again from this report to the next, which may take long. ``ended`` is set in the
    last report of a search, and in no other.
    """

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
    bound_holds: bool = True
    remaining: int | None = None
    rechecking: int = 0
    ended: Ended | None = None
    stages_rechecked: int = 0


class SearchObserver(Protocol):
    """Told of progress; must be cheap. The null observer is ``ignore_progress``."""

    def __call__(self, progress: SearchProgress) -> None: ...


def ignore_progress(progress: SearchProgress) -> None:
    """The observer that observes nothing."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A schedule with what finding it took. ``predicted_ms`` sums its stages' latencies, and no
    schedule within the search space is faster than ``bound_ms``, as in SearchProgress: one that was
    pruned, or that spans the pieces of a divided block, is bounded by ``critical_path_ms`` alone.
    ``ended`` is None for a scheduler that does not search."""

    schedule: Schedule
    predicted_ms: float | None
    bound_ms: float | None = None
    critical_path_ms: float | None = None
    bound_holds: bool = True
    expected_ms: float | None = None
    ended: Ended | None = None
    states_visited: int = 0
    states_pruned: int = 0
    stages_pruned: int = 0
    states: int = 0
    transitions: int = 0
    stages_measured: int = 0
    stages_total: int = 0
    stages_rechecked: int = 0
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
