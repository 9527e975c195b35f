"""Random schedules of a graph, for tests."""

from __future__ import annotations

from hypothesis import strategies as st
from support.graphs import Dag, successors_of

from workers.graph.bitsets import bits
from workers.graph.graph import Graph
from workers.schedulers.endings import components
from workers.schedules.schedule import Stage, StageSchedule


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
    return StageSchedule("test", tuple(stages))
