"""Lowering Schedules to Plans."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, dags, graph_of, wide
from support.schedules import schedules, sequential, stream_schedules

from workers.graph.graph import Graph, Operator, Unit, ValueRef
from workers.schedules.lower import lower
from workers.schedules.order import happened_before, happens_after
from workers.schedules.plan import Launch, Plan, Stream, plan_from_json, plan_to_json
from workers.schedules.schedule import (
    Placement,
    ScheduleError,
    Stage,
    StageSchedule,
    StreamSchedule,
)
from workers.schedules.validate import validate


def staged(*stages: Stage) -> StageSchedule:
    return StageSchedule("test", stages)


def streamed(*placements: tuple[str, int], threads: tuple[int, ...] = ()) -> StreamSchedule:
    return StreamSchedule("test", tuple(Placement(*entry) for entry in placements), threads)


def test_a_diamond_forks_and_joins() -> None:
    schedule = staged(Stage((("u0",),)), Stage((("u1",), ("u2",))), Stage((("u3",),)))
    assert lower(schedule, graph_of(DIAMOND), parallelism=4) == Plan(
        streams=(Stream(4), Stream(2), Stream(2)),
        launches=(
            Launch("u0", 0, records=0),
            Launch("u1", 1, waits=(0,), records=1),
            Launch("u2", 2, waits=(0,), records=2),
            Launch("u3", 0, waits=(1, 2)),
        ),
    )


def test_a_sequence_needs_no_events() -> None:
    graph = graph_of(wide(5))
    plan = lower(sequential(graph), graph, parallelism=2)
    assert plan.streams == (Stream(2),)
    assert all(launch.waits == () and launch.records is None for launch in plan.launches)


def test_more_groups_than_threads_get_one_thread_each() -> None:
    graph = graph_of(wide(3))
    schedule = staged(Stage((("u0",),)), Stage((("u1",), ("u2",), ("u3",))), Stage((("u4",),)))
    plan = lower(schedule, graph, parallelism=2)
    assert plan.streams == (Stream(2), Stream(1), Stream(1), Stream(1))


def test_streams_are_reused_and_the_barrier_spares_the_own_stream() -> None:
    graph = graph_of(((), (), (0,), (1,)))
    schedule = staged(Stage((("u0",), ("u1",))), Stage((("u2",), ("u3",))))
    plan = lower(schedule, graph, parallelism=2)
    assert plan.streams == (Stream(1), Stream(1))
    assert [launch.waits for launch in plan.launches] == [(), (), (1,), (0,)]


def test_a_stage_may_choose_its_threads() -> None:
    graph = graph_of(((), ()))
    plan = lower(staged(Stage((("u0",), ("u1",)), threads=(3, 1))), graph, parallelism=4)
    assert plan.streams == (Stream(3), Stream(1))


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (Stage(()), "stage 0 has no groups"),
        (Stage((("u0",), ())), "empty"),
        (Stage((("u9",),)), "'u9', which graph 'dag' lacks"),
        (Stage((("u0", "u1", "u0"),)), "'u0' is in the schedule twice"),
        (Stage((("u1", "u0"),)), "'u1' is launched before unit 'u0'"),
        (Stage((("u0",), ("u1",))), "'u1' depends on unit 'u0' in another group of stage 0"),
        (Stage((("u0",),), strategy="merge"), "'merge'.*merge_stages"),
        (Stage((("u0",),), threads=(1, 1)), "1 groups but 2 thread counts"),
        (Stage((("u1",), ("u2",)), threads=(1, 0)), "stage 0, group 1 has 0 threads"),
    ],
)
def test_stages_that_cannot_be_lowered_are_named(stage: Stage, words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        lower(staged(stage), graph_of(DIAMOND), parallelism=2)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (streamed(("u0", 0), ("u1", 0), ("u2", 0)), "unit 'u3' is on no stream"),
        (streamed(("u0", 0), ("u1", 0), ("u2", 0), ("u9", 0)), "'u9', which graph 'dag' lacks"),
        (streamed(("u0", 0), ("u1", 0), ("u1", 1)), "'u1' is in the schedule twice"),
        (
            streamed(("u0", 0), ("u1", 0), ("u3", 0), ("u2", 0)),
            "'u3' is launched before unit 'u2', which it depends on",
        ),
        (streamed(("u0", 0), ("u1", -1), ("u2", 0), ("u3", 0)), "'u1' is on stream -1"),
        (
            streamed(("u0", 0), ("u1", 2), ("u2", 0), ("u3", 0)),
            "stream 1 has no units although stream 2 has",
        ),
        (
            streamed(("u0", 0), ("u1", 1), ("u2", 0), ("u3", 0), threads=(2,)),
            "2 streams but 1 thread counts",
        ),
        (
            streamed(("u0", 0), ("u1", 1), ("u2", 0), ("u3", 0), threads=(2, -1)),
            "stream 1 has -1 threads",
        ),
    ],
)
def test_streams_that_cannot_be_lowered_are_named(schedule: StreamSchedule, words: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(words)):
        lower(schedule, graph_of(DIAMOND), parallelism=2)


def test_streams_keep_their_order_and_wait_for_what_they_read() -> None:
    schedule = streamed(("u0", 0), ("u1", 0), ("u2", 1), ("u3", 0))
    assert lower(schedule, graph_of(DIAMOND), parallelism=4) == Plan(
        streams=(Stream(2), Stream(2)),
        launches=(
            Launch("u0", 0, records=0),
            Launch("u1", 0),
            Launch("u2", 1, waits=(0,), records=1),
            Launch("u3", 0, waits=(1,)),
        ),
    )


def test_a_wait_that_others_imply_is_left_out() -> None:
    # u3 reads u0, u1 and u2; u2 waits for u1, which waits for u0.
    graph = graph_of(((), (0,), (1,), (0, 1, 2)))
    plan = lower(streamed(("u0", 0), ("u1", 1), ("u2", 2), ("u3", 3)), graph, parallelism=1)
    assert [launch.waits for launch in plan.launches] == [(), (0,), (1,), (2,)]


def test_streams_share_the_threads_or_have_their_own() -> None:
    graph = graph_of(wide(3))
    placements = (("u0", 0), ("u1", 0), ("u2", 1), ("u3", 2), ("u4", 0))
    assert lower(streamed(*placements), graph, parallelism=8).streams == (Stream(2),) * 3
    assert lower(streamed(*placements), graph, parallelism=2).streams == (Stream(1),) * 3
    own = streamed(*placements, threads=(3, 1, 2))
    assert lower(own, graph, parallelism=8).streams == (Stream(3), Stream(1), Stream(2))


def test_an_empty_graph_has_an_empty_plan() -> None:
    assert lower(streamed(), graph_of(()), parallelism=2) == Plan((), ())


def test_without_barriers_only_what_is_read_is_waited_for() -> None:
    graph = graph_of(((), (), (0,), (1,)))
    schedule = staged(Stage((("u0",), ("u1",))), Stage((("u2",), ("u3",))))
    assert all(launch.waits for launch in lower(schedule, graph, 2).launches[2:])
    plan = lower(replace(schedule, barriers=False), graph, parallelism=2)
    assert plan.streams == (Stream(1), Stream(1))
    assert all(launch.waits == () and launch.records is None for launch in plan.launches)


def test_what_writes_in_place_waits_for_the_readers_before_it() -> None:
    """``u1`` and ``u2`` read ``u0``; ``u2`` overwrites it, so that ``u1`` must have ended."""
    graph = graph_of(((), (0,), (0,)))
    changes = Operator("u2", "aten.tanh_.default", (ValueRef("u0"),), (), ("u2",))
    writer = Unit("u2", "activation", (changes,), ("u0",), (), ("u2",), 0, 0)
    graph = replace(graph, units=(*graph.units[:2], writer))
    plan = lower(streamed(("u0", 0), ("u1", 1), ("u2", 0)), graph, parallelism=1)
    assert [launch.waits for launch in plan.launches] == [(), (0,), (1,)]
    with pytest.raises(ScheduleError, match="'u2' is launched before unit 'u1'"):
        lower(streamed(("u0", 0), ("u2", 0), ("u1", 1)), graph, parallelism=1)


@settings(deadline=None)
@given(st.data(), dags(), st.integers(1, 8))
def test_every_schedule_lowers_to_a_valid_plan(
    data: st.DataObject, dag: tuple[tuple[int, ...], ...], parallelism: int
) -> None:
    graph = graph_of(dag)
    schedule = data.draw(schedules(graph, dag) | stream_schedules(graph, dag))
    plan = lower(schedule, graph, parallelism)
    validate(plan, graph)
    assert tuple(launch.unit for launch in plan.launches) == schedule.units
    assert plan_from_json(plan_to_json(plan)) == plan
    if isinstance(schedule, StreamSchedule):
        named = [data.draw(st.sampled_from([None, "b"])) for _ in schedule.placements]
        mixed = replace(
            schedule,
            placements=tuple(
                replace(placement, provider=name)
                for placement, name in zip(schedule.placements, named, strict=True)
            ),
        )
        by = lower(mixed, graph, parallelism)
        assert [launch.provider for launch in by.launches] == named
        assert plan_from_json(plan_to_json(by)) == by
        assert replace(by, launches=tuple(replace(x, provider=None) for x in by.launches)) == plan
        chosen = [name or "a" for name in named]
        assert by.providers("a") == dict(zip(schedule.units, chosen, strict=True))
    if isinstance(schedule, StageSchedule):
        with_barriers = lower(replace(schedule, barriers=True), graph, parallelism)
        assert plan.streams == with_barriers.streams
        assert [launch.stream for launch in plan.launches] == [
            launch.stream for launch in with_barriers.launches
        ]


def required(schedule: StageSchedule | StreamSchedule, graph: Graph) -> set:
    """Which launch must end before which, besides stream order, as the docstring of ``lower``
    says: pairs of positions in launch order."""
    position = {unit: number for number, unit in enumerate(schedule.units)}
    if isinstance(schedule, StreamSchedule) or not schedule.barriers:
        return {
            (position[graph.units[before].name], position[unit.name])
            for unit, predecessors in zip(graph.units, graph.predecessors, strict=True)
            for before in predecessors
        }
    stages = [[[position[unit] for unit in group] for group in s.groups] for s in schedule.stages]
    return {
        (before[-1], after[0])
        for earlier, later in pairwise(stages)
        for before in earlier
        for after in later
    }


@settings(deadline=None)
@given(st.data(), dags())
def test_waits_are_the_transitive_reduction(
    data: st.DataObject, dag: tuple[tuple[int, ...], ...]
) -> None:
    """Against networkx: the Plan orders what must be ordered and nothing more, and its waits are
    the edges of the reduction that stream order does not give. So none can be left out."""
    graph = graph_of(dag)
    schedule = data.draw(schedules(graph, dag) | stream_schedules(graph, dag))
    plan = lower(schedule, graph, 3)
    streams: dict[int, list[int]] = {}
    for number, launch in enumerate(plan.launches):
        streams.setdefault(launch.stream, []).append(number)
    in_order = {edge for held in streams.values() for edge in pairwise(held)}
    order = networkx.DiGraph()
    order.add_nodes_from(range(len(plan.launches)))
    order.add_edges_from(in_order | required(schedule, graph))
    happened = happened_before(plan)
    closure = set(networkx.transitive_closure_dag(order).edges)
    assert closure == {
        (before, number)
        for number, mask in enumerate(happened)
        for before in range(len(happened))
        if mask >> before & 1
    }
    assert closure == {
        (number, later)
        for number, mask in enumerate(happens_after(plan))
        for later in range(len(happened))
        if mask >> later & 1
    }
    recorder = {launch.records: number for number, launch in enumerate(plan.launches)}
    waits = {
        (recorder[event], number)
        for number, launch in enumerate(plan.launches)
        for event in launch.waits
    }
    assert waits == set(networkx.transitive_reduction(order).edges) - in_order
    assert {launch.records for launch in plan.launches} - {None} == {
        event for launch in plan.launches for event in launch.waits
    }
