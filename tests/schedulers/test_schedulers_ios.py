"""IOS: the optimum, found with as few questions as possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ios_table1 import INCEPTION_V3
from support.graphs import DIAMOND, Dag, dag_of, dags, graph_of, successors_of, wide
from support.oracles import FakeClockOracle, longest_group, random_latency

from workers.graph.bitsets import bits
from workers.graph.blocks import blocks
from workers.graph.graph import Graph
from workers.schedulers.base import SearchProgress
from workers.schedulers.endings import components
from workers.schedulers.greedy import GreedyScheduler
from workers.schedulers.ios import IosScheduler
from workers.schedules.schedule import Stage

UNBOUNDED = {"max_units_per_group": 64, "max_groups_per_stage": 64}


def stage_of(graph: Graph, units: int, successors: Dag) -> Stage:
    return Stage(
        groups=tuple(
            tuple(graph.units[unit].name for unit in bits(group))
            for group in components(units, successors)
        )
    )


def every_schedule(graph: Graph, dag: Dag) -> Iterator[tuple[Stage, ...]]:
    """Every partition of the graph into stages that respects the dependencies."""
    successors = successors_of(dag)

    def continuations(done: int) -> Iterator[tuple[Stage, ...]]:
        left = ~done & ((1 << len(dag)) - 1)
        if not left:
            yield ()
        stage = left
        while stage:
            if all((done | stage) >> before & 1 for unit in bits(stage) for before in dag[unit]):
                for rest in continuations(done | stage):
                    yield (stage_of(graph, stage, successors), *rest)
            stage = (stage - 1) & left

    return continuations(0)


def best_of_all(
    graph: Graph, dag: Dag, latency_of: Callable[[Stage], float], r: int = 64, s: int = 64
) -> float:
    """The least latency of all schedules within P(r, s) whose stages keep to one block each."""
    parts = [{graph.units[p].name for p in block.positions} for block in blocks(graph)]
    return min(
        sum(latency_of(stage) for stage in stages)
        for stages in every_schedule(graph, dag)
        if all(len(stage.groups) <= s for stage in stages)
        if all(len(group) <= r for stage in stages for group in stage.groups)
        if all(any(part.issuperset(stage.units) for part in parts) for stage in stages)
    )


@settings(deadline=None)
@given(dags(max_units=6), st.integers(0, 10**6))
def test_the_optimum_of_all_schedules(dag: Dag, seed: int) -> None:
    graph = graph_of(dag)
    latency_of = random_latency(seed, graph)
    result = IosScheduler(**UNBOUNDED).schedule(graph, FakeClockOracle(latency_of))
    assert result.predicted_ms == best_of_all(graph, dag, latency_of)
    assert result.predicted_ms == sum(latency_of(stage) for stage in result.schedule.stages)


@settings(deadline=None)
@given(dags(max_units=6), st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 3))
def test_the_optimum_under_pruning(dag: Dag, seed: int, r: int, s: int) -> None:
    graph = graph_of(dag)
    latency_of = random_latency(seed, graph)
    result = IosScheduler(r, s).schedule(graph, FakeClockOracle(latency_of))
    assert result.predicted_ms == best_of_all(graph, dag, latency_of, r, s)


def test_the_example_of_figure_5() -> None:
    """a → b, and c apart: six states, and the counts of the figure's transitions."""
    graph = graph_of(((), (0,), ()))
    result = IosScheduler(**UNBOUNDED).schedule(graph, FakeClockOracle(longest_group))
    assert result.states == 6
    assert result.transitions == 12
    assert result.predicted_ms == 2.0
    assert result.schedule.stages == (Stage(groups=(("u0", "u1"), ("u2",))),)


def test_ties_go_to_fewer_stages() -> None:
    graph = graph_of(((), (0,), ()))
    result = IosScheduler(3, 1).schedule(graph, FakeClockOracle(lambda _: 2.0))
    assert result.predicted_ms == 4.0
    sums = FakeClockOracle(lambda stage: float(len(stage.units)))
    assert IosScheduler().schedule(graph, sums).schedule.stages == (
        Stage(groups=(("u0", "u1"), ("u2",))),
    )


def test_further_ties_keep_the_order_of_the_graph() -> None:
    graph = graph_of(tuple(() for _ in range(4)))
    result = IosScheduler(1, 1).schedule(graph, FakeClockOracle(longest_group))
    assert result.schedule.units == ("u0", "u1", "u2", "u3")


def test_it_beats_greedy_where_greedy_is_wrong() -> None:
    """The paper's Figure 2: three Units fit side by side only at a loss."""
    graph = graph_of(((), (0,), (), ()))

    def crowded(stage: Stage) -> float:
        return longest_group(stage) * (1.0 if len(stage.groups) <= 2 else 2.0)

    greedy = GreedyScheduler().schedule(graph, FakeClockOracle(crowded)).schedule
    found = IosScheduler().schedule(graph, FakeClockOracle(crowded))
    assert sum(crowded(stage) for stage in greedy.stages) == 3.0
    assert found.predicted_ms == 2.0


def test_each_distinct_stage_is_asked_once_small_ones_first() -> None:
    graph = graph_of(dag_of(INCEPTION_V3.successors))
    oracle = FakeClockOracle(longest_group)
    result = IosScheduler(strategies="parallel", batch=50).schedule(graph, oracle)
    sizes = [len(stage.units) for stage in oracle.asked]
    assert sizes == sorted(sizes)
    assert len({frozenset(stage.units) for stage in oracle.asked}) == len(oracle.asked) == 790
    assert result.stages_measured == result.stages_total == 790
    assert oracle.batches == [11] + [50] * 15 + [29]


def test_the_batches_of_an_exhaustive_search_grow_with_what_was_measured() -> None:
    graph = graph_of(dag_of(INCEPTION_V3.successors))
    oracle = FakeClockOracle(longest_group)
    IosScheduler(strategies="parallel", batch=2).schedule(graph, oracle)
    explored = oracle.batches[6:-1]  # after those of single Units
    assert explored == sorted(explored)
    assert (explored[0], explored[-1]) == (2, 790 // 32 - 1)
    assert sum(oracle.batches) == 790


def test_failed_stages_are_avoided_and_named() -> None:
    graph = graph_of(wide(3))

    def breaks(stage: Stage) -> float:
        return math.inf if len(stage.groups) == 3 else longest_group(stage)

    result = IosScheduler(strategies="parallel").schedule(graph, FakeClockOracle(breaks))
    assert result.predicted_ms == 4.0
    assert max(len(stage.groups) for stage in result.schedule.stages) == 2
    assert result.notes == ("1 of 15 stages failed: it broke (first: u1 | u2 | u3)",)


def test_a_used_up_budget_leaves_what_was_measured() -> None:
    graph = graph_of(DIAMOND)
    oracle = FakeClockOracle(longest_group, budget=4)
    result = IosScheduler(strategies="parallel").schedule(graph, oracle)
    assert result.schedule.units == ("u0", "u1", "u2", "u3")
    assert result.predicted_ms == 4.0
    assert result.stages_measured == 4
    assert result.notes == ("the budget was used up with 4 of 8 stages not measured",)


def test_the_prediction_falls_while_the_search_runs() -> None:
    told: list[SearchProgress] = []
    IosScheduler(batch=4).schedule(graph_of(wide(4)), FakeClockOracle(longest_group), told.append)
    bests = [progress.best_ms for progress in told]
    assert bests[:2] == [None, 6.0]
    assert bests[-1] == 3.0


def test_a_block_too_wide_is_searched_in_pieces() -> None:
    graph = graph_of(tuple(() for _ in range(24)))
    oracle = FakeClockOracle(longest_group)
    result = IosScheduler(max_transitions=3000).schedule(graph, oracle)
    assert result.predicted_ms == 4.0
    assert result.transitions <= 4 * 3000
    assert "was searched in 4 pieces" in result.notes[0]


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_the_batch_size_does_not_change_the_answer(batch: int) -> None:
    graph = graph_of(dag_of(INCEPTION_V3.successors))
    expected = IosScheduler().schedule(graph, FakeClockOracle(random_latency(3, graph)))
    found = IosScheduler(batch=batch).schedule(graph, FakeClockOracle(random_latency(3, graph)))
    # How often there is a best schedule to measure again depends on the batches.
    assert replace(found, stages_rechecked=expected.stages_rechecked) == expected


def test_equal_blocks_are_asked_once_and_scheduled_alike() -> None:
    """Two diamonds in a row: u4 to u7 repeat u0 to u3."""
    graph = graph_of((*DIAMOND, (3,), (4,), (4,), (5, 6)))
    oracle = FakeClockOracle(random_latency(5, graph))
    result = IosScheduler().schedule(graph, oracle)
    assert {name for stage in oracle.asked for name in stage.units} == {"u0", "u1", "u2", "u3"}
    places = [
        [[graph.index[name] for name in group] for group in stage.groups]
        for stage in result.schedule.stages
    ]
    half = len(places) // 2
    assert places[half:] == [
        [[position + 4 for position in group] for group in groups] for groups in places[:half]
    ]
