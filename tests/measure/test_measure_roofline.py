"""A device's ceilings and its Units' kernels, as a scheduler asks for them."""

from __future__ import annotations

import pytest
import torch
from support.fake_device import ScriptedDevice
from support.graphs import DIAMOND, graph_of

from workers.devices.base import DeviceError
from workers.devices.cpu import CpuDevice
from workers.devices.sim.device import SimDevice
from workers.graph.graph import Graph
from workers.measure.measurement import Failure, Measurement
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.measure.roofline import addition, measured_roofline, product
from workers.schedulers.base import SchedulerError
from workers.schedules.plan import Plan
from workers.schedules.schedule import Placement, Stage, StageSchedule, StreamSchedule


def test_the_ceilings_are_work_over_latency() -> None:
    def measure(graph: Graph) -> Measurement:
        return Measurement.of([2.0 if graph.name == "product" else 4.0])

    roofline = measured_roofline("float32", measure)
    assert roofline.flops_per_s == product("float32").units[0].flops / 2e-3
    assert roofline.bytes_per_s == addition("float32").units[0].bytes_moved / 4e-3
    assert addition("float32").units[0].bytes_moved == 3 * 4 << 25


def test_integers_are_measured_in_float32() -> None:
    def latency(graph: Graph) -> Measurement:
        assert {spec.dtype for spec in graph.values.values()} == {"float32"}
        return Measurement.of([1.0])

    assert measured_roofline("int64", latency).ridge > 0


def test_a_kernel_that_fails_leaves_the_ceilings_unknown() -> None:
    def measure(graph: Graph) -> Measurement:
        return Measurement.failed(Failure.LAUNCH, "no such kernel")

    with pytest.raises(DeviceError, match="product failed: no such kernel"):
        measured_roofline("float32", measure)


def test_a_simulated_gpu_comes_close_to_its_datasheet_and_is_asked_once() -> None:
    device, index = SimDevice("v100"), MemoryIndex()
    oracle = MeasuringOracle(graph_of(DIAMOND), {}, device, index)
    assert oracle.gpu is device.facts.gpu
    roofline = oracle.roofline()
    assert 0.5 * 15.7e12 < roofline.flops_per_s < 15.7e12
    assert 0.6 * 900e9 < roofline.bytes_per_s < 900e9
    assert oracle.measured == 2
    again = MeasuringOracle(graph_of(DIAMOND), {}, device, index)
    assert (again.roofline(), again.measured) == (roofline, 0)


def test_ceilings_for_which_no_time_is_left_are_not_known() -> None:
    oracle = MeasuringOracle(graph_of(DIAMOND), {}, SimDevice("v100"), MemoryIndex(), deadline=0.0)
    with pytest.raises(SchedulerError, match="no time of the budget was left to measure"):
        oracle.roofline()


@pytest.mark.parametrize("simulated", [True, False])
def test_every_units_kernels_are_known(simulated: bool) -> None:
    graph = graph_of(DIAMOND)
    device = SimDevice("v100") if simulated else CpuDevice()
    oracle = MeasuringOracle(graph, {"w": torch.randn(8, 8)}, device, MemoryIndex())
    profiles = oracle.unit_profiles()
    assert list(profiles) == [unit.name for unit in graph.units]
    for unit, kernels in profiles.items():
        assert kernels
        assert all(kernel.unit == unit and kernel.duration_ms > 0 for kernel in kernels)
        assert all((kernel.grid is not None) is simulated for kernel in kernels)


def test_whole_schedules_are_measured_as_they_are_lowered() -> None:
    def crossings(graph: Graph, plan: Plan) -> float:
        return 10.0 * len(plan.streams) + len(plan.launches)

    device = ScriptedDevice(crossings)
    oracle = MeasuringOracle(graph_of(DIAMOND), {}, device, MemoryIndex())
    names = [unit.name for unit in graph_of(DIAMOND).units]
    sequential = StageSchedule("test", tuple(Stage(((name,),)) for name in names))
    two = StreamSchedule("test", tuple(Placement(n, i == 1) for i, n in enumerate(names)))
    found = oracle.schedule_latencies([sequential, two, sequential])
    assert [answer.latency_ms for answer in found] == [14.0, 24.0, 14.0]


def test_a_model_that_cannot_run_cannot_be_profiled() -> None:
    device = SimDevice("v100")
    device.close()
    oracle = MeasuringOracle(graph_of(DIAMOND), {}, device, MemoryIndex())
    with pytest.raises(SchedulerError, match=r"cannot be profiled: .*closed"):
        oracle.unit_profiles()
