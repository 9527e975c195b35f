"""What ``auto`` adds: IOS's stages in Opara's order, and the best of all refined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, SIDE, Dag, chain, dags, graph_of, wide
from support.oracles import FakeClockOracle, longest_group, random_latency

from workers import schedulers
from workers.devices.sim.device import SimDevice
from workers.graph.graph import Graph
from workers.hardware.kernel import Kernel
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.schedulers.auto.combine import across_stages, inside_stages
from workers.schedulers.auto.propose import (
    COMBINED,
    MIXED,
    REFINED,
    Proposal,
    mix_providers,
    propose,
)
from workers.schedulers.auto.refine import Effort
from workers.schedulers.base import LatencyOracle, SchedulerError
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import Schedule, Stage, StageSchedule
from workers.schedules.validate import validate

STAGES = StageSchedule(
    "ios",
    (Stage((("u0",),)), Stage((("u1",), ("u2",), ("u3",)), threads=(1, 2, 3)), Stage((("u4",),))),
)


def all_schedules(graph: Graph, oracle: LatencyOracle) -> dict[str, Schedule]:
    return {
        name: schedulers.create(name).schedule(graph, oracle).schedule
        for name in schedulers.names()
    }


def test_groups_of_a_stage_are_launched_in_the_other_order() -> None:
    order = ("u0", "u3", "u1", "u2", "u4")
    stage = inside_stages(STAGES, order).stages[1]
    assert stage.groups == (("u3",), ("u1",), ("u2",))
    assert stage.threads == (3, 1, 2)


def test_streams_of_stages_are_launched_in_the_other_order() -> None:
    graph = graph_of(wide(3))
    launches = across_stages(STAGES, ("u0", "u2", "u3", "u1", "u4"), graph, 1)
    assert launches.order == (0, 2, 3, 1, 4)
    lowered = lower(STAGES, graph, 1)
    stream = {launch.unit: lowered.streams[launch.stream].threads for launch in lowered.launches}
    for unit, number in zip(launches.order, launches.streams, strict=True):
        assert launches.threads[number] == stream[f"u{unit}"]


@settings(deadline=None, max_examples=15)
@given(dag=dags(max_units=8), seed=st.integers(0, 10**6))
def test_what_is_proposed_can_be_run(dag: Dag, seed: int) -> None:
    graph = graph_of(dag)
    oracle = FakeClockOracle(random_latency(seed, graph))
    proposals = propose(graph, oracle, all_schedules(graph, oracle), Effort(trials=60), seed)
    assert {one.name for one in proposals.found} | set(proposals.missing) == {COMBINED, REFINED}
    for one in proposals.found:
        assert one.schedule.scheduler == one.name
        validate(lower(one.schedule, graph, 1), graph)
        assert oracle.expected_latencies([one.schedule]) == [one.expected_ms]


def test_on_a_simulated_gpu_the_refined_schedule_is_faster_than_all() -> None:
    dag: Dag = ((), (0,), (0,), (0,), (1,), (2,), (2, 3), (4, 5), (6,), (7, 8))
    graph = graph_of(dag)
    oracle = MeasuringOracle(
        graph, {"w": torch.zeros(SIDE, SIDE)}, SimDevice("v100"), MemoryIndex()
    )
    known = all_schedules(graph, oracle)
    latencies = [answer.latency_ms for answer in oracle.schedule_latencies(list(known.values()))]
    proposals = propose(graph, oracle, known, Effort(trials=200))
    for one in proposals.found:
        assert oracle.schedule_latencies([one.schedule])[0].latency_ms == one.expected_ms
    best = min([*latencies, *(one.expected_ms for one in proposals.found)])
    assert best <= min(latencies)
    again = propose(graph, oracle, known, Effort(trials=200))
    assert again == proposals


def test_a_chain_leaves_nothing_to_refine() -> None:
    graph = graph_of(chain(1))
    oracle = FakeClockOracle(longest_group)
    assert (
        "nothing to refine" in propose(graph, oracle, all_schedules(graph, oracle)).missing[REFINED]
    )


class Limited(FakeClockOracle):
    """Expects something only so often, and then ``late``."""

    def __init__(self, asked: int, late: float | SchedulerError) -> None:
        super().__init__(longest_group)
        self._left, self._late = asked, late

    def expected_latencies(self, schedules: Sequence[Schedule]) -> list[float]:
        self._left -= 1
        if self._left >= 0:
            return super().expected_latencies(schedules)
        if isinstance(self._late, SchedulerError):
            raise self._late
        return [self._late] * len(schedules)


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_time_that_is_up_at_any_moment_leaves_the_search_out(asked: int) -> None:
    graph = graph_of(DIAMOND)
    known = all_schedules(graph, FakeClockOracle(longest_group))
    proposals = propose(graph, Limited(asked, math.inf), known)
    assert [one.name for one in proposals.found] == [COMBINED]
    assert "no time" in proposals.missing[REFINED]


def test_where_nothing_is_expected_both_are_missing_and_say_why() -> None:
    graph = graph_of(DIAMOND)
    known = all_schedules(graph, FakeClockOracle(longest_group))
    proposals = propose(graph, Limited(0, SchedulerError("no such GPU")), known)
    assert not proposals.found
    assert proposals.missing == {COMBINED: "no such GPU", REFINED: "no such GPU"}


def test_a_search_without_a_guide_leaves_the_combination() -> None:
    class Unprofiled(FakeClockOracle):
        def unit_profiles(self) -> Mapping[str, tuple[Kernel, ...]]:
            raise SchedulerError("the model cannot be profiled")

    graph = graph_of(DIAMOND)
    known = all_schedules(graph, FakeClockOracle(longest_group))
    proposals = propose(graph, Unprofiled(longest_group), known)
    assert [one.name for one in proposals.found] == [COMBINED]
    assert proposals.missing == {REFINED: "the model cannot be profiled"}


def test_without_both_there_is_nothing_to_combine() -> None:
    graph = graph_of(DIAMOND)
    oracle = FakeClockOracle(longest_group)
    known = {"ios": schedulers.create("ios").schedule(graph, oracle).schedule}
    assert "both IOS" in propose(graph, oracle, known, Effort(trials=20)).missing[COMBINED]


def test_what_was_merged_runs_side_by_side_here() -> None:
    graph = graph_of(wide(2))
    oracle = FakeClockOracle(longest_group)
    known = all_schedules(graph, oracle)
    merged = Stage((("u1",), ("u2",)), "merge", threads=(4,))
    known["ios"] = StageSchedule("ios", (Stage((("u0",),)), merged, Stage((("u3",),))))
    proposals = propose(graph, oracle, known, Effort(trials=20))
    combined = next(one.schedule for one in proposals.found if one.name == COMBINED)
    validate(lower(combined, graph, 1), graph)
    assert sorted(combined.units) == ["u0", "u1", "u2", "u3"]


class Providers(FakeClockOracle):
    """Where a Unit takes as long as ``took`` says with each provider, and 10 ms more wherever it
    reads what another provider made: one Unit after the other."""

    def __init__(self, graph: Graph, took: Mapping[str | None, Sequence[float]]) -> None:
        super().__init__(longest_group)
        self._graph, self._took = graph, took
        self.providers = tuple(took)

    def expected_latencies(self, schedules: Sequence[Schedule]) -> list[float]:
        return [self.of(lower(schedule, self._graph, 1)) for schedule in schedules]

    def of(self, plan: Plan) -> float:
        chosen = [plan.launches[i].provider for i in self._places(plan)]
        crossed = sum(
            chosen[position] != chosen[other]
            for position, before in enumerate(self._graph.predecessors)
            for other in before
        )
        alone = (self._took[name][position] for position, name in enumerate(chosen))
        return math.fsum(alone) + 10 * crossed

    def _places(self, plan: Plan) -> list[int]:
        place = {launch.unit: number for number, launch in enumerate(plan.launches)}
        return [place[unit.name] for unit in self._graph.units]


@settings(deadline=None, max_examples=15)
@given(dag=dags(max_units=5), data=st.data())
def test_each_unit_gets_the_kernels_of_the_best_choice(dag: Dag, data: st.DataObject) -> None:
    """As brute force finds it, where changing one Unit alone may cost more than it gains."""
    graph = graph_of(dag)
    times = st.lists(st.integers(1, 60).map(float), min_size=len(dag), max_size=len(dag))
    oracle = Providers(graph, {None: data.draw(times), "b": data.draw(times)})
    known = {"sequential": StageSchedule("s", tuple(Stage(((u.name,),)) for u in graph.units))}
    started = oracle.expected_latencies(list(known.values()))[0]
    plan = lower(known["sequential"], graph, 1)
    best = min(
        oracle.of(
            replace(
                plan,
                launches=tuple(
                    replace(launch, provider=name)
                    for launch, name in zip(plan.launches, choice, strict=True)
                ),
            )
        )
        for choice in itertools.product((None, "b"), repeat=len(dag))
    )
    found = mix_providers(graph, oracle, known)
    if isinstance(found, str):
        assert len(dag) < 2 or best == started
        return
    assert found.expected_ms == best
    assert found.schedule.scheduler == MIXED
    validate(lower(found.schedule, graph, 1), graph)
    named = sum(bool(launch.provider) for launch in lower(found.schedule, graph, 1).launches)
    assert f"{named} of {len(dag)} by b" in found.note


def test_a_provider_that_cannot_run_a_unit_is_left_out_of_it() -> None:
    graph = graph_of(chain(3))
    oracle = Providers(graph, {None: [50.0] * 3, "b": [1.0, math.inf, 1.0], "c": [math.inf] * 3})
    known = {"sequential": StageSchedule("s", tuple(Stage(((u.name,),)) for u in graph.units))}
    found = mix_providers(graph, oracle, known)
    assert isinstance(found, Proposal)
    chosen = [launch.provider for launch in lower(found.schedule, graph, 1).launches]
    assert chosen == ["b", None, "b"]


def test_without_an_expectation_nothing_is_mixed() -> None:
    graph = graph_of(DIAMOND)
    known = all_schedules(graph, FakeClockOracle(longest_group))
    assert mix_providers(graph, Limited(0, SchedulerError("no GPU")), known) == "no GPU"
