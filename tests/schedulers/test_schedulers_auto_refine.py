"""The local search of ``auto``: its steps reach every schedule, and it finds the best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, chain, dags, graph_of, wide
from support.oracles import FakeClockOracle, longest_group

from workers.graph.graph import Graph
from workers.schedulers.auto.launches import Launches, launches_of, numbered, schedule_of
from workers.schedulers.auto.moves import Neighbourhood
from workers.schedulers.auto.refine import Effort, refine
from workers.schedulers.base import SchedulerError
from workers.schedulers.greedy import GreedyScheduler
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage, StageSchedule
from workers.schedules.validate import validate


def orders(graph: Graph) -> Iterator[tuple[int, ...]]:
    for order in itertools.permutations(range(len(graph.units))):
        place = {unit: number for number, unit in enumerate(order)}
        if all(
            place[other] < place[unit]
            for unit, before in enumerate(graph.predecessors)
            for other in before
        ):
            yield order


def every_schedule(graph: Graph, max_streams: int) -> set[Launches]:
    """By brute force."""
    count = len(graph.units)
    return {
        numbered(order, streams)
        for order in orders(graph)
        for streams in itertools.product(range(max_streams), repeat=count)
    }


def sequential(graph: Graph) -> Launches:
    return Launches(tuple(range(len(graph.units))), (0,) * len(graph.units))


def neighbourhood(
    graph: Graph,
    max_streams: int,
    parallelism: int = 1,
    providers: tuple[str | None, ...] = (None,),
) -> Neighbourhood:
    return Neighbourhood.of(graph, [1.0] * len(graph.units), max_streams, parallelism, providers)


@settings(deadline=None, max_examples=60)
@given(
    dag=dags(max_units=8),
    max_streams=st.integers(1, 4),
    parallelism=st.integers(1, 3),
    providers=st.sampled_from([(None,), (None, "b"), ("b", None, "c")]),
    seed=st.integers(0, 10**6),
)
def test_every_neighbour_is_a_schedule(
    dag: tuple[tuple[int, ...], ...],
    max_streams: int,
    parallelism: int,
    providers: tuple[str | None, ...],
    seed: int,
) -> None:
    graph, random = graph_of(dag), Random(seed)
    steps = neighbourhood(graph, max_streams, parallelism, providers)
    current = sequential(graph)
    for _ in range(30):
        current = steps.neighbour(current, random)
        assert current.stream_count <= max_streams
        assert current == numbered(
            current.order, current.streams, current.threads, current.providers
        )
        assert current.providers == () or any(current.providers)
        assert set(current.providers) <= set(providers)
        assert all(1 <= count <= max(2, parallelism) for count in current.threads)
        validate(lower(schedule_of(current, graph, "test"), graph, parallelism), graph)
        assert launches_of(schedule_of(current, graph, "test"), graph, parallelism) == current


@pytest.mark.parametrize("dag", [chain(3), wide(3), DIAMOND, ((), (0,), (0,))])
def test_the_steps_reach_every_schedule(dag: tuple[tuple[int, ...], ...]) -> None:
    graph, random = graph_of(dag), Random(0)
    steps = neighbourhood(graph, 3)
    reached, frontier = {sequential(graph)}, [sequential(graph)]
    while frontier:
        current = frontier.pop()
        for _ in range(250):
            other = steps.neighbour(current, random)
            if other not in reached:
                reached.add(other)
                frontier.append(other)
    assert reached == every_schedule(graph, 3)


def test_the_steps_reach_every_choice_of_providers() -> None:
    graph, random = graph_of(chain(3)), Random(0)
    steps = neighbourhood(graph, 1, providers=(None, "b", "c"))
    current, reached = sequential(graph), set()
    for _ in range(3000):
        current = steps.neighbour(current, random)
        reached.add(current.providers or (None,) * 3)
    assert reached == set(itertools.product((None, "b", "c"), repeat=3))


@settings(deadline=None, max_examples=25)
@given(dag=dags(max_units=4), seed=st.integers(0, 10**6))
def test_the_best_schedule_of_a_small_graph_is_found(
    dag: tuple[tuple[int, ...], ...], seed: int
) -> None:
    graph = graph_of(dag)
    everything = sorted(every_schedule(graph, 2), key=lambda one: (one.order, one.streams))
    latency = dict(zip(everything, Random(seed).sample(range(10**6), len(everything)), strict=True))

    def expected(asked: Sequence[Launches]) -> list[float]:
        return [float(latency[one]) for one in asked]

    start = sequential(graph)
    # Steps are drawn: it takes patience until the last schedule has been come across, too.
    patient = Effort(trials=10**4, patience=96)
    found = refine([start], neighbourhood(graph, 2), expected, patient, seed)
    assert found.started_ms == latency[start]
    assert found.expected_ms == min(latency.values()) == latency[found.launches]
    assert found.trials == len(everything)


def test_the_same_search_gives_the_same_answer_and_asks_for_nothing_twice() -> None:
    graph = graph_of((*DIAMOND, (3,), (3,), (4, 5)))
    asked: list[Launches] = []

    def expected(wanted: Sequence[Launches]) -> list[float]:
        asked.extend(wanted)
        return [float(hash((one.order, one.streams)) % 1009) for one in wanted]

    effort = Effort(trials=300)
    steps = neighbourhood(graph, 3)
    first = refine([sequential(graph)], steps, expected, effort, seed=7)
    assert len(asked) == len(set(asked)) == first.trials
    assert 300 <= first.trials < 300 + effort.batch
    assert refine([sequential(graph)], steps, expected, effort, seed=7) == first


def test_it_begins_with_the_best_start_and_is_never_worse() -> None:
    graph = graph_of(wide(6))
    start = sequential(graph)
    greedy = GreedyScheduler().schedule(graph, FakeClockOracle(longest_group)).schedule

    def streams(asked: Sequence[Launches]) -> list[float]:
        return [float(one.stream_count) for one in asked]

    starts = [launches_of(greedy, graph, 1), start]
    found = refine(starts, neighbourhood(graph, 6), streams, Effort(trials=50))
    assert (found.started_ms, found.expected_ms, found.launches.stream_count) == (1.0, 1.0, 1)


def test_what_cannot_be_run_is_not_chosen() -> None:
    graph = graph_of(DIAMOND)

    def nothing(asked: Sequence[Launches]) -> list[float]:
        return [math.inf for _ in asked]

    with pytest.raises(SchedulerError, match="what to expect of any schedule"):
        refine([sequential(graph)], neighbourhood(graph, 2), nothing)


def test_the_time_to_search_may_end() -> None:
    graph = graph_of(DIAMOND)
    found = refine(
        [sequential(graph)], neighbourhood(graph, 2), lambda asked: [1.0] * len(asked),
        expired=lambda: True,
    )  # fmt: skip
    assert found.cut_short
    assert found.trials == 1


def test_stages_keep_their_streams_and_threads_without_their_barriers() -> None:
    graph = graph_of(DIAMOND)
    schedule = StageSchedule(
        "ios", (Stage((("u0",),)), Stage((("u1",), ("u2",)), threads=(3, 1)), Stage((("u3",),)))
    )
    launches = launches_of(schedule, graph, 4)
    assert launches.order == (0, 1, 2, 3)
    assert launches.threads == (4, 3, 1)
    assert launches.streams == (0, 1, 2, 0)
