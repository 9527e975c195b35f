"""IOS, the Inter-Operator Scheduler: a dynamic program over endings (Section 4, Algorithm 1).

Where this departs from the published algorithm, and why:

- States, transitions and distinct stages are enumerated first and the oracle is asked for the
  stages in batches, small stages first. A batch can be measured in parallel, the best schedule so
  far is known all along, and a search whose time is up still has every single Unit measured.
- Blocks with equal structure are searched and measured once.
- Stages are executed concurrently; operator merge (lines 29-36) is not tried.
- Equal latencies go to the schedule with fewer stages, then to the last stage whose bit mask is
  larger (its Units come later in the graph's order), so that the answer is always the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workers.graph.graph import Graph
from workers.schedulers.base import (
    LatencyOracle,
    SchedulerError,
    SearchObserver,
    SearchProgress,
    SearchResult,
    StageLatency,
    ignore_progress,
)
from workers.schedulers.endings import Convention, Pruning, SearchSpace
from workers.schedulers.parts import Division, divide
from workers.schedules.schedule import StageSchedule

REFRESHES = 40
"""About how often the best schedule so far is recomputed during a search."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The stages of a best schedule, first to last; its latency is infinite if a Unit has none."""

    latency_ms: float
    stages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IosScheduler:
    """IOS with pruning P(r, s): r ``max_units_per_group``, s ``max_groups_per_stage``.

    ``batch`` stages are handed to the oracle at a time. A block with more than ``max_transitions``
    is searched in pieces. Raises SchedulerError for a bound below 1 or an unknown convention.
    """

    max_units_per_group: int = 3
    max_groups_per_stage: int = 8
    convention: Convention = "paper"
    batch: int = 8
    max_transitions: int = 2_000_000

    def __post_init__(self) -> None:
        for option in ("max_units_per_group", "max_groups_per_stage", "batch", "max_transitions"):
            value = getattr(self, option)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SchedulerError(f"ios: {option} is {value!r}; it must be an integer ≥ 1")
        if self.convention not in ("paper", "published"):
            raise SchedulerError(
                f"ios: convention is {self.convention!r}; it must be 'paper' or 'published'"
            )

    @property
    def name(self) -> str:
        return "ios"

    def schedule(
        self, graph: Graph, oracle: LatencyOracle, observe: SearchObserver = ignore_progress
    ) -> SearchResult:
        pruning = Pruning(self.max_units_per_group, self.max_groups_per_stage)
        search = _Search(graph, divide(graph, pruning, self.convention, self.max_transitions))
        refresh = max(self.batch, len(search.stages) // REFRESHES)
        search.report(observe)
        for start in range(0, len(search.stages), self.batch):
            search.ask(oracle, start, start + self.batch)
            if start // refresh != (start + self.batch) // refresh:
                search.solve()
            search.report(observe)
        search.solve()
        search.report(observe)
        return search.result(self.name)


def solve(space: SearchSpace, latencies: Mapping[int, float]) -> Solution:
    """Algorithm 1, lines 16-25, with GenerateStage answered by ``latencies``: the cheapest way to
    run everything as a sequence of stages. A stage that is missing or infinite is not taken,
    unless a Unit has no finite latency alone or together: then the Units run one by one.
    """
    cost: dict[int, float] = {0: 0.0}
    depth: dict[int, int] = {0: 0}
    choice: dict[int, int] = {}
    for state, endings in space.endings.items():
        best, fewest, chosen = math.inf, 0, 0
        for ending in endings:
            rest = state ^ ending
            latency = cost[rest] + latencies.get(ending, math.inf)
            if latency < best or (
                latency == best != math.inf and (depth[rest] + 1, -ending) < (fewest, -chosen)
            ):
                best, fewest, chosen = latency, depth[rest] + 1, ending
        cost[state], depth[state], choice[state] = best, fewest, chosen
    if cost[space.everything] == math.inf:
        return Solution(math.inf, tuple(1 << unit for unit in range(space.units)))
    stages: list[int] = []
    state = space.everything
    while state:
        stages.append(choice[state])
        state ^= choice[state]
    return Solution(cost[space.everything], tuple(reversed(stages)))


class _Search:
    """What one search knows: the latencies answered so far and the solutions they allow."""

    def __init__(self, graph: Graph, division: Division) -> None:
        self._graph, self._division = graph, division
        self._answers: list[dict[int, StageLatency]] = [{} for _ in division.parts]
        self._solutions = [
            Solution(math.inf, tuple(1 << unit for unit in range(part.space.units)))
            for part in division.parts
        ]
        self._changed: set[int] = set()
        self._measured = 0
        self.stages: list[tuple[int, int]] = sorted(
            (
                (index, stage)
                for index, part in enumerate(division.parts)
                for stage in part.space.stages
            ),
            key=lambda entry: (entry[1].bit_count(), entry[0], entry[1]),
        )

    def ask(self, oracle: LatencyOracle, start: int, end: int) -> None:
        """Ask for the latencies of ``stages[start:end]``."""
        batch = self.stages[start:end]
        parts = self._division.parts
        answers = oracle.stage_latencies(
            [
                parts[index].stage(self._graph, mask, parts[index].occurrences[0])
                for index, mask in batch
            ]
        )
        for (index, mask), answer in zip(batch, answers, strict=True):
            self._answers[index][mask] = answer
            self._changed.add(index)
            self._measured += math.isfinite(answer.latency_ms)

    def solve(self) -> None:
        """Bring the solution of each part with new latencies up to date."""
        for index in sorted(self._changed):
            latencies = {mask: answer.latency_ms for mask, answer in self._answers[index].items()}
            self._solutions[index] = solve(self._division.parts[index].space, latencies)
        self._changed.clear()

    @property
    def _predicted_ms(self) -> float | None:
        total = sum(self._solutions[index].latency_ms for index, _ in self._division.order)
        return total if math.isfinite(total) else None

    def _answered(self) -> Iterator[tuple[int, int, StageLatency]]:
        for index, mask in self.stages:
            if mask in self._answers[index]:
                yield index, mask, self._answers[index][mask]

    def report(self, observe: SearchObserver) -> None:
        parts = self._division.parts
        complete = sum(
            len(answers) == len(part.space.stages)
            for part, answers in zip(parts, self._answers, strict=True)
        )
        observe(
            SearchProgress(
                block=complete,
                blocks=len(parts),
                states=sum(part.space.states for part in parts),
                transitions=sum(part.space.transitions for part in parts),
                stages_measured=self._measured,
                stages_total=len(self.stages),
                best_ms=self._predicted_ms,
            )
        )

    def result(self, scheduler: str) -> SearchResult:
        parts = self._division.parts
        return SearchResult(
            schedule=StageSchedule(
                scheduler,
                tuple(
                    parts[index].stage(self._graph, mask, positions)
                    for index, positions in self._division.order
                    for mask in self._solutions[index].stages
                ),
            ),
            predicted_ms=self._predicted_ms,
            states=sum(part.space.states for part in parts),
            transitions=sum(part.space.transitions for part in parts),
            stages_measured=self._measured,
            stages_total=len(self.stages),
            notes=(*self._division.notes, *self._failures()),
        )

    def _failures(self) -> Iterator[str]:
        """One note for each reason that stages have no latency, with an example."""
        reasons: Counter[str] = Counter()
        example: dict[str, str] = {}
        for index, mask, answer in self._answered():
            if not math.isfinite(answer.latency_ms):
                reason = answer.reason or "no reason given"
                reasons[reason] += 1
                part = self._division.parts[index]
                stage = part.stage(self._graph, mask, part.occurrences[0])
                example.setdefault(reason, " | ".join(" ".join(group) for group in stage.groups))
        total = len(self.stages)
        for reason, count in reasons.items():
            yield f"{count} of {total} stages not measured: {reason} (first: {example[reason]})"
