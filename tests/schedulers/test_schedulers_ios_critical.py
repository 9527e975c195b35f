"""The critical path bounds all schedules, in the search space or not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, chain, dags, graph_of, successors_of, wide
from support.oracles import FakeClockOracle
from support.shared_device import SharedDevice
from test_schedulers_ios import every_schedule

from workers.schedulers.base import SearchProgress
from workers.schedulers.endings import Pruning
from workers.schedulers.ios import IosScheduler
from workers.schedulers.ios.critical import critical_path_ms
from workers.schedulers.ios.parts import divide
from workers.schedulers.ios.scheduler import Mode
from workers.schedules.mergeable import mergeable
from workers.schedules.schedule import Stage


@settings(deadline=None, max_examples=60)
@given(dags(max_units=6), st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 40))
def test_no_schedule_at_all_is_faster(dag: Dag, seed: int, r: int, most: int) -> None:
    """However the search was pruned or divided, and if stages are merged, too."""
    graph = graph_of(dag)
    device = SharedDevice(seed, graph)

    def fastest(stage: Stage) -> float:
        merged = replace(stage, strategy="merge")
        can = len(stage.units) > 1 and mergeable(graph, stage.units) is None
        return min(device(stage), device(merged)) if can else device(stage)

    best = min(sum(map(fastest, stages)) for stages in every_schedule(graph, dag))
    alone = [device(Stage(((unit.name,),))) for unit in graph.units]
    bound = critical_path_ms(successors_of(dag), np.array(alone))
    assert bound is not None
    assert bound <= best
    # On this device Units of equal structure are not equally fast, but are measured once.
    parts = divide(graph, Pruning(r, 2), "paper", most).parts
    if all(len(part.occurrences) == 1 for part in parts):
        result = IosScheduler(r, 2, max_transitions=most).schedule(graph, FakeClockOracle(device))
        assert result.critical_path_ms == bound


def test_what_every_measurement_takes_is_counted_once() -> None:
    latencies = np.array([5.0, 7.0, 6.0, 2.0])
    assert critical_path_ms(successors_of(DIAMOND), latencies) == 5.0 + 7.0 + 2.0 - 2 * 2.0
    assert critical_path_ms(successors_of(chain(4)), latencies) == 20.0 - 3 * 2.0
    assert critical_path_ms(((), (), (), ()), latencies) == 7.0


def test_a_unit_that_failed_counts_as_the_fastest() -> None:
    latencies = np.array([5.0, math.inf, 2.0])
    assert critical_path_ms(successors_of(chain(3)), latencies) == 5.0
    assert critical_path_ms(((), ()), np.full(2, math.inf)) is None


@pytest.mark.parametrize("mode", ["exhaustive", "exact", "guided"])
def test_it_is_known_once_the_single_units_are(mode: Mode) -> None:
    graph = graph_of(wide(6))
    told: list[SearchProgress] = []
    oracle = FakeClockOracle(SharedDevice(1, graph))
    result = IosScheduler(mode=mode).schedule(graph, oracle, told.append)
    assert told[0].critical_path_ms is None
    assert {progress.critical_path_ms for progress in told[1:]} == {result.critical_path_ms}
    bounds = [progress.bound_ms for progress in told if progress.bound_ms is not None]
    assert bounds == sorted(bounds)
    early = IosScheduler(mode=mode).schedule(graph, FakeClockOracle(SharedDevice(1, graph), 5))
    assert early.critical_path_ms is None


def test_it_is_named_where_the_search_gave_something_up() -> None:
    graph = graph_of(tuple(() for _ in range(12)))
    device = SharedDevice(2, graph)
    whole = IosScheduler().schedule(graph, FakeClockOracle(device))
    divided = IosScheduler(max_transitions=500).schedule(graph, FakeClockOracle(device))
    assert not any("critical path" in note for note in whole.notes)
    assert any("pieces" in note for note in divided.notes)
    assert f"faster than {divided.critical_path_ms:.4g} ms: the critical path" in str(divided.notes)


def test_it_is_no_bound_once_a_measured_schedule_is_faster() -> None:
    """A device on which a Unit is quicker behind another than alone."""
    graph = graph_of(((), (0,), (1,), ()))
    apart = FakeClockOracle(lambda stage: 5.0 if stage.units[0] != "u3" else 1.0)
    assert IosScheduler(1, 1).schedule(graph, apart).critical_path_ms == 15.0 - 3.0 + 1.0
    assert IosScheduler(3, 1).schedule(graph, apart).critical_path_ms is None
