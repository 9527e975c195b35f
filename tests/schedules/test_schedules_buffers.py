"""Memory plans and when memory is freed, on hand-made Plans and on a network."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.alias_graphs import aliased_graphs
from support.graphs import DIAMOND, SIDE, chain, graph_of
from support.schedules import random_stage_schedule, random_stream_schedule, stream_schedules

from workers.graph.graph import Graph, Operator, TensorSpec, ValueRef
from workers.schedules.buffers import Buffers, assign_buffers, stream_frees
from workers.schedules.lifetimes import lifetimes
from workers.schedules.lower import lower
from workers.schedules.order import happened_before
from workers.schedules.plan import Launch, Plan, Stream
from workers.schedules.schedule import Placement, StreamSchedule
from workers.schedules.validate import PlanError, validate

NBYTES = 4 * SIDE * SIDE
BOTH = (Stream(), Stream())
FORKED = Plan(
    BOTH,
    (
        Launch("u0", 0, records=0),
        Launch("u1", 0),
        Launch("u2", 1, waits=(0,), records=1),
        Launch("u3", 0, waits=(1,)),
    ),
)


def test_a_chain_takes_two_buffers_in_turns() -> None:
    graph = graph_of(chain(5))
    plan = Plan((Stream(),), tuple(Launch(unit.name, 0) for unit in graph.units))
    buffers = assign_buffers(plan, graph)
    assert [buffers.buffer_of[f"u{n}"] for n in range(5)] == [0, 1, 0, 1, 0]
    assert buffers.sizes == (NBYTES, NBYTES)
    assert buffers.peak_bytes == 2 * NBYTES
    assert stream_frees(plan, graph) == ((), (), ("u0",), ("u1",), ("u2",))


def test_memory_read_on_two_streams_waits_for_both() -> None:
    """``u1`` and ``u2`` read ``u0`` on two streams. ``u3`` follows ``u2`` alone, so that it may not
    write where ``u0`` lay; ``u4`` follows both."""
    graph = graph_of(((), (0,), (0,), (2,), (1, 3)))
    plan = Plan(
        BOTH,
        (
            Launch("u0", 0, records=0),
            Launch("u1", 0),
            Launch("u2", 1, waits=(0,)),
            Launch("u3", 1, records=1),
            Launch("u4", 0, waits=(1,)),
        ),
    )
    buffers = assign_buffers(plan, graph)
    validate(plan, graph, buffers)
    assert buffers.buffer_of["u3"] != buffers.buffer_of["u0"]
    assert buffers.buffer_of["u4"] in (buffers.buffer_of["u0"], buffers.buffer_of["u2"])
    wrong = Buffers({**buffers.buffer_of, "u3": buffers.buffer_of["u0"]}, buffers.sizes)
    with pytest.raises(PlanError, match="before unit 'u1' on stream 0, which uses 'u0' there"):
        validate(plan, graph, wrong)
    # u0's stream knows of both readers before u4. Stream 1 allocates nothing after u3.
    assert stream_frees(plan, graph) == ((), (), (), (), ("u0",))


def test_a_view_that_may_be_a_copy_waits_for_its_own_stream_too() -> None:
    """``u1`` may copy ``u0`` into memory of stream 1, which ``u2`` reads on stream 0. That it has
    ended stream 0 knows before ``u3``, stream 1 only before ``u5``."""
    graph = graph_of(((), (0,), (1,), (2,), (), (3, 4), (4, 5)))
    view = Operator("u1", "aten.reshape.default", (ValueRef("u0"), (SIDE, SIDE)), (), ("u1",))
    units = list(graph.units)
    units[1] = replace(units[1], operators=(view,), weights=())
    graph = replace(graph, units=tuple(units))
    streams = (0, 1, 0, 0, 1, 1, 0)
    placements = tuple(Placement(f"u{n}", stream) for n, stream in enumerate(streams))
    plan = lower(StreamSchedule("test", placements), graph, parallelism=1)
    freed = {name: n for n, names in enumerate(stream_frees(plan, graph)) for name in names}
    assert freed["u0"] == freed["u1"] == 5
    always = replace(view, target="aten.view.default")
    units[1] = replace(units[1], operators=(always,))
    freed = {
        name: n
        for n, names in enumerate(stream_frees(plan, replace(graph, units=tuple(units))))
        for name in names
    }
    assert freed["u0"] == freed["u1"] == 3


def test_buffers_are_as_large_as_their_largest() -> None:
    graph = graph_of(chain(4))
    large = replace(graph, values={**graph.values, "u2": TensorSpec((SIDE, 2 * SIDE), "float32")})
    plan = Plan((Stream(),), tuple(Launch(unit.name, 0) for unit in graph.units))
    buffers = assign_buffers(plan, large)
    assert sorted(buffers.sizes) == [NBYTES, 2 * NBYTES]
    assert buffers.sizes[buffers.buffer_of["u2"]] == 2 * NBYTES


def roots(**buffer_of: int) -> Buffers:
    return Buffers(buffer_of, (NBYTES,) * (max(buffer_of.values()) + 1))


@pytest.mark.parametrize(
    ("buffers", "words"),
    [
        (
            roots(u0=0, u1=1, u2=1, u3=2),
            "'u2' on stream 1 may write value 'u2' into buffer 1 before unit 'u1' on stream 0",
        ),
        (
            roots(u0=0, u1=0, u2=1, u3=2),
            "'u1' on stream 0 writes value 'u1' into buffer 0 while it uses 'u0' there",
        ),
        (roots(u0=0, u1=1, u2=2), "value 'u3' has no buffer"),
        (roots(u0=0, u1=1, u2=2, u3=3, u9=3), "value 'u9' has a buffer, but no unit allocates it"),
        (roots(u0=0, u1=1, u2=2, u3=-1), "value 'u3' is in buffer -1 of 3"),
        (Buffers(dict.fromkeys(("u0", "u1", "u2", "u3"), 0), (8,)), "has 256 bytes, its buffer 0"),
    ],
)
def test_the_first_conflict_is_named(buffers: Buffers, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        validate(FORKED, graph_of(DIAMOND), buffers)


def test_outputs_are_never_written_over() -> None:
    graph = graph_of(((), (), (1,)))  # u0 and u2 are outputs
    plan = Plan((Stream(),), (Launch("u0", 0), Launch("u1", 0), Launch("u2", 0)))
    validate(plan, graph, assign_buffers(plan, graph))
    with pytest.raises(PlanError, match="holds 'u0' for an output of the graph"):
        validate(plan, graph, roots(u0=0, u1=1, u2=0))
    assert stream_frees(plan, graph) == ((), (), ())


@settings(deadline=None)
@given(st.data(), aliased_graphs(max_units=8))
def test_memory_is_freed_as_early_as_its_stream_allows(data: st.DataObject, graph: Graph) -> None:
    """By brute force over the launches of the streams that may have allocated it."""
    plan = lower(data.draw(stream_schedules(graph, graph.predecessors)), graph, 2)
    happened = happened_before(plan)
    freed = {
        name: number for number, names in enumerate(stream_frees(plan, graph)) for name in names
    }
    for life in lifetimes(plan, graph):
        makers = {life.maker} | {n for n in range(len(happened)) if life.copiers >> n & 1}
        drops = []
        for stream in {plan.launches[maker].stream for maker in makers}:
            later = [
                number
                for number, launch in enumerate(plan.launches)
                if launch.stream == stream and not life.users & ~happened[number]
            ]
            drops.append(min(later, default=None))
        known = [number for number in drops if number is not None]
        when = max(known) if len(known) == len(drops) and not life.returned else None
        assert {freed.get(name) for name in life.values} == {when}


def test_a_thousand_units_take_no_time() -> None:
    """The size of NASNet-A-Large operator by operator: lowering and validation together."""
    dag = tuple(tuple(b for b in (n - 7, n - 3, n - 1) if b >= 0) for n in range(1000))
    graph = graph_of(dag)
    for schedule in (
        random_stream_schedule(graph, 8, seed=0),
        random_stage_schedule(graph, seed=0),
    ):
        buffers = assign_buffers(lower(schedule, graph, 4), graph)
        start = time.perf_counter()
        plan = lower(schedule, graph, 4)
        validate(plan, graph, buffers)
        assert time.perf_counter() - start < 0.5
        validate(plan, graph, buffers)
        assert buffers.peak_bytes < 100 * NBYTES
