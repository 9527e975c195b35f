"""Latencies that are computed are those of the stage as a graph of its own, run as a Plan."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from support.graphs import Dag, dags, graph_of, wide

from workers.devices.base import DeviceError
from workers.devices.sim.device import SimDevice
from workers.devices.sim.launch_path import Issue
from workers.graph.graph import Graph
from workers.graph.random_inputs import random_inputs
from workers.measure.measurement import Failure
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.measure.serial import Candidate, SerialMeasurer
from workers.measure.subgraph import subgraph
from workers.schedulers.base import StageLatency
from workers.schedulers.ios import IosScheduler
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import Stage, StageSchedule


class Compared(MeasuringOracle):
    """Looks at every answer."""

    def __init__(self, graph: Graph, name: str, issue: Issue) -> None:
        super().__init__(graph, {}, SimDevice(name, issue), MemoryIndex())
        self.device, self.whole, self.compared = SimDevice(name, issue), graph, 0

    def stage_latencies(self, stages: Sequence[Stage]) -> Sequence[StageLatency]:
        answers = super().stage_latencies(stages)
        for stage, answer in zip(stages, answers, strict=True):
            part = subgraph(self.whole, stage.units)
            plan = lower(StageSchedule("stage", (stage,)), part, 1)
            with self.device.prepare(part, {}, plan) as executable:
                assert executable.time(random_inputs(part, 0), 1) == [answer.latency_ms]
            self.compared += 1
        return answers


@settings(deadline=None, max_examples=25)
@given(dags(max_units=6))
def test_every_stage_of_a_search_has_the_latency_of_its_own_graph(dag: Dag) -> None:
    for name, issue in (("v100", "streams"), ("k80", "graph")):
        oracle = Compared(graph_of(dag), name, issue)
        found = IosScheduler(strategies="parallel").schedule(graph_of(dag), oracle)
        assert oracle.compared >= found.stages_measured > 0


class Faulty(SimDevice):
    """Has no latency for Plans that launch ``unit``."""

    def __init__(self, unit: str) -> None:
        super().__init__("v100")
        self._faulty = unit

    def latencies_ms(self, graph: Graph, plans: Sequence[Plan]) -> Sequence[float]:
        if any(launch.unit == self._faulty for plan in plans for launch in plan.launches):
            raise DeviceError(f"unit {self._faulty!r} has no latency")
        return super().latencies_ms(graph, plans)

    def latency_ms(self, graph: Graph, plan: Plan) -> float:
        return self.latencies_ms(graph, [plan])[0]


def test_one_that_fails_spoils_no_other() -> None:
    graph = graph_of(wide(5))
    names = [unit.name for unit in graph.units]
    device = Faulty(names[2])
    plans = [lower(StageSchedule("s", (Stage(((name,),)),)), graph, 1) for name in names]
    batch = SerialMeasurer(device).measure([Candidate(graph, {}, plan) for plan in plans])
    assert [found.failure for found in batch.measurements] == [
        Failure.LAUNCH if name == names[2] else None for name in names
    ]
    assert batch.rounds[0].failures == 1


def test_the_clock_is_looked_at_between_computed_latencies() -> None:
    graph = graph_of(wide(5))
    plan = lower(StageSchedule("s", (Stage(((graph.units[0].name,),)),)), graph, 1)
    looks = iter([False, True])
    candidates = [Candidate(graph, {}, plan)] * 70
    batch = SerialMeasurer(SimDevice("v100")).measure(candidates, lambda: next(looks, True))
    failures = [found.failure for found in batch.measurements]
    assert failures == [None] * 64 + [Failure.BUDGET] * 6


@pytest.mark.parametrize("issue", ["graph", "streams"])
def test_many_plans_have_the_latencies_of_each(issue: Issue) -> None:
    graph = graph_of(wide(4))
    device = SimDevice("v100", issue)
    plans = [
        lower(StageSchedule("s", tuple(Stage(((u.name,),)) for u in graph.units[:n])), graph, 1)
        for n in range(1, len(graph.units) + 1)
    ]
    assert list(device.latencies_ms(graph, plans)) == [
        SimDevice("v100", issue).latency_ms(graph, plan) for plan in plans
    ]
    device.close()
    with pytest.raises(DeviceError, match="closed"):
        device.latencies_ms(graph, plans)
