"""What is expected of whole schedules on devices of each kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from support.graphs import DIAMOND, graph_of

from workers.devices.base import DeviceError
from workers.devices.cpu import CpuDevice
from workers.devices.sim.device import SimDevice
from workers.measure.expected import CpuExpectation, GpuExpectation
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.schedulers.base import BUDGET, StageLatency
from workers.schedules.schedule import Placement, Stage, StageSchedule, StreamSchedule

NAMES = ("u0", "u1", "u2", "u3")
SEQUENTIAL = StageSchedule("test", tuple(Stage(((name,),)) for name in NAMES))
TWO_STREAMS = StreamSchedule("test", tuple(Placement(name, name == "u2") for name in NAMES))


def test_units_are_asked_for_once_on_the_threads_that_they_get() -> None:
    asked: list[Stage] = []

    def ask(stages: Sequence[Stage]) -> list[StageLatency]:
        asked.extend(stages)
        return [StageLatency(4.0 / stage.threads[0]) for stage in stages]

    expectation = CpuExpectation(graph_of(DIAMOND), 2, ask, bytes_per_s=1e15)
    sequential, streams = expectation([SEQUENTIAL, TWO_STREAMS])
    assert sequential == pytest.approx(4 * 2.0)
    assert streams == pytest.approx(3 * 4.0, rel=1e-2)
    assert expectation([SEQUENTIAL, TWO_STREAMS]) == [sequential, streams]
    assert len(asked) == len(set(asked)) == 8


def test_what_was_not_measured_has_no_expectation() -> None:
    def ask(stages: Sequence[Stage]) -> list[StageLatency]:
        return [StageLatency(math.inf, BUDGET) for _ in stages]

    expectation = CpuExpectation(graph_of(DIAMOND), 2, ask, bytes_per_s=1e15)
    assert expectation([SEQUENTIAL]) == [math.inf]


def test_where_time_is_simulated_the_expectation_is_exact() -> None:
    oracle = MeasuringOracle(graph_of(DIAMOND), {}, SimDevice("v100"), MemoryIndex())
    found = [answer.latency_ms for answer in oracle.schedule_latencies([SEQUENTIAL, TWO_STREAMS])]
    assert list(oracle.expected_latencies([SEQUENTIAL, TWO_STREAMS])) == found
    assert found[0] != found[1]


def test_on_a_cpu_the_expectation_follows_from_measured_units() -> None:
    device = CpuDevice()
    try:
        oracle = MeasuringOracle(graph_of(DIAMOND), {"w": torch.randn(8, 8)}, device, MemoryIndex())
        units = oracle.stage_latencies(SEQUENTIAL.stages)
        (expected,) = oracle.expected_latencies([SEQUENTIAL])
    finally:
        device.close()
    assert expected == pytest.approx(sum(answer.latency_ms for answer in units), rel=1e-6)


def test_a_gpu_is_expected_to_do_what_its_simulator_does_with_its_kernels() -> None:
    """Profiled on the simulated GPU itself, so that what is expected can be known: the same but for
    what recorded kernels do not tell, which is how much they compute and how much they load."""
    device = SimDevice("v100")
    oracle = MeasuringOracle(graph_of(DIAMOND), {}, device, MemoryIndex())
    gpu = device.facts.gpu
    assert gpu is not None
    expectation = GpuExpectation(gpu, graph_of(DIAMOND), oracle.unit_profiles())
    found = [answer.latency_ms for answer in oracle.schedule_latencies([SEQUENTIAL, TWO_STREAMS])]
    assert expectation([SEQUENTIAL, TWO_STREAMS]) == pytest.approx(found, rel=0.05)


def test_a_gpu_of_an_unknown_generation_has_no_expectation() -> None:
    device = SimDevice("v100")
    gpu = device.facts.gpu
    assert gpu is not None
    profiles = MeasuringOracle(graph_of(DIAMOND), {}, device, MemoryIndex()).unit_profiles()
    with pytest.raises(DeviceError, match=r"compute capability 12\.x, such as"):
        GpuExpectation(replace(gpu, compute_capability=(12, 0)), graph_of(DIAMOND), profiles)
