"""Random schedules of a graph, for tests."""

from __future__ import annotations

import random

from hypothesis import strategies as st
from support.graphs import Dag, successors_of

from workers.graph.bitsets import bits
from workers.graph.graph import Graph
from workers.schedulers.endings import components
from workers.schedules.schedule import Placement, Stage, StageSchedule, StreamSchedule


def sequential(graph: Graph) -> StageSchedule:
    return StageSchedule("test", tuple(Stage(((unit.name,),)) for unit in graph.units))


@st.composite
def schedules(draw: st.DrawFn, graph: Graph, dag: Dag) -> StageSchedule:
    """A random sequence of stages: each takes some Units that are ready or become so within it."""
    successors = successors_of(dag)
    stages = []
    done: set[int] = set()
    while len(done) < len(dag):
        chosen: set[int] = set()
        for unit, before in enumerate(dag):
            ready = unit not in done and set(before) <= done | chosen
            if ready and (draw(st.booleans()) or not chosen):
                chosen.add(unit)
        groups = components(sum(1 << unit for unit in chosen), successors)
        stages.append(
            Stage(tuple(tuple(graph.units[unit].name for unit in bits(group)) for group in groups))
        )
        done |= chosen
    return StageSchedule("test", tuple(stages), barriers=draw(st.booleans()))


@st.composite
def stream_schedules(
    draw: st.DrawFn, graph: Graph, dag: Dag, max_streams: int = 4
) -> StreamSchedule:
    """A random topological order of the Units on random streams, with or without thread counts."""
    streams = draw(st.integers(1, max_streams))
    waiting = [set(before) for before in dag]
    left = list(range(len(dag)))
    placements = []
    while left:
        unit = draw(st.sampled_from([unit for unit in left if not waiting[unit]]))
        left.remove(unit)
        for before in waiting:
            before.discard(unit)
        placements.append((graph.units[unit].name, draw(st.integers(0, streams - 1))))
    schedule = _on_dense_streams(placements)
    count = len({placement.stream for placement in schedule.placements})
    threads = st.lists(st.integers(1, 4), min_size=count, max_size=count)
    return StreamSchedule("test", schedule.placements, tuple(draw(st.just([]) | threads)))


def random_stream_schedule(graph: Graph, streams: int, seed: int) -> StreamSchedule:
    """A random topological order on random streams, for graphs that are too big to draw."""
    generator = random.Random(seed)
    waiting = [len(before) for before in graph.predecessors]
    ready = [unit for unit, count in enumerate(waiting) if not count]
    placements = []
    while ready:
        unit = ready.pop(generator.randrange(len(ready)))
        placements.append((graph.units[unit].name, generator.randrange(streams)))
        for after in graph.successors[unit]:
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    return _on_dense_streams(placements)


def random_stage_schedule(graph: Graph, seed: int) -> StageSchedule:
    """Random stages of groups that do not depend on each other, for graphs too big to draw."""
    generator = random.Random(seed)
    done: set[int] = set()
    stages = []
    while len(done) < len(graph.units):
        chosen = 0
        for unit, before in enumerate(graph.predecessors):
            ready = unit not in done and all(b in done or chosen >> b & 1 for b in before)
            if ready and (not chosen or generator.random() < 0.6):
                chosen |= 1 << unit
            if chosen.bit_count() >= 12:
                break
        groups = components(chosen, graph.successors)
        stages.append(
            Stage(tuple(tuple(graph.units[unit].name for unit in bits(group)) for group in groups))
        )
        done.update(bits(chosen))
    return StageSchedule("test", tuple(stages))


def _on_dense_streams(placements: list[tuple[str, int]]) -> StreamSchedule:
    """Streams numbered without gaps, in the order in which they are first used."""
    number: dict[int, int] = {}
    return StreamSchedule(
        "test",
        tuple(
            Placement(unit, number.setdefault(stream, len(number))) for unit, stream in placements
        ),
    )
