"""Nimble: concurrency, waits and streams against brute force, other algorithms and by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import networkx as nx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, chain, dag_of, dags, graph_of, successors_of, wide
from support.oracles import FakeClockOracle, longest_group

from workers.graph.bitsets import bits, descendants
from workers.graph.graph import Graph, Operator, Unit, ValueRef
from workers.graph.width import width
from workers.schedulers.nimble import NimbleScheduler, assign_streams, minimum_equivalent
from workers.schedules.lower import lower
from workers.schedules.order import happened_before, with_events
from workers.schedules.plan import Plan
from workers.schedules.schedule import StreamSchedule
from workers.schedules.validate import validate

SWAPS = dag_of(((4, 8), (3, 6, 7), (3, 5, 6), (5, 8), (6, 7), (6,), (), (), ()))
"""Joining the chains of the first matching as they are leaves 4 streams; 3 are enough."""

WAITS_OR_STREAMS = dag_of(((2, 6), (2,), (4, 5), (6, 8), (7,), (8, 9), (7,), (9, 10), (), (), ()))
"""3 Units can run side by side at most, but 3 streams take one wait more than 4."""


def plan_of(dag: Dag) -> Plan:
    return lower(scheduled(graph_of(dag)), graph_of(dag), 1)


def scheduled(graph: Graph) -> StreamSchedule:
    schedule = NimbleScheduler().schedule(graph, FakeClockOracle(longest_group)).schedule
    assert isinstance(schedule, StreamSchedule)
    return schedule


def waits(plan: Plan) -> int:
    return sum(len(launch.waits) for launch in plan.launches)


def unrelated(dag: Dag) -> list[tuple[int, int]]:
    """Pairs of Units of which neither leads to the other."""
    reachable = descendants(successors_of(dag))
    return [(a, b) for a, b in combinations(range(len(dag)), 2) if not reachable[a] >> b & 1]


def assignments(count: int) -> Iterator[tuple[int, ...]]:
    """Every way to put Units on streams, which are numbered by their first Units."""

    def extend(streams: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(streams) == count:
            yield streams
            return
        for stream in range(max(streams, default=-1) + 2):
            yield from extend((*streams, stream))

    return extend(())


def test_by_hand() -> None:
    """The diamond's second branch must wait for the source, and the join for it."""
    assert assign_streams(successors_of(DIAMOND)).stream_of == (0, 0, 1, 0)
    assert waits(plan_of(DIAMOND)) == 2


def test_a_chain_is_one_stream() -> None:
    assert waits(plan_of(chain(30))) == 0
    assert len(plan_of(chain(30)).streams) == 1


def test_chains_that_cannot_be_concurrent_share_a_stream() -> None:
    """Two stars one after the other: 3 + 3 branches, but no more than 3 at once."""
    star = ((1, 2, 3), (4,), (4,), (4,), (5, 6, 7), (8,), (8,), (8,), ())
    found = assign_streams(star)
    assert (found.streams, found.waits, found.concurrency) == (3, 8, 3)


@pytest.mark.parametrize("dag", [chain(1), chain(7), wide(5), DIAMOND, SWAPS])
def test_the_note_tells_the_plan(dag: Dag) -> None:
    result = NimbleScheduler().schedule(graph_of(dag), FakeClockOracle(longest_group))
    plan = plan_of(dag)
    (note,) = result.notes
    assert [int(word) for word in note.split() if word.isdigit()] == [
        len(plan.streams),
        waits(plan),
        width(successors_of(dag)),
    ]


def test_the_oracle_is_asked_nothing() -> None:
    oracle = FakeClockOracle(longest_group)
    NimbleScheduler().schedule(graph_of(wide(4)), oracle)
    assert oracle.asked == []


@settings(deadline=None)
@given(dag=dags(max_units=6))
def test_brute_force(dag: Dag) -> None:
    """Over all assignments that keep unrelated Units apart: the fewest waits, then streams."""
    apart = unrelated(dag)
    best = min(
        (waits(Plan((), with_events(placements, dict(enumerate(dag))))), len(set(streams)))
        for streams in assignments(len(dag))
        if all(streams[a] != streams[b] for a, b in apart)
        for placements in [[(f"u{unit}", stream) for unit, stream in enumerate(streams)]]
    )
    plan = plan_of(dag)
    assert (waits(plan), len(plan.streams)) == best


@st.composite
def layers(draw: st.DrawFn) -> Dag:
    """Wide DAGs, whose matchings have choices."""
    dag: list[tuple[int, ...]] = []
    before = range(0)
    for _ in range(draw(st.integers(2, 5))):
        layer = range(before.stop, before.stop + draw(st.integers(1, 5)))
        dag += [tuple(unit for unit in before if draw(st.booleans())) for _ in layer]
        before = layer
    return tuple(dag)


larger = st.one_of(dags(max_units=16), layers())


@settings(deadline=None)
@given(dag=larger)
@example(dag=SWAPS)
@example(dag=WAITS_OR_STREAMS)
def test_waits_then_streams_against_a_general_matching(dag: Dag) -> None:
    """Of NetworkX's: edges of the reduction weigh more than all others of the closure together."""
    digraph = nx.DiGraph([(other, unit) for unit, before in enumerate(dag) for other in before])
    reduced = nx.transitive_reduction(digraph)
    bipartite = nx.Graph()
    for before, after in nx.transitive_closure_dag(digraph).edges:
        weight = len(dag) + 1 if reduced.has_edge(before, after) else 1
        bipartite.add_edge(("before", before), ("after", after), weight=weight)
    matched = [dict(edge) for edge in nx.max_weight_matching(bipartite)]
    unwaited = sum(reduced.has_edge(edge["before"], edge["after"]) for edge in matched)
    found = assign_streams(successors_of(dag))
    assert found.waits == reduced.number_of_edges() - unwaited
    assert found.streams == len(dag) - len(matched)
    assert found.concurrency == width(successors_of(dag)) <= found.streams


@settings(deadline=None)
@given(dag=larger)
def test_no_concurrency_is_lost(dag: Dag) -> None:
    """A launch starts after those that its Unit depends on, and after no other."""
    plan, reachable = plan_of(dag), descendants(successors_of(dag))
    assert [launch.unit for launch in plan.launches] == [f"u{unit}" for unit in range(len(dag))]
    for unit, before in enumerate(happened_before(plan)):
        assert set(bits(before)) == {other for other in range(unit) if reachable[other] >> unit & 1}
    assert waits(plan) == assign_streams(successors_of(dag)).waits


@settings(deadline=None)
@given(dag=larger)
def test_minimum_equivalent_graph(dag: Dag) -> None:
    successors = successors_of(dag)
    digraph = nx.DiGraph([(u, after) for u, afters in enumerate(successors) for after in afters])
    reduced = minimum_equivalent(successors, descendants(successors))
    assert {(u, after) for u, mask in enumerate(reduced) for after in bits(mask)} == set(
        nx.transitive_reduction(digraph).edges
    )


def test_fewer_waits_come_before_fewer_streams() -> None:
    found = assign_streams(successors_of(WAITS_OR_STREAMS))
    assert (found.streams, found.waits, found.concurrency) == (4, 6, 3)
    three = (0, 1, 0, 2, 0, 1, 2, 0, 1, 0, 2)
    assert all(three[a] != three[b] for a, b in unrelated(WAITS_OR_STREAMS))
    placements = [(f"u{unit}", stream) for unit, stream in enumerate(three)]
    launches = with_events(placements, dict(enumerate(WAITS_OR_STREAMS)))
    assert waits(Plan((), launches)) == 7


def test_what_writes_in_place_follows_the_readers_before_it() -> None:
    """``u1`` and ``u2`` read ``u0``, and ``u2`` overwrites it: nothing can run side by side."""
    graph = graph_of(((), (0,), (0,)))
    changes = Operator("u2", "aten.tanh_.default", (ValueRef("u0"),), (), ("u2",))
    writer = Unit("u2", "activation", (changes,), ("u0",), (), ("u2",), 0, 0)
    graph = replace(graph, units=(*graph.units[:2], writer))
    assert [placement.stream for placement in scheduled(graph).placements] == [0, 0, 0]
    validate(lower(scheduled(graph), graph, 1), graph)


def test_a_thousand_units_are_quick() -> None:
    """As many as T5 has operators, in 50 blocks of 20, of which 6 can run side by side."""
    block = ((), (0,), (0,), (0,), (0,), (0,), (0,), *((unit,) for unit in range(1, 7)))
    joined = (*block, *((unit,) for unit in range(7, 12)), tuple(range(12, 18)), (18,))
    dag = tuple(
        tuple(20 * number + before for before in befores) or ((20 * number - 1,) if number else ())
        for number in range(50)
        for befores in joined
    )
    successors = successors_of(dag)
    started = time.process_time()
    found = assign_streams(successors)
    assert time.process_time() - started < 0.5
    assert (found.streams, found.waits, found.concurrency) == (6, 500, 6)
