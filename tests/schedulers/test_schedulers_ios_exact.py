"""Exact search: the exhaustive optimum wherever the floors hold, and what is said where not."""

from __future__ import annotations

import math
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from ios_table1 import INCEPTION_V3
from support.graphs import Dag, dag_of, dags, graph_of, wide
from support.oracles import FakeClockOracle, longest_group, random_latency
from support.shared_device import SharedDevice
from test_schedulers_ios_options import convolutions

from workers.graph.graph import Graph
from workers.schedulers.base import SearchProgress, SearchResult
from workers.schedulers.ios import IosScheduler
from workers.schedules.schedule import Stage

Latency = Callable[[Stage], float]


def both(
    graph: Graph, latency_of: Latency, parallelism: int = 1, **options: int
) -> tuple[SearchResult, SearchResult]:
    """What an exhaustive and an exact search find."""
    exhaustive, exact = (
        IosScheduler(mode=mode, **options).schedule(
            graph, FakeClockOracle(latency_of, parallelism=parallelism)
        )
        for mode in ("exhaustive", "exact")
    )
    return exhaustive, exact


def same_optimum(exhaustive: SearchResult, exact: SearchResult) -> None:
    assert exact.predicted_ms == exhaustive.predicted_ms == exact.bound_ms
    assert exact.bound_holds
    assert exact.ended in ("optimal", "complete")
    assert exact.stages_measured <= exhaustive.stages_measured == exact.stages_total


@settings(deadline=None, max_examples=25)
@given(dags(max_units=8), st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5))
def test_the_exhaustive_optimum_where_the_floors_hold(dag: Dag, seed: int, r: int, s: int) -> None:
    graph = graph_of(dag)
    found = both(
        graph, SharedDevice(seed, graph), max_units_per_group=r, max_groups_per_stage=s, batch=2
    )
    same_optimum(*found)


@settings(deadline=None, max_examples=12)
@given(dags(max_units=6), st.integers(0, 10**6), st.integers(2, 6))
def test_the_exhaustive_optimum_with_threads(dag: Dag, seed: int, parallelism: int) -> None:
    graph = graph_of(dag)
    same_optimum(*both(graph, SharedDevice(seed, graph, parallelism), parallelism, batch=3))


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_the_exhaustive_optimum_with_merged_stages(seed: int, branches: int) -> None:
    graph = convolutions(8, 1, [(2 * number + 1, number) for number in range(branches)])
    exhaustive, exact = both(graph, SharedDevice(seed, graph), batch=2)
    assert exhaustive.stages_total > 2**branches - 1  # some stages may be merged
    same_optimum(exhaustive, exact)


@settings(deadline=None, max_examples=25)
@given(dags(max_units=6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_stage_that_fails_says_nothing_of_others(dag: Dag, seed: int, broken: int) -> None:
    graph = graph_of(dag)
    device, chance = SharedDevice(seed, graph), random_latency(broken, graph)

    def latency_of(stage: Stage) -> float:
        return math.inf if len(stage.units) > 1 and chance(stage) < 300 else device(stage)

    same_optimum(*both(graph, latency_of, batch=2))


@settings(deadline=None, max_examples=25)
@given(dags(max_units=7), st.integers(0, 10**6), st.integers(1, 4))
def test_best_and_bound_enclose_the_optimum_all_along(dag: Dag, seed: int, batch: int) -> None:
    graph = graph_of(dag)
    latency_of = SharedDevice(seed, graph)
    optimum = IosScheduler().schedule(graph, FakeClockOracle(latency_of)).predicted_ms
    assert optimum is not None
    told: list[SearchProgress] = []
    IosScheduler(mode="exact", batch=batch).schedule(
        graph, FakeClockOracle(latency_of), told.append
    )
    bests = [math.inf if progress.best_ms is None else progress.best_ms for progress in told]
    bounds = [0.0 if progress.bound_ms is None else progress.bound_ms for progress in told]
    assert bests == sorted(bests, reverse=True)
    assert bounds == sorted(bounds)
    assert bounds[-1] == optimum == bests[-1]


@settings(deadline=None, max_examples=25)
@given(dags(max_units=8), st.integers(0, 10**6), st.sampled_from([0.02, 0.05, 0.3]))
def test_a_search_may_end_at_a_gap(dag: Dag, seed: int, gap: float) -> None:
    graph = graph_of(dag)
    latency_of = SharedDevice(seed, graph)
    optimum = IosScheduler().schedule(graph, FakeClockOracle(latency_of)).predicted_ms
    found = IosScheduler(mode="exact", gap=gap, batch=1).schedule(
        graph, FakeClockOracle(latency_of)
    )
    assert found.predicted_ms is not None
    assert found.bound_ms is not None
    assert optimum is not None
    assert found.bound_ms <= optimum <= found.predicted_ms
    assert found.predicted_ms * (1 - gap) <= found.bound_ms * (1 + 1e-9)
    assert found.ended in ("gap", "optimal", "complete")


@settings(deadline=None, max_examples=25)
@given(dags(max_units=7), st.integers(0, 10**6))
def test_where_the_floors_do_not_hold_there_is_a_schedule_of_measured_stages(
    dag: Dag, seed: int
) -> None:
    """A larger stage may be faster by any factor here."""
    graph = graph_of(dag)
    latency_of = random_latency(seed, graph)
    optimum = IosScheduler().schedule(graph, FakeClockOracle(latency_of))
    found = IosScheduler(mode="exact", batch=4).schedule(graph, FakeClockOracle(latency_of))
    assert found.predicted_ms is not None
    assert optimum.predicted_ms is not None
    assert found.predicted_ms >= optimum.predicted_ms
    assert found.predicted_ms == sum(latency_of(stage) for stage in found.schedule.stages)
    assert found.bound_holds == (not any("is not proven" in note for note in found.notes))


def crowded(stage: Stage) -> float:
    """Two Units are in each other's way, but not where a third runs beside them: what they take
    together excludes the optimum of independent Units, until it is put to the test."""
    groups = len(stage.groups)
    return 10.0 + (50.0 if groups == 2 else 1.0 if groups > 2 else 0.0)


def test_a_contradiction_is_found_and_groups_alone_prove_the_optimum() -> None:
    exhaustive, exact = both(graph_of(wide(5)), crowded, batch=4)
    assert exact.predicted_ms == exhaustive.predicted_ms == exact.bound_ms == 31.0
    assert exact.bound_holds
    assert exact.ended == "optimal"
    assert exact.stages_measured < exact.stages_total


def test_a_contradiction_without_a_proof_is_said() -> None:
    """What several Units take together is drawn at random, and groups alone exclude little."""
    graph = graph_of(wide(8))
    chance = random_latency(3, graph)

    def latency_of(stage: Stage) -> float:
        return 30.0 + (chance(stage) % 20 + 4 * len(stage.groups) if len(stage.groups) > 1 else 0)

    exact = IosScheduler(mode="exact", batch=4).schedule(graph, FakeClockOracle(latency_of))
    assert exact.predicted_ms is not None
    assert exact.bound_ms is not None
    assert exact.stages_measured < exact.stages_total
    assert 0 < exact.bound_ms <= exact.predicted_ms
    assert not exact.bound_holds
    assert exact.ended == "converged"
    assert any(note.startswith("the bound is not proven: ") for note in exact.notes)


def test_few_stages_are_measured() -> None:
    graph = graph_of(dag_of(INCEPTION_V3.successors))
    exhaustive, exact = both(graph, SharedDevice(5, graph))
    same_optimum(exhaustive, exact)
    assert exact.stages_measured < 0.3 * exact.stages_total


def test_no_stage_is_asked_twice_and_the_answer_is_always_the_same() -> None:
    graph = graph_of(dag_of(INCEPTION_V3.successors))
    oracles = [FakeClockOracle(SharedDevice(3, graph)) for _ in range(2)]
    results = [IosScheduler(mode="exact").schedule(graph, oracle) for oracle in oracles]
    assert results[0] == results[1]
    assert oracles[0].asked == oracles[1].asked
    assert len(set(oracles[0].asked)) == len(oracles[0].asked) == results[0].stages_measured


def test_a_used_up_budget_leaves_a_bound() -> None:
    graph = graph_of(dag_of(INCEPTION_V3.successors))
    latency_of = SharedDevice(3, graph)
    optimum = IosScheduler().schedule(graph, FakeClockOracle(latency_of)).predicted_ms
    found = IosScheduler(mode="exact").schedule(graph, FakeClockOracle(latency_of, budget=60))
    assert found.ended == "budget"
    assert found.bound_ms is not None
    assert optimum is not None
    assert found.predicted_ms is not None
    assert 0 < found.bound_ms <= optimum <= found.predicted_ms


def test_side_by_side_for_nothing() -> None:
    """An ideal device, where every group that fits beside the longest is free."""
    exhaustive, exact = both(graph_of(wide(6)), longest_group, batch=4)
    same_optimum(exhaustive, exact)
    assert exact.predicted_ms == 3.0
