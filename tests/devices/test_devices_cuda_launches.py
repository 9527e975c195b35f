"""What a Plan gives to streams: forks, joins and the numbers that operators make."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import Dag, chain, dags, graph_of
from support.schedules import schedules, stream_schedules

from workers.devices.cuda.launches import Program, program
from workers.devices.cuda.placement import placed
from workers.graph.graph import DtypeRef, Operator, TensorSpec
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import StreamSchedule
from workers.schedules.validate import happened_before


def known_at(made: Program) -> tuple[list[set[int]], set[int]]:
    """For each issue what comes before it, START = -1 for what was on the lead before the run, and
    what comes before what is given to the lead after it. By streams and events alone."""
    start = -1
    streams: dict[int, set[int]] = {made.lead: {start}}
    events: dict[int, set[int]] = {}
    before = []
    for number, issue in enumerate(made.issues):
        stream = streams.setdefault(issue.stream, set())
        if issue.forks:
            stream |= {start}
        for event in issue.waits:
            stream |= events[event]
        before.append(set(stream))
        stream.add(number)
        if issue.records is not None:
            events[issue.records] = set(stream)
    end = set(streams[made.lead])
    for joined in made.joins:
        end |= streams[joined]
    return before, end


@settings(max_examples=150, deadline=None)
@given(data=st.data(), dag=dags(max_units=14))
def test_a_run_starts_after_its_lead_and_ends_before_what_follows(
    data: st.DataObject, dag: Dag
) -> None:
    graph = graph_of(dag)
    plan = lower(data.draw(schedules(graph, dag) | stream_schedules(graph, dag)), graph, 1)
    made = program(plan, graph)
    before, end = known_at(made)
    assert all(-1 in known for known in before)
    assert end >= set(range(len(plan.launches)))
    # Nothing that the Plan orders is lost.
    for known, mask in zip(before, happened_before(plan), strict=True):
        assert {number for number in known if number >= 0} == {
            number for number in range(len(plan.launches)) if mask >> number & 1
        }
    # No stream is joined in vain.
    for joined in made.joins:
        _, fewer = known_at(replace(made, joins=tuple(s for s in made.joins if s != joined)))
        assert not fewer >= set(range(len(plan.launches)))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), dag=dags(max_units=14))
def test_memory_is_freed_when_its_stream_has_waited_for_all_readers(
    data: st.DataObject, dag: Dag
) -> None:
    graph = graph_of(dag)
    schedule: StreamSchedule = data.draw(stream_schedules(graph, dag))
    plan = lower(schedule, graph, 1)
    made = program(plan, graph)
    before, _ = known_at(made)
    position = {launch.unit: number for number, launch in enumerate(plan.launches)}
    for number, issue in enumerate(made.issues):
        for name in issue.frees:
            producer = graph.producers[name]
            stream = plan.launches[position[graph.units[producer].name]].stream
            users = {position[graph.units[u].name] for u in graph.successors[producer]} | {
                position[graph.units[producer].name]
            }
            # Whatever that stream is given from here on may use the memory.
            later = [
                n for n in range(number, len(plan.launches)) if made.issues[n].stream == stream
            ]
            assert all(users <= before[n] for n in later)
            assert name not in graph.outputs


def test_an_empty_plan() -> None:
    graph = replace(graph_of(chain(1)), units=(), outputs=("x",))
    assert program(Plan((), ()), graph) == Program(0, (), (), 1, 0)


def test_numbers_are_made_where_they_are_told() -> None:
    graph = graph_of(chain(1))
    (unit,) = graph.units
    spec = TensorSpec((8,), "int64")
    line = Operator("line", "aten.arange.default", (8,), (("dtype", DtypeRef("int64")),), ("line",))
    made = replace(
        graph,
        units=(replace(unit, operators=(line, *unit.operators)),),
        values={**graph.values, "line": spec},
    )
    first, *others = placed(made, "cuda:1").units[0].operators
    assert first == replace(line, keywords=(("dtype", DtypeRef("int64")), ("device", "cuda:1")))
    assert tuple(others) == unit.operators
    assert placed(graph, "cuda:1") is graph
    assert placed(placed(made, "cpu"), "cuda:1") == placed(made, "cuda:1")
