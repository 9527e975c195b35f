"""Why a search says that it ended, and that it says so once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import Dag, dags, graph_of, wide
from support.oracles import FakeClockOracle, longest_group
from support.shared_device import SharedDevice

from workers.schedulers.base import BUDGET, Ended, SearchProgress, SearchResult, StageLatency
from workers.schedulers.ios import IosScheduler
from workers.schedulers.ios.scheduler import Mode
from workers.schedules.schedule import Stage

DAG = wide(5)


class Impatient(FakeClockOracle):
    """Has no time to measure anything again."""

    def recheck(self, stages: Sequence[Stage]) -> list[StageLatency]:
        return [StageLatency(math.inf, BUDGET) for _ in stages]


def contended(stage: Stage) -> float:
    """A device with room for two groups, which takes a moment to start a stage."""
    return 0.1 + max(longest_group(stage), sum(len(group) for group in stage.groups) / 2)


def contradictory(stage: Stage) -> float:
    """A device on which three groups take less time than two of them."""
    return contended(stage) if len(stage.groups) != 3 else 0.3


def search(oracle: FakeClockOracle, mode: Mode, gap: float = 0.0) -> SearchResult:
    """The result; its ending is in the last report, and in no other."""
    reports: list[SearchProgress] = []
    scheduler = IosScheduler(strategies="parallel", threads="device", mode=mode, gap=gap, batch=2)
    result = scheduler.schedule(graph_of(DAG), oracle, reports.append)
    assert [report.ended for report in reports[:-1]] == [None] * (len(reports) - 1)
    last = reports[-1]
    assert (last.ended, last.bound_holds) == (result.ended, result.bound_holds)
    assert (last.bound_ms, last.states_visited) == (result.bound_ms, result.states_visited)
    return result


@pytest.mark.parametrize(
    ("mode", "gap", "ended"),
    [
        ("exhaustive", 0.0, "complete"),
        ("exhaustive", 0.5, "complete"),
        ("exact", 0.0, "optimal"),
        ("exact", 0.5, "gap"),
        ("guided", 0.5, "gap"),
    ],
)
def test_a_search_with_time_ends_as_its_mode_says(mode: Mode, gap: float, ended: Ended) -> None:
    result = search(FakeClockOracle(contended), mode, gap)
    assert result.ended == ended
    assert result.bound_holds
    assert (result.states_visited == result.states) == (ended == "complete")
    assert result.predicted_ms is not None
    assert result.bound_ms is not None
    assert result.predicted_ms - result.bound_ms <= gap * result.predicted_ms + 1e-9


@pytest.mark.parametrize("mode", ["exhaustive", "exact", "guided"])
def test_a_search_without_time_says_so(mode: Mode) -> None:
    assert search(FakeClockOracle(contended, budget=8), mode).ended == "budget"


def test_no_time_to_measure_again_is_no_time() -> None:
    assert search(FakeClockOracle(contradictory), "exact").ended == "converged"
    assert search(Impatient(contradictory), "exact").ended == "budget"


def test_nothing_is_called_optimal_once_a_stage_was_faster_than_its_bound() -> None:
    result = search(FakeClockOracle(contradictory), "exact")
    assert not result.bound_holds
    assert result.ended == "converged"
    everything = search(FakeClockOracle(contradictory), "exhaustive")
    assert everything.bound_holds
    assert everything.ended == "complete"


@settings(deadline=None, max_examples=30)
@given(
    dags(max_units=7),
    st.integers(0, 10**6),
    st.sampled_from(["exhaustive", "exact", "guided"]),
    st.integers(0, 60),
    st.sampled_from([0.0, 0.1]),
)
def test_at_every_moment_the_optimum_is_between_the_bound_and_the_best(
    dag: Dag, seed: int, mode: Mode, budget: int, gap: float
) -> None:
    """And neither gets worse, whenever the time is up."""
    graph = graph_of(dag)
    device = SharedDevice(seed, graph)
    optimum = IosScheduler(2, 3).schedule(graph, FakeClockOracle(device)).predicted_ms
    reports: list[SearchProgress] = []
    oracle = FakeClockOracle(device, budget)
    IosScheduler(2, 3, mode=mode, gap=gap, batch=3).schedule(graph, oracle, reports.append)
    bests = [math.inf if report.best_ms is None else report.best_ms for report in reports]
    bounds = [0.0 if report.bound_ms is None else report.bound_ms for report in reports]
    assert optimum is not None
    assert bests == sorted(bests, reverse=True)
    assert bounds == sorted(bounds)
    assert bounds[-1] <= optimum <= bests[-1]
