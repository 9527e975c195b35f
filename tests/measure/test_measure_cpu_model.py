"""What the model of a CPU expects, where it can be worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, chain, dags, graph_of

from workers.graph.graph import Graph
from workers.measure.cpu_model import HAND_OVER_MS, WAKE_MS, Work, expected_ms
from workers.schedules.arrangement import arrange
from workers.schedules.lower import lower
from workers.schedules.schedule import Placement, Stage, StageSchedule, StreamSchedule


def sequential(graph: Graph) -> StageSchedule:
    return StageSchedule("test", tuple(Stage(((unit.name,),)) for unit in graph.units))


def one_stream_each(graph: Graph) -> StreamSchedule:
    placements = tuple(Placement(unit.name, i) for i, unit in enumerate(graph.units))
    return StreamSchedule("test", placements)


def latency(
    graph: Graph,
    schedule: StageSchedule | StreamSchedule,
    cores: int,
    work: dict[str, Work],
) -> float:
    plan = lower(schedule, graph, cores)
    known = {(unit, count): found for unit, found in work.items() for count in range(1, cores + 1)}
    return expected_ms(arrange(plan, graph, cores), known, cores)


def all_alike(graph: Graph, latency_ms: float, memory: float) -> dict[str, Work]:
    return {unit.name: Work(latency_ms, memory) for unit in graph.units}


@settings(deadline=None)
@given(dag=dags(max_units=8), cores=st.integers(1, 4), memory=st.floats(0, 1))
def test_one_after_the_other_takes_the_sum(dag: Dag, cores: int, memory: float) -> None:
    graph = graph_of(dag)
    found = latency(graph, sequential(graph), cores, all_alike(graph, 2.0, memory))
    assert found == pytest.approx(2.0 * len(dag))


@pytest.mark.parametrize(("memory", "expected"), [(0.0, 3.0), (0.5, 3.0), (1.0, 6.0), (0.75, 4.5)])
def test_two_side_by_side_share_the_memory(memory: float, expected: float) -> None:
    """Two that take three quarters of the bandwidth each get half of it: 1.5 times as long."""
    graph = graph_of(((), ()))
    found = latency(graph, one_stream_each(graph), 2, all_alike(graph, 3.0, memory))
    assert expected <= found <= expected + WAKE_MS + HAND_OVER_MS + 1e-9


def test_more_threads_than_cores_share_them() -> None:
    graph = graph_of(((), ()))
    placements = tuple(Placement(unit.name, i) for i, unit in enumerate(graph.units))
    schedule = StreamSchedule("test", placements, threads=(2, 2))
    assert latency(graph, schedule, 2, all_alike(graph, 3.0, 0.0)) == pytest.approx(6.0, rel=0.02)


def test_a_hand_over_between_threads_takes_its_time() -> None:
    graph = graph_of(DIAMOND)
    found = latency(graph, one_stream_each(graph), 2, all_alike(graph, 1.0, 0.0))
    assert 3.0 + HAND_OVER_MS <= found <= 3.0 + 2 * WAKE_MS + 1e-9


def test_threads_that_sleep_are_woken_up() -> None:
    """Before they begin, and then the first waits for them at the end."""
    graph = graph_of(((), ()))
    work = {"u0": Work(1.0, 0.0), "u1": Work(0.5, 0.0)}
    assert latency(graph, one_stream_each(graph), 2, work) == pytest.approx(1.0)
    work = {"u0": Work(0.5, 0.0), "u1": Work(1.0, 0.0)}
    found = latency(graph, one_stream_each(graph), 2, work)
    assert found == pytest.approx(WAKE_MS + 1.0 + HAND_OVER_MS)


@settings(deadline=None)
@given(dag=dags(max_units=8), cores=st.integers(1, 4), data=st.data())
def test_between_the_critical_path_and_everything_in_a_row(
    dag: Dag, cores: int, data: st.DataObject
) -> None:
    graph = graph_of(dag)
    work = {
        unit.name: Work(data.draw(st.floats(0.01, 10)), data.draw(st.floats(0, 1)))
        for unit in graph.units
    }
    found = latency(graph, one_stream_each(graph), cores, work)
    latencies = [work[unit.name].latency_ms for unit in graph.units]
    longest: list[float] = []
    for position, before in enumerate(graph.predecessors):
        longest.append(latencies[position] + max((longest[b] for b in before), default=0.0))
    assert found >= max(longest) - 1e-9
    assert found >= sum(one.latency_ms * one.memory for one in work.values()) - 1e-9
    # Sharing the memory never takes longer than one after the other does, but for hand-overs.
    assert found <= sum(latencies) + (len(dag) + 1) * 2 * WAKE_MS + 1e-9


def test_a_chain_gains_nothing() -> None:
    graph = graph_of(chain(5))
    assert latency(graph, one_stream_each(graph), 4, all_alike(graph, 1.0, 0.2)) >= 5.0
