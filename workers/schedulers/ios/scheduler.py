"""IOS, the Inter-Operator Scheduler: a dynamic program over endings (Section 4, Algorithm 1).

Where this departs from the published algorithm, and why:

- States, transitions and distinct stages are enumerated first (``space``); stages are measured in
  the order that a guide chooses (``guides``), in batches that may be measured in parallel. A
  schedule of measured stages and a lower bound are known all along.
- Blocks with equal structure are searched and measured once.
- Of equal latencies concurrent execution wins over a merge, where GenerateStage takes the merge.
- On a CPU a stage's groups may have other numbers of threads than the device gives them.
- Equal latencies go to the schedule with fewer stages, then to the last stage whose bit mask is
  larger (its Units come later in the graph's order), so that the answer is always the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from workers.graph.graph import Graph
from workers.schedulers.base import (
    LatencyOracle,
    SchedulerError,
    SearchObserver,
    SearchResult,
    ignore_progress,
)
from workers.schedulers.endings import Convention, Pruning
from workers.schedulers.ios.exact import Exact
from workers.schedulers.ios.guided import Guided
from workers.schedulers.ios.guides import Exhaustive, Guide
from workers.schedulers.ios.options import Strategies, Threads
from workers.schedulers.ios.parts import divide
from workers.schedulers.ios.search import Search

Mode = Literal["exhaustive", "exact", "guided"]
"""Which stages are measured: all of them, those that admissible bounds cannot exclude, or those
that a model of contention expects to be good."""


@dataclass(frozen=True, slots=True)
class IosScheduler:
    """IOS with pruning P(r, s): r ``max_units_per_group``, s ``max_groups_per_stage``.

    ``batch`` stages are handed to the oracle at a time, more as an exhaustive search goes on. A
    search that is not exhaustive ends when its schedule is proven to be within ``gap`` (0.01 is
    1 %) of the optimum of the search space; an exact one without a gap puts its bound to the test
    first. A block with more than ``max_transitions`` is pruned further, and if that does not help
    searched in pieces, which loses schedules: the result says so in its notes.

    Raises SchedulerError for a value that cannot be.
    """

    max_units_per_group: int = 3
    max_groups_per_stage: int = 8
    strategies: Strategies = "both"
    threads: Threads = "searched"
    mode: Mode = "exhaustive"
    gap: float = 0.0
    convention: Convention = "paper"
    batch: int = 32
    max_transitions: int = 4_000_000

    def __post_init__(self) -> None:
        for option in ("max_units_per_group", "max_groups_per_stage", "batch", "max_transitions"):
            value = getattr(self, option)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SchedulerError(f"ios: {option} is {value!r}; it must be an integer ≥ 1")
        for option, kind in (
            ("strategies", Strategies),
            ("threads", Threads),
            ("mode", Mode),
            ("convention", Convention),
        ):
            known = get_args(kind)
            if getattr(self, option) not in known:
                choices = " or ".join(map(repr, known))
                raise SchedulerError(
                    f"ios: {option} is {getattr(self, option)!r}; it must be {choices}"
                )
        if isinstance(self.gap, bool) or not 0 <= self.gap < 1:
            raise SchedulerError(f"ios: gap is {self.gap!r}; it must be from 0 to below 1")

    @property
    def name(self) -> str:
        return "ios"

    def schedule(
        self, graph: Graph, oracle: LatencyOracle, observe: SearchObserver = ignore_progress
    ) -> SearchResult:
        pruning = Pruning(self.max_units_per_group, self.max_groups_per_stage)
        division = divide(graph, pruning, self.convention, self.max_transitions)
        search = Search(graph, division, oracle, self.strategies, self.threads)
        # An exact search does not end when its gap is closed: it then puts its bound to the test.
        ends_by_itself = self.mode == "exhaustive" or (self.mode == "exact" and self.gap == 0)
        gap = None if ends_by_itself else self.gap
        search.run(self._guide(), self.batch, gap, observe)
        return search.result(self.name)

    def _guide(self) -> Guide:
        guides: dict[Mode, Callable[[], Guide]] = {
            "exhaustive": Exhaustive,
            "exact": Exact,
            "guided": Guided,
        }
        return guides[self.mode]()
