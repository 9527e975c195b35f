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
from workers.measure.expected import CpuExpectation, GpuExpectation, Placed
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.measure.unit_times import UnitTimes
from workers.schedules.schedule import Placement, Stage, StageSchedule, StreamSchedule

NAMES = ("u0", "u1", "u2", "u3")
SEQUENTIAL = StageSchedule("test", tuple(Stage(((name,),)) for name in NAMES))
TWO_STREAMS = StreamSchedule("test", tuple(Placement(name, name == "u2") for name in NAMES))


def test_units_are_asked_for_once_on_the_threads_that_they_get() -> None:
    asked: list[Placed] = []

    def ask(placed: Sequence[Placed]) -> list[float]:
        asked.extend(placed)
        return [4.0 / threads for _, threads, _ in placed]

    expectation = CpuExpectation(graph_of(DIAMOND), 2, ask, bytes_per_s=1e15)
    sequential, streams = expectation([SEQUENTIAL, TWO_STREAMS])
    assert sequential == pytest.approx(4 * 2.0)
    assert streams == pytest.approx(3 * 4.0, rel=1e-2)
    assert expectation([SEQUENTIAL, TWO_STREAMS]) == [sequential, streams]
    assert len(asked) == len(set(asked)) == 8


def test_what_was_not_measured_has_no_expectation() -> None:
    def ask(placed: Sequence[Placed]) -> list[float]:
        return [math.inf for _ in placed]

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
    expectation = GpuExpectation(gpu, graph_of(DIAMOND), {None: oracle.unit_profiles()})
    found = [answer.latency_ms for answer in oracle.schedule_latencies([SEQUENTIAL, TWO_STREAMS])]
    assert expectation([SEQUENTIAL, TWO_STREAMS]) == pytest.approx(found, rel=0.05)


def test_a_gpu_of_an_unknown_generation_has_no_expectation() -> None:
    device = SimDevice("v100")
    gpu = device.facts.gpu
    assert gpu is not None
    profiles = MeasuringOracle(graph_of(DIAMOND), {}, device, MemoryIndex()).unit_profiles()
    unknown = replace(gpu, compute_capability=(12, 0))
    with pytest.raises(DeviceError, match=r"compute capability 12\.x, such as"):
        GpuExpectation(unknown, graph_of(DIAMOND), {None: profiles})


def test_a_unit_copies_what_another_provider_left_in_another_layout() -> None:
    """An estimate of the memory's bandwidth: what is read and written, once each."""
    graph = graph_of(DIAMOND)
    value = graph.units[0].outputs[0]
    nbytes = graph.values[value].nbytes

    def ask(placed: Sequence[Placed]) -> list[float]:
        return [4.0 for _ in placed]

    def layouts(provider: str | None) -> dict[str, tuple[int, ...]]:
        return {} if provider is None else {value: (1, 0)}

    bytes_per_s = 2 * nbytes * 1e3  # a copy of a value takes 1 ms
    expectation = CpuExpectation(graph, 1, ask, bytes_per_s, layouts)

    def expected(*names: str | None) -> float:
        placements = [Placement(*one) for one in zip(NAMES, [0] * 4, names, strict=True)]
        return expectation([StreamSchedule("test", tuple(placements))])[0]

    assert expected(None, None, None, None) == pytest.approx(16.0)
    assert expected("b", "b", "b", "b") == pytest.approx(16.0)
    assert expected("b", "b", None, None) == pytest.approx(17.0)  # u2 reads u0
    assert expected("b", None, None, "b") == pytest.approx(18.0)  # u1 and u2 do
    assert expected(None, None, None, "b") == pytest.approx(16.0)  # what u3 reads lies alike


def test_a_gpu_is_expected_to_run_the_kernels_that_a_plan_names() -> None:
    device = SimDevice("v100")
    gpu = device.facts.gpu
    assert gpu is not None
    graph = graph_of(DIAMOND)
    own = MeasuringOracle(graph, {}, device, MemoryIndex()).unit_profiles()
    twice = {name: (*kernels, *kernels) for name, kernels in own.items()}
    expectation = GpuExpectation(gpu, graph, {None: own, "b": twice})

    def schedule(names: Sequence[str | None]) -> StreamSchedule:
        placements = [Placement(*one) for one in zip(NAMES, [0] * 4, names, strict=True)]
        return StreamSchedule("test", tuple(placements))

    none, one, every = expectation(
        [schedule(names) for names in ([None] * 4, ["b", None, None, None], ["b"] * 4)]
    )
    assert none < one < every
    assert every == pytest.approx(2 * none, rel=0.2)


def test_on_a_cpu_providers_are_compared_by_runs_of_the_whole_model() -> None:
    device = CpuDevice()
    try:
        graph, weights = graph_of(DIAMOND), {"w": torch.randn(8, 8)}
        others = ("onnxruntime", "none of that name")
        oracle = MeasuringOracle(graph, weights, device, MemoryIndex(), others=others)
        assert oracle.providers == (None, *others)
        placements = [
            [Placement(name, 0, provider) for name in NAMES] for provider in oracle.providers
        ]
        found = oracle.expected_latencies(
            [StreamSchedule("test", tuple(placed)) for placed in placements]
        )
        assert oracle.measured <= 3  # the ceilings, no unit
        assert list(oracle.unusable) == ["none of that name"]
    finally:
        device.close()
    assert all(0 < latency_ms < 1e3 for latency_ms in found[:2])
    assert found[2] == math.inf
    assert found[0] != found[1]


def test_unit_times_say_why_a_provider_has_none_and_end_with_the_time() -> None:
    device = CpuDevice()
    try:
        graph, weights = graph_of(DIAMOND), {"w": torch.randn(8, 8)}
        times = UnitTimes(device, graph, weights, "aten")
        most = device.facts.parallelism
        own, other = times([("u0", most, None), ("u0", most, "tvm")])
        assert 0 < own < 1e3
        assert other == math.inf
        assert "no kernels of provider 'tvm'" in times.failures["tvm"]
        late = UnitTimes(device, graph, weights, "aten", deadline=0.0)
        assert late([("u0", most, None)]) == [math.inf]
    finally:
        device.close()
