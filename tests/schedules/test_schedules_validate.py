"""The validator against brute-force reachability."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, chain, dags, graph_of
from support.schedules import schedules, sequential

from workers.graph.graph import Graph
from workers.schedules.lower import lower
from workers.schedules.plan import Launch, Plan, Stream
from workers.schedules.validate import PlanError, validate

FORKED = Plan(
    streams=(Stream(1), Stream(1)),
    launches=(
        Launch("u0", 0, records=0),
        Launch("u1", 0),
        Launch("u2", 1, waits=(0,), records=1),
        Launch("u3", 0, waits=(1,)),
    ),
)


def changed(position: int, **fields: object) -> Plan:
    launches = list(FORKED.launches)
    launches[position] = replace(launches[position], **fields)
    return replace(FORKED, launches=tuple(launches))


def test_a_valid_plan_passes() -> None:
    validate(FORKED, graph_of(DIAMOND))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (changed(2, waits=()), "'u2' on stream 1 may start before unit 'u0' on stream 0"),
        (changed(3, waits=()), "'u3' on stream 0 may start before unit 'u2' on stream 1"),
        (changed(1, unit="u9"), "launch 1 runs 'u9'"),
        (changed(1, unit="u0"), "'u0' is launched twice, by launches 0 and 1"),
        (changed(2, stream=2), "launch 2 ('u2') is on stream 2 of 2"),
        (changed(2, stream=-1), "launch 2 ('u2') is on stream -1 of 2"),
        (changed(0, waits=(1,)), "launch 0 ('u0') waits for event 1, which no earlier"),
        (changed(2, waits=(0, 7)), "waits for event 7"),
        (changed(1, records=0), "launch 1 ('u1') records event 0 again"),
        (changed(1, records=3), "events are not dense: 2 is never recorded"),
        (replace(FORKED, launches=FORKED.launches[:3]), "'u3' is never launched"),
        (replace(FORKED, streams=(Stream(1), Stream(0))), "stream 1 has 0 threads"),
        (Plan((), ()), "'u0' is never launched"),
    ],
)
def test_the_first_violation_is_named(plan: Plan, words: str) -> None:
    with pytest.raises(PlanError, match=re.escape(words)):
        validate(plan, graph_of(DIAMOND))


def test_a_value_written_twice_is_named() -> None:
    graph = graph_of(((), ()))
    second = replace(graph.units[1], outputs=("u0",))
    broken = replace(graph, units=(graph.units[0], second))
    with pytest.raises(PlanError, match="'u0' and 'u1' both write value 'u0'"):
        validate(lower(sequential(graph), graph, 1), broken)


def really_valid(plan: Plan, graph: Graph) -> bool:
    """The same claim by brute force: replay in issue order, and paths in a graph of launches."""
    if sorted(launch.unit for launch in plan.launches) != sorted(graph.index):
        return False
    order = networkx.DiGraph()
    order.add_nodes_from(range(len(plan.launches)))
    recorder: dict[int, int] = {}
    for number, launch in enumerate(plan.launches):
        if any(event not in recorder for event in launch.waits):
            return False
        order.add_edges_from((recorder[event], number) for event in launch.waits)
        order.add_edges_from(
            (earlier, number)
            for earlier in range(number)
            if plan.launches[earlier].stream == launch.stream
        )
        if launch.records is not None:
            if launch.records in recorder:
                return False
            recorder[launch.records] = number
    position = {launch.unit: number for number, launch in enumerate(plan.launches)}
    return sorted(recorder) == list(range(len(recorder))) and all(
        networkx.has_path(order, position[graph.units[before].name], position[unit.name])
        for unit, predecessors in zip(graph.units, graph.predecessors, strict=True)
        for before in predecessors
    )


def accepted(plan: Plan, graph: Graph) -> bool:
    try:
        validate(plan, graph)
    except PlanError:
        return False
    return True


@st.composite
def mutations(draw: st.DrawFn, plan: Plan) -> Plan:
    """Drop a wait, move a launch in issue order or to another stream, repeat or drop one."""
    launches = list(plan.launches)
    place = draw(st.integers(0, len(launches) - 1))
    match draw(st.sampled_from(["wait", "record", "move", "stream", "repeat", "drop"])):
        case "wait":
            waits = launches[place].waits
            keep = draw(st.integers(0, max(0, len(waits) - 1)))
            launches[place] = replace(launches[place], waits=waits[:keep] + waits[keep + 1 :])
        case "record":
            launches[place] = replace(launches[place], records=None)
        case "move":
            launches.insert(draw(st.integers(0, len(launches) - 1)), launches.pop(place))
        case "stream":
            stream = draw(st.integers(0, len(plan.streams) - 1))
            launches[place] = replace(launches[place], stream=stream)
        case "repeat":
            launches.insert(place, launches[place])
        case "drop":
            del launches[place]
    return replace(plan, launches=tuple(launches))


@settings(deadline=None)
@given(st.data(), dags(max_units=7), st.integers(1, 3))
def test_mutated_plans_are_judged_as_brute_force_does(
    data: st.DataObject, dag: Dag, count: int
) -> None:
    graph = graph_of(dag)
    plan = lower(data.draw(schedules(graph, dag)), graph, parallelism=2)
    assert accepted(plan, graph)
    for _ in range(count):
        if plan.launches:
            plan = data.draw(mutations(plan))
    assert accepted(plan, graph) == really_valid(plan, graph)


def test_a_thousand_launches_are_validated_in_no_time() -> None:
    graph = graph_of(chain(1000))
    plan = Plan(
        streams=tuple(Stream() for _ in range(8)),
        launches=tuple(
            Launch(f"u{n}", n % 8, waits=(n - 1,) if n else (), records=n) for n in range(1000)
        ),
    )
    validate(plan, graph)
    start = time.perf_counter()
    validate(plan, graph)
    assert time.perf_counter() - start < 0.1
