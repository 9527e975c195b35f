"""The validator against runs of Plans in every order and with every delay, on shared memory."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support.alias_graphs import aliased_graphs
from support.graphs import dags, graph_of
from support.interleavings import (
    all_results,
    expected,
    own_buffers,
    run_at_random,
    run_in_threads,
)
from support.schedules import schedules, stream_schedules

from workers.graph.graph import Graph
from workers.schedules.aliases import aliases
from workers.schedules.buffers import Buffers, assign_buffers, stream_frees
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.validate import PlanError, validate

SEEDS = range(12)


def refusal(plan: Plan, graph: Graph, buffers: Buffers | None) -> str | None:
    try:
        validate(plan, graph, buffers)
    except PlanError as error:
        return str(error)
    return None


@st.composite
def plans(draw: st.DrawFn, graph: Graph) -> Plan:
    dag = graph.predecessors
    schedule = draw(schedules(graph, dag) | stream_schedules(graph, dag, max_streams=3))
    return lower(schedule, graph, 2)


@st.composite
def mutations(draw: st.DrawFn, plan: Plan) -> Plan:
    """Drop or move a wait, move a launch in issue order or to another stream, swap two launches'
    streams, drop or repeat a launch."""
    launches = list(plan.launches)
    place, other = (draw(st.integers(0, len(launches) - 1)) for _ in range(2))
    first, second = launches[place], launches[other]
    what = ["wait", "wait", "rewait", "move", "stream", "swap", "record", "drop", "repeat"]
    match draw(st.sampled_from(what)):
        case "wait":
            waiting = [n for n, launch in enumerate(launches) if launch.waits]
            if waiting:
                place = draw(st.sampled_from(waiting))
                waits = list(launches[place].waits)
                waits.pop(draw(st.integers(0, len(waits) - 1)))
                launches[place] = replace(launches[place], waits=tuple(waits))
        case "rewait":
            launches[place] = replace(first, waits=second.waits)
            launches[other] = replace(second, waits=first.waits if place != other else ())
        case "move":
            launches.insert(other, launches.pop(place))
        case "stream":
            launches[place] = replace(first, stream=draw(st.integers(0, len(plan.streams) - 1)))
        case "swap":
            launches[place] = replace(first, stream=second.stream)
            launches[other] = replace(second, stream=first.stream)
        case "record":
            launches[place] = replace(first, records=None)
        case "drop":
            del launches[place]
        case "repeat":
            launches.insert(other, first)
    return replace(plan, launches=tuple(launches))


@st.composite
def mixed_up(draw: st.DrawFn, buffers: Buffers) -> Buffers:
    """One buffer for two, or a root in another one's."""
    if len(buffers.sizes) < 2:
        return buffers
    numbers = st.integers(0, len(buffers.sizes) - 1)
    source, target = draw(numbers), draw(numbers)
    moved = [root for root, buffer in buffers.buffer_of.items() if buffer == source]
    if moved and draw(st.booleans()):
        moved = [draw(st.sampled_from(moved))]
    return Buffers(
        {**buffers.buffer_of, **dict.fromkeys(moved, target)},
        (max(buffers.sizes),) * len(buffers.sizes),
    )


@settings(deadline=None, max_examples=150)
@given(st.data(), aliased_graphs(max_units=8))
def test_right_plans_are_accepted_and_right_in_any_order(data: st.DataObject, graph: Graph) -> None:
    plan = data.draw(plans(graph))
    buffers = assign_buffers(plan, graph)
    validate(plan, graph, buffers)
    assert set(buffers.buffer_of) == set(aliases(graph).storages)
    want = expected(graph)
    for seed in SEEDS:
        assert run_at_random(plan, graph, buffers, seed) == want


@settings(deadline=None, max_examples=300)
@given(st.data(), aliased_graphs(max_units=7), st.integers(1, 3))
def test_no_wrong_answer_gets_past_the_validator(
    data: st.DataObject, graph: Graph, count: int
) -> None:
    plan = data.draw(plans(graph))
    buffers = data.draw(st.sampled_from([assign_buffers(plan, graph), own_buffers(graph)]))
    for _ in range(count):
        if data.draw(st.booleans()):
            buffers = data.draw(mixed_up(buffers))
        elif plan.launches:
            plan = data.draw(mutations(plan))
    if refusal(plan, graph, buffers) is None:
        want = expected(graph)
        for seed in SEEDS:
            assert run_at_random(plan, graph, buffers, seed) == want


@settings(deadline=None, max_examples=200)
@given(st.data(), dags(max_units=4), st.integers(0, 2))
def test_on_tiny_plans_the_validator_says_exactly_what_every_order_does(
    data: st.DataObject, dag: tuple[tuple[int, ...], ...], count: int
) -> None:
    """Where launches still stand in issue order with their events, a Plan is refused if and only
    if some order of steps gives a wrong answer. (Without views: of those the validator assumes
    that they read what they view.)"""
    graph = graph_of(dag)
    plan = data.draw(plans(graph))
    buffers = assign_buffers(plan, graph)
    for _ in range(count):
        if data.draw(st.booleans()):
            buffers = data.draw(mixed_up(buffers))
        elif plan.launches:
            plan = data.draw(mutations(plan))
    reason = refusal(plan, graph, buffers)
    if reason is None or any(
        words in reason for words in ("may start", "may write", "while it", "holds")
    ):
        want = expected(graph)
        right = all(result == want for result in all_results(plan, graph, buffers))
        assert right == (reason is None), reason


@settings(deadline=None, max_examples=15)
@given(st.data(), aliased_graphs(max_units=6))
def test_threads_agree(data: st.DataObject, graph: Graph) -> None:
    plan = data.draw(plans(graph))
    buffers = assign_buffers(plan, graph)
    assert run_in_threads(plan, graph, buffers, seed=0) == expected(graph)


@settings(deadline=None, max_examples=30)
@given(st.data(), aliased_graphs(max_units=6))
def test_threads_never_give_a_wrong_answer_to_what_is_accepted(
    data: st.DataObject, graph: Graph
) -> None:
    plan = data.draw(plans(graph))
    buffers = data.draw(mixed_up(assign_buffers(plan, graph)))
    if plan.launches:
        plan = data.draw(mutations(plan))
    if refusal(plan, graph, buffers) is None:
        assert run_in_threads(plan, graph, buffers, seed=1) == expected(graph)


def allocated(plan: Plan, graph: Graph) -> Buffers:
    """The memory that an allocator with a list of free blocks for each stream gives out, if values
    are dropped as ``stream_frees`` says. Like torch's, it gives a block back when no name holds it,
    to the stream that allocated it, and out again as soon as that stream's next launch is issued.
    """
    found = aliases(graph)
    held: dict[str, set[str]] = {}
    free: dict[int, list[int]] = {}
    block_of: dict[str, int] = {}
    stream_of: dict[int, int] = {}
    for launch, names in zip(plan.launches, stream_frees(plan, graph), strict=True):
        for name in names:
            held[found.root[name]].remove(name)  # a KeyError if it was not there
            if not held[found.root[name]]:
                block = block_of[found.root[name]]
                free.setdefault(stream_of[block], []).append(block)
        position = graph.index[launch.unit]
        for root in found.made[position]:
            blocks = free.setdefault(launch.stream, [])
            block = blocks.pop() if blocks else len(stream_of)
            stream_of[block] = launch.stream
            block_of[root] = block
            held[root] = set()
        for name in graph.units[position].outputs:
            if found.root[name] in held:
                held[found.root[name]].add(name)
    return Buffers(block_of, (1 << 20,) * len(stream_of))


@settings(deadline=None, max_examples=200)
@given(st.data(), aliased_graphs(max_units=8))
def test_memory_freed_for_each_stream_is_never_in_use(data: st.DataObject, graph: Graph) -> None:
    plan = data.draw(plans(graph))
    buffers = allocated(plan, graph)
    validate(plan, graph, buffers)
    want = expected(graph)
    for seed in SEEDS:
        assert run_at_random(plan, graph, buffers, seed) == want
