"""One run of a search: ask what the guide chooses, until it is done, time or the gap ends it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from workers.graph.graph import Graph
from workers.schedulers.base import (
    BUDGET,
    Ended,
    LatencyOracle,
    SearchObserver,
    SearchProgress,
    SearchResult,
)
from workers.schedulers.ios.confirm import ROUNDS, Confirmation
from workers.schedulers.ios.critical import CriticalPath
from workers.schedulers.ios.guides import Exhaustive, Guide, Question
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.options import Strategies, Threads, Way, make_options
from workers.schedulers.ios.parts import Division
from workers.schedules.schedule import Stage, StageSchedule

REFRESHES = 40
"""About how often the best schedule so far is recomputed during a search."""

GROWTH, LARGEST = 32, 512
"""A batch of an exhaustive search is the first part of what was measured, up to so many stages.
With the ProfileIndex in PostgreSQL, looking up and recording takes a third of the time for a stage
in batches of 256 that it takes in batches of 32, and no less in larger ones."""


class Search:
    """The parts of one graph while they are searched."""

    def __init__(
        self,
        graph: Graph,
        division: Division,
        oracle: LatencyOracle,
        strategies: Strategies = "both",
        threads: Threads = "searched",
    ) -> None:
        self._graph, self._division, self._oracle = graph, division, oracle
        self.parts = [
            Knowledge(
                graph, part, make_options(graph, part, strategies, oracle.parallelism, threads)
            )
            for part in division.parts
        ]
        self._occurrences = [len(part.occurrences) for part in division.parts]
        self._total = sum(len(part.options) for part in self.parts)
        self._confirmation = Confirmation(self.parts)
        self._critical = CriticalPath(graph, self.parts)
        self._least_ms: float | None = None
        self._asked = self._out_of_budget = self._not_rechecked = 0
        self._exhaustive = False
        self._guess_ms: float | None = None
        self._ended: Ended | None = None

    def run(self, guide: Guide, batch: int, gap: float | None, observe: SearchObserver) -> None:
        """Measure all single Units, then what ``guide`` chooses until it is done, the budget is
        used up, or the best schedule is within ``gap`` of the bound, if given. Then measure the
        stages of the best schedule again, and go on if that is no longer the end.
        """
        self._exhaustive = isinstance(guide, Exhaustive)
        self._report(observe)
        units = self._single_units()
        in_time = all(
            self._ask(units[start : start + batch]) for start in range(0, len(units), batch)
        )
        self._refresh()
        self._report(observe)
        for _ in range(ROUNDS):
            in_time = in_time and self._explore(guide, batch, gap, observe)
            if not self._recheck(observe):
                break
            self._report(observe)
        self._confirmation.settle()
        self._ended = self._why_ended(gap)
        self._report(observe)

    def _explore(
        self, guide: Guide, batch: int, gap: float | None, observe: SearchObserver
    ) -> bool:
        """Measure what the guide chooses. False if the budget is used up."""
        in_time = True
        refresh = max(batch, self._total // REFRESHES)
        since = 0
        while in_time and not self._close_enough(gap):
            questions = guide.next(self.parts, self._at_once(batch))
            self._guess_ms = guide.expected_ms
            if not questions:
                break
            in_time = self._ask(questions)
            since += len(questions)
            if since >= refresh:
                self._refresh()
                since = 0
            if granted := self._confirmation.grant(self._asked):
                self._refresh()
                self._recheck(observe, granted)
            self._report(observe)
        self._refresh()
        return in_time

    def _at_once(self, batch: int) -> int:
        """How many stages to hand to the oracle. An exhaustive search does not choose by what it
        learns, so that its batches may grow with what was measured: that is quicker where keeping
        a measurement takes longer than computing it, and progress is told of as often."""
        return max(batch, min(self._asked // GROWTH, LARGEST)) if self._exhaustive else batch

    def result(self, scheduler: str) -> SearchResult:
        return SearchResult(
            schedule=StageSchedule(scheduler, tuple(self._stages())),
            predicted_ms=self._best_ms,
            bound_ms=_finite(self._bound_ms),
            critical_path_ms=self._critical_path_ms,
            bound_holds=self._bound_holds,
            expected_ms=self._expected_ms,
            ended=self._ended,
            states_visited=sum(part.standing.visited for part in self.parts),
            states_pruned=sum(part.standing.states_pruned for part in self.parts),
            stages_pruned=sum(part.standing.stages_pruned for part in self.parts),
            states=sum(len(part.part.space.states) for part in self.parts),
            transitions=sum(part.part.space.transitions for part in self.parts),
            stages_measured=self._asked,
            stages_total=self._total,
            stages_rechecked=self._confirmation.rechecked,
            notes=(
                *self._division.notes,
                *self._outside(),
                *self._failures(),
                *self._contradictions(),
                *self._confirmation.notes(),
                *self._expectation(),
            ),
        )

    def _single_units(self) -> list[Question]:
        """All ways to run Units alone, the plain ones first: a schedule for the least budget."""
        found = [
            (index, int(option))
            for index, known in enumerate(self.parts)
            for option in np.flatnonzero(
                np.bitwise_count(known.part.space.stages[known.options.stage]) == 1
            )
        ]
        return sorted(found, key=lambda question: not self._is_plain(question))

    def _is_plain(self, question: Question) -> bool:
        options = self.parts[question[0]].options
        return options.ways[int(options.way[question[1]])] == Way()

    def _ask(self, questions: Sequence[Question]) -> bool:
        """Ask and record. False if the budget is used up: nothing of the batch was known."""
        answers = self._oracle.stage_latencies(
            [self.parts[index].stage(option) for index, option in questions]
        )
        answered = 0
        for (index, option), answer in zip(questions, answers, strict=True):
            if answer.reason == BUDGET:
                self._out_of_budget += 1
            else:
                self.parts[index].record(option, answer)
                answered += 1
        self._asked += answered
        return answered > 0

    def _recheck(self, observe: SearchObserver, limit: int | None = None) -> bool:
        """Ask for the best schedules' stages again. False if none was left, or no time for any."""
        questions = self._confirmation.doubtful()[:limit]
        if not questions:
            return False
        self._report(observe, rechecking=len(questions))
        answers = self._oracle.recheck(
            [self.parts[index].stage(option) for index, option in questions]
        )
        before = self._confirmation.rechecked
        for question, answer in zip(questions, answers, strict=True):
            if answer.reason == BUDGET:
                self._not_rechecked += 1
            else:
                self._confirmation.learn(question, answer)
        self._refresh()
        return self._confirmation.rechecked > before

    def _refresh(self) -> None:
        for known in self.parts:
            known.refresh()
        self._least_ms = self._critical.bound_ms()

    def _close_enough(self, gap: float | None) -> bool:
        best = self._best_ms
        return gap is not None and best is not None and best - self._bound_ms <= gap * best

    def _why_ended(self, gap: float | None) -> Ended:
        if self._asked == self._total:
            return "complete"
        if self._close_enough(0.0) and self._bound_holds:
            return "optimal"
        if self._close_enough(gap):
            return "gap"
        return "budget" if self._out_of_budget or self._not_rechecked else "converged"

    @property
    def _bound_holds(self) -> bool:
        """Whether nothing that was measured contradicts the bound; if all was, none is needed."""
        return self._asked == self._total or all(known.standing.bound_holds for known in self.parts)

    @property
    def _best_ms(self) -> float | None:
        return _finite(
            sum(
                known.standing.best.latency_ms * count
                for known, count in zip(self.parts, self._occurrences, strict=True)
            )
        )

    @property
    def _expected_ms(self) -> float | None:
        """What the guide expected of the optimum before it last asked; no more than was found."""
        best, guess = self._best_ms, self._guess_ms
        return guess if best is None or guess is None else min(best, guess)

    @property
    def _bound_ms(self) -> float:
        return sum(
            known.standing.bound_ms * count
            for known, count in zip(self.parts, self._occurrences, strict=True)
        )

    @property
    def _critical_path_ms(self) -> float | None:
        """None, too, if what was measured is faster: then it is no bound."""
        best, least = self._best_ms, self._least_ms
        if best is None or least is None:
            return least
        return None if least > best * (1 + 1e-9) else min(least, best)

    def _stages(self) -> Iterator[Stage]:
        for index, positions in self._division.order:
            known = self.parts[index]
            for stage in known.standing.best.stages:
                yield known.stage_at(known.best_option(stage), positions)

    def _report(self, observe: SearchObserver, rechecking: int = 0) -> None:
        standings = [known.standing for known in self.parts]
        observe(
            SearchProgress(
                block=sum(standing.bound_ms >= standing.best.latency_ms for standing in standings),
                blocks=len(self.parts),
                states=sum(len(known.part.space.states) for known in self.parts),
                transitions=sum(known.part.space.transitions for known in self.parts),
                stages_measured=self._asked,
                stages_total=self._total,
                stages_rechecked=self._confirmation.rechecked,
                best_ms=self._best_ms,
                bound_ms=_finite(self._bound_ms),
                critical_path_ms=self._critical_path_ms,
                bound_holds=self._bound_holds,
                expected_ms=self._expected_ms,
                states_visited=sum(standing.visited for standing in standings),
                states_pruned=sum(standing.states_pruned for standing in standings),
                stages_pruned=sum(standing.stages_pruned for standing in standings),
                remaining=self._total - self._asked if self._exhaustive else None,
                rechecking=rechecking,
                ended=self._ended,
            )
        )

    def _expectation(self) -> Iterator[str]:
        """What is known of a result that a model chose."""
        best, bound, expected = self._best_ms, self._bound_ms, self._expected_ms
        if best is None or expected is None or self._ended in ("complete", "optimal"):
            return
        kind = "the proven bound" if self._bound_holds else "a bound that is not proven either"
        within = f"it is within {1 - bound / best:.1%} of {kind}, and " if best > 0 else ""
        yield (
            f"the schedule is not proven to be the fastest: {within}a model fitted to"
            f" {self._asked} measured stages expects no schedule below {expected:.4g} ms"
        )

    def _outside(self) -> Iterator[str]:
        """What is known of the schedules that are not in the search space, if there are such."""
        least = self._critical_path_ms
        if self._division.notes and least is not None and self._bound_holds:
            yield (
                f"no schedule of stages at all is faster than {least:.4g} ms: the critical path,"
                " its units one after the other"
            )

    def _contradictions(self) -> Iterator[str]:
        """That the bound is not proven, if measurements contradict what it is made of."""
        if not self._bound_holds:
            count = sum(known.floors.violations for known in self.parts)
            worst = max(known.floors.worst for known in self.parts)
            yield (
                f"the bound is not proven: {count} of {self._asked} measured stages were slower"
                f" than a larger one, or faster than their parts add up to, by up to {worst:.1%}"
            )

    def _failures(self) -> Iterator[str]:
        """One note for each reason that stages have no latency, with an example."""
        reasons: Counter[str] = Counter()
        example: dict[str, str] = {}
        for known in self.parts:
            for option, reason in known.failures.items():
                reasons[reason] += 1
                groups = known.stage(option).groups
                example.setdefault(reason, " | ".join(" ".join(group) for group in groups))
        for reason, count in reasons.items():
            yield f"{count} of {self._total} stages failed: {reason} (first: {example[reason]})"
        if self._out_of_budget:
            left = self._total - self._asked
            yield f"the budget was used up with {left} of {self._total} stages not measured"


def _finite(latency_ms: float) -> float | None:
    """None instead of an infinite latency, which is that of a graph that cannot be run."""
    return latency_ms if math.isfinite(latency_ms) else None
