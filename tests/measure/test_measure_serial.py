"""The serial measurer on a device with known latencies."""

from __future__ import annotations

import math
from itertools import count

import pytest
from support.fake_device import ScriptedDevice, ScriptedExecutable
from support.graphs import chain, graph_of
from support.schedules import sequential

from workers.devices.base import DeviceError
from workers.graph.graph import Graph
from workers.measure.effort import Effort
from workers.measure.measurement import Failure, Measurement
from workers.measure.serial import Candidate, SerialMeasurer, warm_up
from workers.schedules.lower import lower
from workers.schedules.plan import Plan


def candidate(units: int) -> Candidate:
    graph = graph_of(chain(units))
    return Candidate(graph, {}, lower(sequential(graph), graph, 2))


def one_ms_a_unit(graph: Graph, plan: Plan) -> float:
    return float(len(plan.launches))


@pytest.mark.parametrize(
    ("latency_ms", "repeats"), [(0.01, 100), (1.0, 30), (5.0, 10), (60.0, 5), (1000.0, 2)]
)
def test_repeats_fill_the_time_within_their_bounds(latency_ms: float, repeats: int) -> None:
    assert Effort().repeats(latency_ms) == repeats


def test_a_batch_gives_measurements_in_order_and_a_round() -> None:
    measurer = SerialMeasurer(ScriptedDevice(one_ms_a_unit))
    batch = measurer.measure([candidate(3), candidate(1)])
    assert [m.latency_ms for m in batch.measurements] == [3.0, 1.0]
    assert [m.samples for m in batch.measurements] == [10, 30]
    assert all(m.simulated and m.low_ms == m.high_ms == m.latency_ms for m in batch.measurements)
    (found,) = batch.rounds
    assert (found.number, found.candidates, found.failures) == (1, 2, 0)
    assert found.degree_of_parallelism == 1
    assert measurer.measure([candidate(1)]).rounds[0].number == 2


@pytest.mark.parametrize(
    ("cause", "failure"),
    [
        (RuntimeError("shapes do not match"), Failure.LAUNCH),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), Failure.OUT_OF_MEMORY),
        (MemoryError(), Failure.OUT_OF_MEMORY),
    ],
)
def test_a_failing_candidate_is_infinite_and_the_others_are_measured(
    cause: Exception, failure: Failure
) -> None:
    def latency(graph: Graph, plan: Plan) -> float:
        if len(plan.launches) == 2:
            raise DeviceError("unit 'u1' failed") from cause
        return 1.0

    device = ScriptedDevice(latency)
    batch = SerialMeasurer(device).measure([candidate(1), candidate(2), candidate(3)])
    assert [m.failure for m in batch.measurements] == [None, failure, None]
    assert math.isinf(batch.measurements[1].latency_ms)
    assert batch.measurements[1].reason == "unit 'u1' failed"
    assert batch.rounds[0].failures == 1
    assert all(executable.closed for executable in device.prepared)


def test_what_is_left_when_the_budget_is_used_up_is_not_measured() -> None:
    asked = count()
    device = ScriptedDevice(one_ms_a_unit)
    batch = SerialMeasurer(device).measure([candidate(1)] * 5, expired=lambda: next(asked) >= 2)
    assert [m.failure for m in batch.measurements] == [None, None, *[Failure.BUDGET] * 3]
    assert len(device.prepared) == 2
    assert (batch.rounds[0].candidates, batch.rounds[0].failures) == (2, 0)


def test_each_measurement_is_handed_over_before_the_next_candidate_is_touched() -> None:
    asked = count()
    device = ScriptedDevice(one_ms_a_unit)
    handed: list[tuple[int, int, Measurement]] = []
    batch = SerialMeasurer(device).measure(
        [candidate(1)] * 4,
        expired=lambda: next(asked) >= 3,
        taken=lambda position, m: handed.append((position, len(device.prepared), m)),
    )
    assert [(position, prepared) for position, prepared, _ in handed] == [(0, 1), (1, 2), (2, 3)]
    assert [m for _, _, m in handed] == list(batch.measurements[:3])


def test_warming_up_ends_when_the_latency_no_longer_falls() -> None:
    falling = ScriptedExecutable(lambda run: max(10.0 - run, 4.0))
    assert warm_up(falling, {}, limit_ms=1000) == 4.0
    assert falling.runs == 11  # 5, 4, 4 and then 4, 4, 4


@pytest.mark.parametrize("odd", [0.1, 5.0])
def test_one_odd_run_does_not_end_the_warming_up_nor_prolong_it(odd: float) -> None:
    still_falling = ScriptedExecutable(lambda run: odd if run == 4 else max(20.0 - run, 10.0))
    assert warm_up(still_falling, {}, limit_ms=1000) == 10.0
    steady = ScriptedExecutable(lambda run: odd if run == 4 else 1.0)
    assert warm_up(steady, {}, limit_ms=1000) == 1.0
    assert steady.runs == 6


def test_warming_up_is_bounded() -> None:
    endless = ScriptedExecutable(lambda run: 100.0 * 0.9**run)
    warm_up(endless, {}, limit_ms=250)
    assert endless.runs == 3
