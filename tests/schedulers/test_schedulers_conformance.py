"""What holds for every scheduler. A new one joins by its name in the registry."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, chain, dags, graph_of, wide
from support.oracles import FakeClockOracle, longest_group, random_latency

from workers import schedulers
from workers.graph.graph import Graph
from workers.schedulers.base import SchedulerError, SearchProgress
from workers.schedules.lower import lower
from workers.schedules.schedule import Schedule, StageSchedule, StreamSchedule
from workers.schedules.validate import validate


@pytest.fixture(scope="module", params=schedulers.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def check(graph: Graph, schedule: Schedule) -> None:
    """Each Unit once, after its predecessors, and a right Plan comes of it."""
    assert sorted(schedule.units) == sorted(unit.name for unit in graph.units)
    if isinstance(schedule, StageSchedule):
        check_stages(graph, schedule)
    else:
        check_streams(graph, schedule)
    for parallelism in (1, 5):
        validate(lower(schedule, graph, parallelism), graph)


def check_stages(graph: Graph, schedule: StageSchedule) -> None:
    """A Unit's predecessors are in earlier stages or earlier in its group."""
    done: set[str] = set()
    for stage in schedule.stages:
        assert all(stage.groups)
        finished = set(stage.units)
        for group in stage.groups:
            seen = set(done)
            for unit in group:
                before = graph.predecessors[graph.index[unit]]
                assert {graph.units[position].name for position in before} <= seen
                seen.add(unit)
        done |= finished


def check_streams(graph: Graph, schedule: StreamSchedule) -> None:
    """The launch order is topological, and streams are numbered from 0 without gaps."""
    seen: set[str] = set()
    for unit in schedule.units:
        before = graph.predecessors[graph.index[unit]]
        assert {graph.units[position].name for position in before} <= seen
        seen.add(unit)
    streams = {placement.stream for placement in schedule.placements}
    assert streams == set(range(len(streams)))
    assert len(schedule.threads) in (0, len(streams))


@pytest.mark.parametrize(
    "dag", [chain(1), chain(12), wide(10), DIAMOND], ids=["single", "chain", "wide", "diamond"]
)
def test_shapes(name: str, dag: Dag) -> None:
    graph = graph_of(dag)
    check(graph, schedulers.create(name).schedule(graph, FakeClockOracle(longest_group)).schedule)


@settings(deadline=None)
@given(dag=dags(max_units=9), seed=st.integers(0, 10**6))
def test_random_graphs_twice(name: str, dag: Dag, seed: int) -> None:
    graph = graph_of(dag)
    scheduler = schedulers.create(name)
    first = scheduler.schedule(graph, FakeClockOracle(random_latency(seed, graph)))
    check(graph, first.schedule)
    assert first.schedule.scheduler == name
    assert scheduler.schedule(graph, FakeClockOracle(random_latency(seed, graph))) == first


@pytest.mark.parametrize("budget", [0, 3, 12, 20])
def test_a_schedule_exists_when_the_budget_is_used_up(name: str, budget: int) -> None:
    graph = graph_of(wide(10))
    result = schedulers.create(name).schedule(graph, FakeClockOracle(longest_group, budget))
    check(graph, result.schedule)
    assert result.predicted_ms is None or math.isfinite(result.predicted_ms)


def test_progress_only_grows(name: str) -> None:
    told: list[SearchProgress] = []
    graph = graph_of(wide(6))
    result = schedulers.create(name).schedule(graph, FakeClockOracle(longest_group), told.append)
    assert told == sorted(told, key=lambda progress: progress.stages_measured)
    if told:
        assert told[-1].best_ms == result.predicted_ms
        assert told[-1].stages_measured == result.stages_measured
        bests = [progress.best_ms for progress in told if progress.best_ms is not None]
        assert bests == sorted(bests, reverse=True)


def test_an_unknown_option_is_named(name: str) -> None:
    with pytest.raises(SchedulerError, match="no option 'depth'"):
        schedulers.create(name, {"depth": 3})


def test_an_unknown_scheduler_is_named() -> None:
    with pytest.raises(SchedulerError, match=f"'magic'; known: {', '.join(schedulers.names())}"):
        schedulers.create("magic")


@pytest.mark.parametrize(
    "options",
    [
        {"max_units_per_group": 0},
        {"max_groups_per_stage": 0},
        {"max_groups_per_stage": 2.5},
        {"gap": 1.0},
        {"batch": True},
        {"convention": "author's"},
    ],
)
def test_a_wrong_value_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SchedulerError, match=next(iter(options))):
        schedulers.create("ios", options)
