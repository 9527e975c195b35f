"""Algorithm 1 and the reuse of streams, by their definitions."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, chain, dags, graph_of, successors_of, wide

from workers.schedulers.opara.allocation import allocate
from workers.schedulers.opara.launch_order import launch_order
from workers.schedulers.opara.reuse import reuse, waits
from workers.schedules.lower import lower
from workers.schedules.order import happened_before
from workers.schedules.plan import Plan
from workers.schedules.schedule import Placement, StreamSchedule
from workers.schedules.validate import validate


def algorithm_1(dag: Dag) -> list[int]:
    """As it is printed."""
    successors = successors_of(dag)
    stream: dict[int, int] = {}
    launched = 0
    for v, predecessors in enumerate(dag):
        for p in predecessors:
            if successors[p][0] == v:
                stream[v] = stream[p]
                break
        if v not in stream:
            stream[v] = launched
            launched += 1
    return [stream[v] for v in range(len(dag))]


@given(dags(max_units=12))
def test_algorithm_1(dag: Dag) -> None:
    assert allocate(successors_of(dag)) == algorithm_1(dag)


@given(dags(max_units=12))
def test_who_shares_a_stream(dag: Dag) -> None:
    """A Unit is on the stream of its earliest predecessor whose first successor it is, which was
    the last there; without one it is the first on its stream."""
    successors, found = successors_of(dag), allocate(successors_of(dag))
    for unit, before in enumerate(dag):
        heirs = [p for p in before if min(successors[p]) == unit]
        there = [other for other in range(unit) if found[other] == found[unit]]
        assert there[-1:] == heirs[:1]


def test_shapes() -> None:
    assert allocate(()) == []
    assert allocate(successors_of(chain(4))) == [0, 0, 0, 0]
    assert allocate(successors_of(DIAMOND)) == [0, 0, 1, 0]
    assert allocate(successors_of(wide(3))) == [0, 0, 1, 2, 0]


def test_two_streams_meet() -> None:
    """Unit 2 is the first successor of both 0 and 1, and stays with 0; 3 finds nobody."""
    assert allocate(((2, 3), (2,), (), ())) == [0, 1, 0, 2]


def plan_of(dag: Dag, streams: Sequence[int], order: Sequence[int]) -> Plan:
    """Lowered, its streams numbered without gaps, and proved."""
    graph, number = graph_of(dag), {s: n for n, s in enumerate(sorted(set(streams)))}
    placements = tuple(Placement(f"u{unit}", number[streams[unit]]) for unit in order)
    plan = lower(StreamSchedule("opara", placements), graph, 1)
    validate(plan, graph)
    return plan


@st.composite
def launched(draw: st.DrawFn) -> tuple[Dag, list[int]]:
    """A DAG and one of its launch orders."""
    dag = draw(dags(max_units=12))
    count = len(dag)
    classes = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    demands = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    return dag, launch_order(dag, successors_of(dag), classes, [(d,) for d in demands])


@given(launched(), st.integers(1, 6))
def test_waits_are_those_of_the_plan(case: tuple[Dag, list[int]], most: int) -> None:
    dag, order = case
    for streams in (allocate(successors_of(dag)), [0] * len(dag)):
        found = reuse(streams, order, dag, [1] * len(dag), most)
        plan = plan_of(dag, found, order)
        assert waits(found, order, dag) == sum(len(launch.waits) for launch in plan.launches)


def slow_reuse(
    dag: Dag, streams: Sequence[int], order: Sequence[int], work: Sequence[int], most: int
) -> list[int]:
    """The rule itself, with sets: for each stream that begins, what may run beside it there."""
    onto: dict[int, int] = {}
    for number, unit in enumerate(order):
        if streams[unit] in onto:
            continue
        placed = [u for u in order[:number] if streams[u] in onto]
        ended: set[int] = set()  # when the Unit may start, by dependencies and stream order
        pending = list(dag[unit])
        while pending:
            other = pending.pop()
            if other not in ended:
                ended.add(other)
                before = placed[: placed.index(other)]
                same = [u for u in before if onto[streams[u]] == onto[streams[other]]]
                pending += [*dag[other], *same]
        conflicts = [
            sum(
                work[u]
                for u in range(len(dag))
                if onto.get(streams[u]) == target and u not in ended
            )
            for target in range(len(set(onto.values())))
        ]
        if 0 in conflicts:
            onto[streams[unit]] = conflicts.index(0)
        elif len(conflicts) < most:
            onto[streams[unit]] = len(conflicts)
        else:
            onto[streams[unit]] = conflicts.index(min(conflicts))
    return [onto[stream] for stream in streams]


@given(st.data(), launched(), st.integers(1, 4))
def test_reuse(data: st.DataObject, case: tuple[Dag, list[int]], most: int) -> None:
    dag, order = case
    work = data.draw(st.lists(st.integers(1, 9), min_size=len(dag), max_size=len(dag)))
    streams = allocate(successors_of(dag))
    found = reuse(streams, order, dag, work, most)
    assert found == slow_reuse(dag, streams, order, work, most)
    assert max(found) < most


@given(launched())
def test_reuse_orders_nothing_anew(case: tuple[Dag, list[int]]) -> None:
    dag, order = case
    streams = allocate(successors_of(dag))
    found = reuse(streams, order, dag, [1] * len(dag), len(dag))
    plans = [plan_of(dag, assigned, order) for assigned in (streams, found)]
    assert happened_before(plans[0]) == happened_before(plans[1])
    assert max(found) <= max(streams)


def test_streams_one_after_another_are_used_again_and_order_nothing_new() -> None:
    """Three forks of three in a row: 7 streams are wanted, 3 do."""
    fork = wide(3)
    dag: Dag = fork
    for _ in range(2):
        last = len(dag) - 1
        dag += tuple(tuple(b + last for b in before) for before in fork[1:])
    streams, order = allocate(successors_of(dag)), list(range(len(dag)))
    assert max(streams) + 1 == 7
    found = reuse(streams, order, dag, [1] * len(dag), 3)
    assert max(found) + 1 == 3
    plans = [plan_of(dag, assigned, order) for assigned in (streams, found)]
    assert happened_before(plans[0]) == happened_before(plans[1])


def test_nothing_to_place() -> None:
    assert reuse([], [], (), [], 4) == []
    assert waits([], [], ()) == 0
