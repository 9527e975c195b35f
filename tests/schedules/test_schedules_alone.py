"""Stages alone get the Plans that ``lower`` makes of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import Dag, chain, dags, graph_of

from workers.schedules.alone import Alone
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import ScheduleError, Stage, StageSchedule


@given(dags(), st.data(), st.sampled_from([1, 2, 8]))
def test_plans_and_refusals_are_those_of_lower(
    dag: Dag, data: st.DataObject, parallelism: int
) -> None:
    """Of any groups of any Units: most of several Units cannot be run."""
    graph = graph_of(dag)
    names = st.sampled_from([unit.name for unit in graph.units])
    groups = data.draw(st.lists(st.lists(names, max_size=3).map(tuple), max_size=3).map(tuple))
    stage = Stage(groups, threads=data.draw(st.sampled_from([(), (1,), (2, 1)])))
    assert _outcome(lambda: Alone(graph, parallelism).plan(stage)) == _outcome(
        lambda: lower(StageSchedule("stage", (stage,)), graph, parallelism)
    )


def _outcome(made: Callable[[], Plan]) -> Plan | str:
    try:
        return made()
    except ScheduleError as error:
        return str(error)


def test_merged_stages_and_unknown_units_are_refused() -> None:
    graph = graph_of(chain(3))
    first, second = graph.units[0].name, graph.units[1].name
    for stage in (Stage(((first, second),), "merge"), Stage((("nobody",),))):
        with pytest.raises(ScheduleError):
            Alone(graph, 1).plan(stage)


def test_units_of_a_group_keep_their_order() -> None:
    graph = graph_of(chain(2))
    first, second = [unit.name for unit in graph.units[:2]]
    plan = Alone(graph, 4).plan(Stage(((first, second),)))
    assert [launch.unit for launch in plan.launches] == [first, second]
    for wrong in (Stage(((second, first),)), Stage(((first,), (second,)))):
        with pytest.raises(ScheduleError):
            Alone(graph, 4).plan(wrong)
