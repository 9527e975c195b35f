"""Guided search: close to the optimum with few questions, whatever the device is like."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import Dag, dags, graph_of, wide
from support.oracles import FakeClockOracle, longest_group, random_latency

from workers.graph.graph import Graph
from workers.schedulers.base import SearchProgress
from workers.schedulers.greedy import GreedyScheduler
from workers.schedulers.ios import IosScheduler
from workers.schedulers.ios.options import Strategies
from workers.schedulers.sequential import SequentialScheduler
from workers.schedules.schedule import Stage

OVERHEAD = 0.05


def layered(seed: int, units: int) -> Dag:
    """A random DAG without cut points but at its ends, a few Units wide."""
    draw = random.Random(seed)
    dag: list[tuple[int, ...]] = [()]
    for unit in range(1, units - 1):
        near = range(max(0, unit - 6), unit)
        dag.append(tuple(sorted(draw.sample(near, min(len(near), draw.choice((1, 1, 2)))))))
    read = {before for others in dag for before in others}
    return (*dag, tuple(unit for unit in range(units - 1) if unit not in read))


class Device:
    """Units with random latencies and random shares of the device; stages are up to 2 % off."""

    def __init__(self, graph: Graph, seed: int, kind: str) -> None:
        draw = random.Random(seed)
        self._takes = {unit.name: draw.uniform(0.2, 1.5) for unit in graph.units}
        self._share = {unit.name: draw.uniform(0.2, 0.9) for unit in graph.units}
        self._kind, self._seed = kind, seed

    def __call__(self, stage: Stage) -> float:
        chain = max(sum(self._takes[name] for name in group) for group in stage.groups)
        work = sum(self._takes[name] for name in stage.units)
        shared = sum(self._takes[name] * self._share[name] for name in stage.units)
        latency = {
            "ideal": chain,
            "no overlap": work + 0.02 * (len(stage.groups) - 1),
            "limited bandwidth": max(chain, shared),
            "crowded": (chain**3 + shared**3) ** (1 / 3) + 0.05 * (len(stage.groups) - 1),
        }[self._kind]
        if len(stage.units) > 1:
            latency *= 1 + 0.02 * random.Random(f"{self._seed}{stage.groups}").uniform(-1, 1)
        return OVERHEAD + latency


@pytest.mark.parametrize("kind", ["ideal", "no overlap", "limited bandwidth", "crowded"])
@pytest.mark.parametrize("seed", [1, 2])
def test_close_to_the_optimum_with_few_questions(kind: str, seed: int) -> None:
    graph = graph_of(layered(seed, 16))
    device = Device(graph, seed, kind)
    best = IosScheduler().schedule(graph, FakeClockOracle(device))
    oracle = FakeClockOracle(device)
    found = IosScheduler(mode="guided").schedule(graph, oracle)
    assert found.predicted_ms is not None
    assert best.predicted_ms is not None
    assert found.predicted_ms <= 1.01 * best.predicted_ms
    assert found.stages_measured == len(oracle.asked) <= 8 * 16
    assert len(oracle.asked) < 0.1 * found.stages_total


def test_never_slower_than_sequential_and_greedy() -> None:
    graph = graph_of(layered(5, 12))
    for kind in ("no overlap", "crowded"):
        device = Device(graph, 5, kind)
        oracle = FakeClockOracle(device)
        found = IosScheduler(mode="guided").schedule(graph, oracle)
        for scheduler in (SequentialScheduler(), GreedyScheduler()):
            stages = scheduler.schedule(graph, oracle).schedule.stages
            assert sum(map(device, found.schedule.stages)) <= sum(map(device, stages)) + 1e-9


@settings(deadline=None, max_examples=40)
@given(dags(max_units=7), st.integers(0, 10**6))
def test_small_graphs_of_which_nothing_can_be_expected(dag: Dag, seed: int) -> None:
    """Latencies without any rule, some of them failures: what is found has no failed stage and is
    what its stages took."""
    graph = graph_of(dag)
    random_of = random_latency(seed, graph)

    def latency_of(stage: Stage) -> float:
        latency = random_of(stage)
        return math.inf if len(stage.units) > 1 and latency % 5 == 0 else latency

    found = IosScheduler(mode="guided").schedule(graph, FakeClockOracle(latency_of))
    alone = sum(latency_of(Stage(groups=((unit.name,),))) for unit in graph.units)
    assert found.predicted_ms is not None
    assert found.predicted_ms == sum(latency_of(stage) for stage in found.schedule.stages) <= alone


def test_failing_units_and_stages_are_avoided() -> None:
    """Nothing runs beside u3, and u5 does not run alone."""
    graph = graph_of(wide(6))

    def breaks(stage: Stage) -> float:
        beside = len(stage.groups) > 1 and "u3" in stage.units
        return math.inf if beside or stage.units == ("u5",) else longest_group(stage)

    found = IosScheduler(mode="guided").schedule(graph, FakeClockOracle(breaks))
    assert found.predicted_ms == 4.0
    assert all(math.isfinite(breaks(stage)) for stage in found.schedule.stages)
    assert any("it broke" in note for note in found.notes)


@pytest.mark.parametrize("budget", [3, 16, 30])
def test_the_budget_ends_it(budget: int) -> None:
    graph = graph_of(layered(1, 16))
    device = Device(graph, 1, "crowded")
    found = IosScheduler(mode="guided", batch=4).schedule(graph, FakeClockOracle(device, budget))
    assert found.stages_measured == budget
    assert found.ended == "budget"
    if budget >= 16:
        taken = sum(map(device, found.schedule.stages))
        assert found.predicted_ms == pytest.approx(taken, rel=0.02)


def test_the_same_twice_with_an_expectation_and_a_note() -> None:
    graph = graph_of(layered(2, 12))
    told: list[SearchProgress] = []
    device = Device(graph, 2, "crowded")
    first = IosScheduler(mode="guided").schedule(graph, FakeClockOracle(device), told.append)
    assert IosScheduler(mode="guided").schedule(graph, FakeClockOracle(device)) == first
    assert told[0].expected_ms is None
    assert told[-1].expected_ms == pytest.approx(first.predicted_ms, rel=0.01)
    for report in told:
        if report.expected_ms is not None and report.best_ms is not None:
            assert report.expected_ms <= report.best_ms
    assert first.ended == "converged"
    assert first.bound_ms is not None
    assert first.predicted_ms is not None
    assert first.bound_ms <= first.predicted_ms
    assert "not proven to be the fastest" in first.notes[-1]


def test_a_gap_ends_it_early() -> None:
    graph = graph_of(layered(1, 16))
    device = Device(graph, 1, "ideal")
    whole = IosScheduler(mode="guided").schedule(graph, FakeClockOracle(device))
    early = IosScheduler(mode="guided", gap=0.9).schedule(graph, FakeClockOracle(device))
    assert early.ended == "gap"
    assert early.stages_measured < whole.stages_measured
    assert early.predicted_ms is not None
    assert early.bound_ms is not None
    assert early.predicted_ms - early.bound_ms <= 0.9 * early.predicted_ms


class Cpu:
    """Units of which a part is serial, groups on their own threads of ``cores``, one memory."""

    def __init__(self, graph: Graph, seed: int, cores: int) -> None:
        draw = random.Random(seed)
        self._takes = {unit.name: draw.uniform(0.2, 1.5) for unit in graph.units}
        self._serial = {unit.name: draw.uniform(0.02, 0.4) for unit in graph.units}
        self._memory = {unit.name: draw.uniform(0.05, 0.5) for unit in graph.units}
        self._cores = cores

    def __call__(self, stage: Stage) -> float:
        own = (max(1, self._cores // len(stage.groups)),) * len(stage.groups)
        threads = stage.threads or own
        chain = max(
            sum(
                self._takes[name] * (self._serial[name] + (1 - self._serial[name]) / count)
                for name in group
            )
            for group, count in zip(stage.groups, threads, strict=True)
        )
        memory = sum(self._takes[name] * self._memory[name] for name in stage.units)
        crowded = max(1.0, sum(threads) / self._cores)
        return OVERHEAD + max(chain * crowded, memory) + 0.02 * (len(stage.groups) - 1)


def excess(
    graph: Graph,
    latency_of: Callable[[Stage], float],
    parallelism: int = 1,
    strategies: Strategies = "both",
) -> float:
    """By what part what is found, within the limit of questions, is slower than the optimum."""
    everything = FakeClockOracle(latency_of, parallelism=parallelism)
    best = IosScheduler(strategies=strategies).schedule(graph, everything)
    oracle = FakeClockOracle(latency_of, parallelism=parallelism)
    found = IosScheduler(strategies=strategies, mode="guided").schedule(graph, oracle)
    alone = sum(len(stage.units) == 1 for stage in oracle.asked) - len(graph.units)
    assert len(oracle.asked) <= max(0.02 * found.stages_total, 8 * len(graph.units)) + alone
    assert found.predicted_ms is not None
    assert best.predicted_ms is not None
    return found.predicted_ms / best.predicted_ms - 1


@pytest.mark.parametrize("cores", [4, 16])
@pytest.mark.parametrize("seed", [1, 2])
def test_threads_are_divided_well(cores: int, seed: int) -> None:
    graph = graph_of(layered(seed, 12))
    assert excess(graph, Cpu(graph, seed, cores), cores, "parallel") <= 0.04


@pytest.mark.parametrize("seed", [1, 2])
def test_merges_are_found_where_they_pay(seed: int) -> None:
    """Of eight Units that read the same value, some merge well and some badly."""
    graph = graph_of(wide(8))
    device = Device(graph, seed, "crowded")
    draw = random.Random(seed)
    merged = {unit.name: draw.uniform(0.1, 0.9) for unit in graph.units}

    def latency_of(stage: Stage) -> float:
        if stage.strategy == "concurrent":
            return device(stage)
        return OVERHEAD + 0.4 + sum(merged[name] for name in stage.units)

    assert excess(graph, latency_of) <= 0.02
    found = IosScheduler(mode="guided").schedule(graph, FakeClockOracle(latency_of))
    without = IosScheduler(strategies="parallel").schedule(graph, FakeClockOracle(latency_of))
    assert any(stage.strategy == "merge" for stage in found.schedule.stages)
    assert found.predicted_ms is not None
    assert without.predicted_ms is not None
    assert found.predicted_ms < without.predicted_ms


@pytest.mark.parametrize(
    "breaks",
    [
        pytest.param(lambda stage: len(stage.groups) > 2, id="more than two groups"),
        pytest.param(lambda stage: len(stage.units) > 4, id="more than four Units"),
        pytest.param(
            lambda stage: len(stage.units) > 1 and random.Random(str(stage.groups)).random() < 0.3,
            id="three of ten",
        ),
    ],
)
def test_it_learns_what_fails(breaks: Callable[[Stage], bool]) -> None:
    graph = graph_of(layered(1, 16))
    device = Device(graph, 1, "crowded")
    assert excess(graph, lambda stage: math.inf if breaks(stage) else device(stage)) <= 0.03


@pytest.mark.parametrize("kind", ["no overlap", "crowded"])
def test_measurements_that_scatter_are_not_chased(kind: str) -> None:
    graph = graph_of(layered(1, 16))
    device, draw = Device(graph, 1, kind), random.Random(7)
    best = IosScheduler().schedule(graph, FakeClockOracle(device))
    oracle = FakeClockOracle(lambda stage: device(stage) * draw.gauss(1.0, 0.03))
    found = IosScheduler(mode="guided").schedule(graph, oracle)
    assert found.ended == "converged"
    assert len(oracle.asked) <= 8 * 16
    assert best.predicted_ms is not None
    assert sum(map(device, found.schedule.stages)) <= 1.03 * best.predicted_ms
