"""Lowering a StageSchedule to a Plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, dags, graph_of, wide
from support.schedules import schedules, sequential

from workers.schedules.lower import lower
from workers.schedules.plan import Launch, Plan, Stream, plan_from_json, plan_to_json
from workers.schedules.schedule import ScheduleError, Stage, StageSchedule
from workers.schedules.validate import validate


def staged(*stages: Stage) -> StageSchedule:
    return StageSchedule("test", stages)


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
        (Stage(()), "no groups"),
        (Stage((("u0",), ())), "empty"),
        (Stage((("u9",),)), "'u9'"),
        (Stage((("u0",),), strategy="merge"), "'merge'"),
        (Stage((("u0",),), threads=(1, 1)), "1 groups but 2 thread counts"),
    ],
)
def test_what_cannot_be_lowered_is_named(stage: Stage, words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        lower(staged(stage), graph_of(DIAMOND), parallelism=2)


@settings(deadline=None)
@given(st.data(), dags(), st.integers(1, 8))
def test_every_schedule_lowers_to_a_valid_plan(
    data: st.DataObject, dag: tuple[tuple[int, ...], ...], parallelism: int
) -> None:
    graph = graph_of(dag)
    schedule = data.draw(schedules(graph, dag))
    plan = lower(schedule, graph, parallelism)
    validate(plan, graph)
    assert tuple(launch.unit for launch in plan.launches) == schedule.units
    assert plan_from_json(plan_to_json(plan)) == plan
