"""Simulated devices: what holds for them beside what holds for every device."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, SIDE, Dag, chain, dags, graph_of, wide
from support.schedules import schedules, sequential

from workers.devices import discover, open_device
from workers.devices.base import CancelledError, DeviceError
from workers.devices.sim import facts
from workers.devices.sim.device import SimDevice
from workers.devices.sim.facts import facts_of
from workers.devices.sim.launch_path import PATHS
from workers.devices.sim.specs import SPECS
from workers.devices.sim.values import PlanRunner
from workers.graph.random_inputs import random_inputs
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage, StageSchedule

WEIGHTS = {"w": torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(1)) / 3}
MATRIX = 4 * SIDE * SIDE


def test_every_gpu_of_the_table_is_found_and_marked_simulated() -> None:
    found = {each.name: each for each in discover() if each.kind == "sim"}
    assert list(found) == [f"sim:{name}" for name in SPECS]
    for name, spec in SPECS.items():
        each = found[f"sim:{name}"]
        assert each.simulated
        assert "simulated" in each.description
        assert each.gpu == spec.gpu
        assert each.providers == ("aten",)
        assert open_device(each.name).facts == each


def test_fingerprints_tell_gpus_launch_paths_and_models_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prints = {facts_of(name, issue).fingerprint for name in SPECS for issue in PATHS}
    assert len(prints) == len(PATHS) * len(SPECS)
    monkeypatch.setattr(facts, "MODEL_VERSION", "another")
    facts._facts.cache_clear()
    assert facts_of("v100").fingerprint not in prints
    facts._facts.cache_clear()


def test_an_unknown_gpu_is_named() -> None:
    with pytest.raises(DeviceError, match="no GPU 'gtx1' can be simulated; known: sim:k80"):
        open_device("sim:gtx1")


def test_a_provider_without_models_is_refused() -> None:
    graph = graph_of(DIAMOND)
    with pytest.raises(DeviceError, match="has no kernels of provider 'inductor'; known: aten"):
        SimDevice("v100").prepare(
            graph, WEIGHTS, lower(sequential(graph), graph, 1), provider="inductor"
        )


def test_times_need_no_weights_and_no_torch_operator() -> None:
    """Neither weights nor the interpreter are there, and the time is what it always is."""
    graph = graph_of(wide(5))
    plan = lower(sequential(graph), graph, 1)
    device, inputs = SimDevice("v100"), random_inputs(graph, 0)
    with device.prepare(graph, {}, plan) as executable:
        times = executable.time(inputs, 5)
        with pytest.raises(DeviceError, match="weight 'w', which is missing"):
            executable.run(inputs)
    assert len(set(times)) == 1
    assert times[0] == device.latency_ms(graph, plan) == SimDevice("v100").latency_ms(graph, plan)
    code = (
        "import sys; from workers.devices.sim.device import SimDevice; SimDevice('v100');"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@settings(deadline=None, max_examples=30)
@given(data=st.data(), dag=dags(max_units=8))
def test_a_timeline_explains_itself(data: st.DataObject, dag: Dag) -> None:
    """What a Unit waited for adds up to when it began, counted from when its stream was free."""
    graph = graph_of(dag)
    plan = lower(data.draw(schedules(graph, dag)), graph, 1)
    device = SimDevice("rtx2080ti")
    inputs = random_inputs(graph, 0)
    with device.prepare(graph, {}, plan) as executable:
        timeline = executable.timeline(inputs)
        kernels = executable.profile(inputs)
        latency = executable.time(inputs, 1)[0]
    launched = latency - max(span.end_ms for span in timeline.spans)
    spans = {span.unit: span for span in timeline.spans}
    free: dict[int, float] = {}
    for launch in plan.launches:
        span = spans[launch.unit]
        since = free.get(launch.stream, -launched)
        assert sum(wait.ms for wait in span.waited) == pytest.approx(span.start_ms - since)
        assert [wait.ms for wait in span.waited] == sorted(
            (wait.ms for wait in span.waited), reverse=True
        )
        free[launch.stream] = span.end_ms
    assert timeline.resident_warps[0][0] == 0
    assert timeline.resident_warps[-1][1] == 0
    # Warps times duration, of the timeline and of one block of four warps for each kernel.
    area = sum(
        warps * (after - begin) for (begin, warps), (after, _) in pairwise(timeline.resident_warps)
    )
    assert all(kernel.block == (128, 1, 1) and kernel.grid == (1, 1, 1) for kernel in kernels)
    assert area == pytest.approx(sum(4 * kernel.duration_ms for kernel in kernels))
    assert kernels[0].unit == timeline.spans[0].unit


def test_memory_is_what_lives_at_once() -> None:
    def peak(dag: Dag) -> int:
        graph = graph_of(dag)
        plan = lower(sequential(graph), graph, 1)
        with SimDevice("v100").prepare(graph, {}, plan) as executable:
            use = executable.memory(random_inputs(graph, 0))
        assert use.weights_bytes == MATRIX
        return use.peak_bytes // MATRIX

    assert peak(chain(1)) == 2  # the input and the result
    assert peak(chain(10)) == 3  # the input, what is read and what is made
    assert peak(wide(5)) == 7  # beside the input a source and five branches, then these and a join


def test_a_run_can_be_cancelled_and_the_next_one_works() -> None:
    graph = graph_of(chain(4000))
    plan = lower(sequential(graph), graph, 1)
    inputs = random_inputs(graph, 0)
    with SimDevice("v100").prepare(graph, WEIGHTS, plan) as executable:
        executable.run(inputs)
        executable.cancel()  # nothing is running
        executable.run(inputs)
        over = threading.Event()

        def cancel() -> None:
            while not over.wait(0.002):
                executable.cancel()

        other = threading.Thread(target=cancel)
        other.start()
        started = time.perf_counter()

        def run_on() -> None:
            while time.perf_counter() < started + 20:
                executable.run(inputs)

        with pytest.raises(CancelledError, match="was cancelled"):
            run_on()
        over.set()
        other.join()
        assert executable.run(inputs).keys() == set(graph.outputs)


def test_values_are_dropped_when_they_have_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(chain(6))
    runner, inputs = PlanRunner(graph, WEIGHTS), random_inputs(graph, 0)
    order = [unit.name for unit in graph.units]
    kept: list[int] = []
    original = PlanRunner._drop

    def counting(self: PlanRunner, unit: str, readers: object, values: dict[str, object]) -> None:
        original(self, unit, readers, values)  # type: ignore[arg-type]  # passed on as they came
        kept.append(len(values))

    monkeypatch.setattr(PlanRunner, "_drop", counting)
    outputs = runner.run(inputs, order, graph.outputs, False, lambda: None)
    assert kept == [1] * 6
    everything = runner.run(inputs, order, order, True, lambda: None)
    assert torch.equal(everything["u5"], outputs["u5"])


def test_a_wrong_order_fails_and_names_the_unit() -> None:
    graph = graph_of(chain(3))
    runner = PlanRunner(graph, WEIGHTS)
    with pytest.raises(DeviceError, match="unit 'u2' failed: it reads 'u1', which is not computed"):
        runner.run(random_inputs(graph, 0), ["u0", "u2", "u1"], graph.outputs, False, lambda: None)


def test_another_batch_of_the_same_unit_is_another_work() -> None:
    """Kernels are kept by Unit, but not across shapes."""
    graph = graph_of(chain(1))
    plan = lower(sequential(graph), graph, 1)
    larger = replace(
        graph,
        values={
            name: spec if name == "w" else replace(spec, shape=(4096 * SIDE, SIDE))
            for name, spec in graph.values.items()
        },
    )
    device = SimDevice("v100")
    assert device.latency_ms(larger, plan) > device.latency_ms(graph, plan)


def test_a_closed_device_times_nothing() -> None:
    graph = graph_of(DIAMOND)
    device = SimDevice("v100")
    device.close()
    with pytest.raises(DeviceError, match="closed"):
        device.latency_ms(graph, lower(sequential(graph), graph, 1))


def test_equal_plans_of_other_units_take_as_long_and_are_simulated_once() -> None:
    """Three Units that do the same: alone, and two side by side."""
    graph = graph_of(((), (), ()))
    device = SimDevice("v100")

    def latency(other: SimDevice, *units: str) -> float:
        stage = Stage(tuple((unit,) for unit in units))
        return other.latency_ms(graph, lower(StageSchedule("stage", (stage,)), graph, 1))

    for units in (("u0",), ("u1",), ("u0", "u1"), ("u1", "u2")):
        assert latency(device, *units) == latency(SimDevice("v100"), *units)
    assert latency(device, "u0", "u1") == latency(device, "u1", "u2")
    assert latency(device, "u0", "u1") > latency(device, "u2")
