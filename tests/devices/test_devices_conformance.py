"""What holds for every device of this machine.

Simulated devices differ in numbers alone: two of them pass the whole suite, the others a part.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, SIDE, Dag, chain, dags, graph_of, wide
from support.schedules import schedules, sequential, stream_schedules
from torch import Tensor

from workers import devices
from workers.devices import discover, open_device
from workers.devices.base import CancelledError, Device, DeviceError
from workers.graph.graph import Graph, Operator, ValueRef
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.schedulers.greedy import GreedyScheduler
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.validate import PlanError

WEIGHTS = {"w": torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(1)) / 3}


REAL = [facts.name for facts in discover() if not facts.simulated]
SIMULATED = [facts.name for facts in discover() if facts.simulated]


@pytest.fixture(scope="module", params=[*REAL, *SIMULATED[:2]])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    opened = open_device(request.param)
    yield opened
    opened.close()


def greedy(graph: Graph, device: Device) -> Plan:
    class Unasked:
        parallelism = device.facts.parallelism

        def stage_latencies(self, stages: object) -> list[object]:
            raise AssertionError

    schedule = GreedyScheduler().schedule(graph, Unasked()).schedule
    return lower(schedule, graph, device.facts.parallelism)


def any_plan(data: st.DataObject, device: Device, graph: Graph, dag: Dag) -> Plan:
    """A random Plan: of stages, or of streams."""
    drawn = data.draw(schedules(graph, dag) | stream_schedules(graph, dag))
    return lower(drawn, graph, device.facts.parallelism)


def all_values(graph: Graph, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """What every Unit computes, by the reference."""
    names = tuple(name for unit in graph.units for name in unit.outputs)
    return run_graph(replace(graph, outputs=names), WEIGHTS, inputs)


def assert_same(outputs: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert outputs.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(outputs[name], tensor, rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(data=st.data(), dag=dags(max_units=8), seed=st.integers(0, 99))
def test_a_run_computes_what_the_interpreter_does(
    device: Device, data: st.DataObject, dag: Dag, seed: int
) -> None:
    graph = graph_of(dag)
    plan = any_plan(data, device, graph, dag)
    inputs = random_inputs(graph, seed)
    with device.prepare(graph, WEIGHTS, plan) as executable:
        assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))
        assert_same(executable.values(inputs), all_values(graph, inputs))


@pytest.mark.parametrize("dag", [chain(30), wide(12), DIAMOND], ids=["chain", "wide", "diamond"])
def test_repeated_runs_are_equal_and_inputs_matter(device: Device, dag: Dag) -> None:
    graph = graph_of(dag)
    with device.prepare(graph, WEIGHTS, greedy(graph, device)) as executable:
        first = executable.run(random_inputs(graph, 0))
        other = executable.run(random_inputs(graph, 1))
        executable.time(random_inputs(graph, 2), repeats=20)
        again = executable.run(random_inputs(graph, 0))
    for name, tensor in first.items():
        assert torch.equal(tensor, again[name])
        assert not torch.equal(tensor, other[name])


def test_time_gives_a_latency_for_each_run(device: Device) -> None:
    graph = graph_of(wide(3))
    with device.prepare(graph, WEIGHTS, greedy(graph, device)) as executable:
        latencies = executable.time(random_inputs(graph, 0), repeats=7)
    assert len(latencies) == 7
    assert all(0 < latency < 1000 for latency in latencies)


@settings(deadline=None, max_examples=20)
@given(data=st.data(), dag=dags(max_units=8))
def test_a_timeline_covers_every_unit_in_order(
    device: Device, data: st.DataObject, dag: Dag
) -> None:
    graph = graph_of(dag)
    plan = any_plan(data, device, graph, dag)
    with device.prepare(graph, WEIGHTS, plan) as executable:
        spans = executable.timeline(random_inputs(graph, 0)).spans
    assert {span.unit: span.stream for span in spans} == {
        launch.unit: launch.stream for launch in plan.launches
    }
    assert len(spans) == len(plan.launches)
    assert min(span.start_ms for span in spans) == 0
    by_unit = {span.unit: span for span in spans}
    for unit, predecessors in zip(graph.units, graph.predecessors, strict=True):
        span = by_unit[unit.name]
        assert span.start_ms <= span.end_ms
        assert span.kind == unit.kind
        for before in predecessors:
            assert by_unit[graph.units[before].name].end_ms <= span.start_ms
    for stream in range(len(plan.streams)):
        ordered = [by_unit[launch.unit] for launch in plan.launches if launch.stream == stream]
        for earlier, later in itertools.pairwise(ordered):
            assert earlier.end_ms <= later.start_ms


@settings(deadline=None, max_examples=20)
@given(data=st.data(), dag=dags(max_units=8))
def test_a_profile_and_memory_cover_every_unit(
    device: Device, data: st.DataObject, dag: Dag
) -> None:
    graph = graph_of(dag)
    inputs = random_inputs(graph, 0)
    with device.prepare(graph, WEIGHTS, any_plan(data, device, graph, dag)) as executable:
        kernels = executable.profile(inputs)
        memory = executable.memory(inputs)
    assert {kernel.unit for kernel in kernels} == set(graph.index)
    assert all(kernel.name and 0 <= kernel.duration_ms < 1000 for kernel in kernels)
    if device.facts.gpu is None:
        assert all(kernel.grid is None and kernel.block is None for kernel in kernels)
    assert memory.weights_bytes == WEIGHTS["w"].nbytes
    computed = [spec for name, spec in graph.values.items() if name != "w"]
    # An allocator may round each value up.
    most = sum(-(-spec.nbytes // 512) * 512 for spec in computed)
    # The last Unit of all reads something, and writes its output.
    assert 2 * computed[0].nbytes <= memory.peak_bytes <= most


def test_a_cancelled_run_ends_soon_and_the_next_one_is_right(device: Device) -> None:
    graph = graph_of(wide(4))
    inputs = random_inputs(graph, 0)
    with device.prepare(graph, WEIGHTS, greedy(graph, device)) as executable:
        executable.cancel()  # nothing is in progress
        if not device.facts.simulated:
            for _ in range(3):
                canceller = threading.Timer(0.1, executable.cancel)
                canceller.start()
                started = time.monotonic()
                with pytest.raises(CancelledError, match="graph 'dag' was cancelled"):
                    executable.time(inputs, repeats=10**7)
                assert time.monotonic() - started < 10
                canceller.join()
        assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))
        executable.cancel()
        assert len(executable.time(inputs, repeats=3)) == 3


def test_every_provider_computes_the_same(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_KERNEL_CACHE", str(tmp_path))
    graph = graph_of(chain(2))
    plan = lower(sequential(graph), graph, device.facts.parallelism)
    inputs = random_inputs(graph, 0)
    assert device.facts.providers[0] == "aten"
    for provider in device.facts.providers:
        with device.prepare(graph, WEIGHTS, plan, provider) as executable:
            assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))
            assert {kernel.unit for kernel in executable.profile(inputs)} == set(graph.index)
    with pytest.raises(DeviceError, match="provider 'tvm'"):
        device.prepare(graph, WEIGHTS, plan, "tvm")


def test_units_of_one_plan_may_have_kernels_of_different_providers(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_KERNEL_CACHE", str(tmp_path))
    graph = graph_of(DIAMOND)
    plan = lower(sequential(graph), graph, device.facts.parallelism)
    inputs = random_inputs(graph, 0)

    def named(names: Iterable[str | None]) -> Plan:
        launches = zip(plan.launches, names, strict=False)
        return replace(plan, launches=tuple(replace(one, provider=name) for one, name in launches))

    with device.prepare(
        graph, WEIGHTS, named(itertools.cycle([*device.facts.providers, None]))
    ) as mixed:
        assert_same(mixed.run(inputs), run_graph(graph, WEIGHTS, inputs))
        assert_same(mixed.run(inputs), run_graph(graph, WEIGHTS, inputs))
        assert {kernel.unit for kernel in mixed.profile(inputs)} == set(graph.index)
    with pytest.raises(DeviceError, match="provider 'tvm'"):
        device.prepare(graph, WEIGHTS, named([None, "tvm", None, None]))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("repeats", [1, 5])
def test_a_failing_unit_is_named_and_nothing_hangs(device: Device, repeats: int) -> None:
    graph = graph_of(wide(4))
    wrong = {**WEIGHTS, "w2": torch.zeros(SIDE + 1, SIDE)}
    broken = _with_second_weight(graph, "u3")
    with device.prepare(broken, wrong, greedy(broken, device)) as executable:
        for _ in range(3):
            with pytest.raises(DeviceError, match="unit 'u3' failed"):
                executable.time(random_inputs(broken, 0), repeats)
    with device.prepare(graph, WEIGHTS, greedy(graph, device)) as executable:
        inputs = random_inputs(graph, 0)
        assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))


def _with_second_weight(graph: Graph, name: str) -> Graph:
    """Let one Unit read the weight ``w2`` in place of ``w``."""

    def renamed(operator: Operator) -> Operator:
        second = ValueRef("w2")
        arguments = (second if a == ValueRef("w") else a for a in operator.arguments)
        return replace(operator, arguments=tuple(arguments))

    return replace(
        graph,
        units=tuple(
            replace(unit, operators=tuple(map(renamed, unit.operators)), weights=("w2",))
            if unit.name == name
            else unit
            for unit in graph.units
        ),
        weights=("w", "w2"),
        values={**graph.values, "w2": graph.values["w"]},
    )


def test_two_executables_at_once(device: Device) -> None:
    graphs = [graph_of(wide(4)), graph_of(chain(9))]
    prepared = [device.prepare(graph, WEIGHTS, greedy(graph, device)) for graph in graphs]

    def run(turn: int) -> None:
        graph, inputs = graphs[turn % 2], random_inputs(graphs[turn % 2], turn)
        assert_same(prepared[turn % 2].run(inputs), run_graph(graph, WEIGHTS, inputs))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(40)))
    for executable in prepared:
        executable.close()


def test_an_invalid_plan_is_refused(device: Device) -> None:
    graph = graph_of(DIAMOND)
    plan = lower(sequential(graph), graph, device.facts.parallelism)
    with pytest.raises(PlanError, match="'u3' is never launched"):
        device.prepare(graph, WEIGHTS, replace(plan, launches=plan.launches[:3]))


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "input 'x' of graph 'dag' is missing"),
        ({"x": torch.zeros(2, SIDE)}, r"input 'x' is torch.float32 \(2, 8\)"),
        ({"x": torch.zeros(SIDE, SIDE, dtype=torch.float64)}, "takes torch.float32"),
    ],
)
def test_wrong_inputs_are_named(device: Device, inputs: dict[str, Tensor], words: str) -> None:
    graph = graph_of(DIAMOND)
    with (
        device.prepare(graph, WEIGHTS, greedy(graph, device)) as executable,
        pytest.raises(DeviceError, match=words),
    ):
        executable.run(inputs)


def test_a_missing_weight_is_named(device: Device) -> None:
    graph = graph_of(DIAMOND)
    # A simulated device needs weights to compute, not to tell the time.
    with pytest.raises(DeviceError, match="weight 'w', which is missing"):
        device.prepare(graph, {}, greedy(graph, device)).run(random_inputs(graph, 0))


def test_closing_twice_and_using_what_is_closed(device: Device) -> None:
    graph = graph_of(DIAMOND)
    executable = device.prepare(graph, WEIGHTS, greedy(graph, device))
    executable.close()
    executable.close()
    for use in (executable.run, executable.timeline):
        with pytest.raises(DeviceError, match="closed"):
            use(random_inputs(graph, 0))


def test_a_closed_device_is_refused(device: Device) -> None:
    other = open_device(device.facts.name)
    graph = graph_of(DIAMOND)
    executable = other.prepare(graph, WEIGHTS, greedy(graph, other))
    executable.run(random_inputs(graph, 0))
    other.close()
    other.close()
    with pytest.raises(DeviceError, match="closed"):
        executable.run(random_inputs(graph, 0))
    executable.close()
    with pytest.raises(DeviceError, match="closed"):
        other.prepare(graph, WEIGHTS, greedy(graph, device))


def test_an_output_may_be_an_input_or_a_weight(device: Device) -> None:
    graph = replace(graph_of(chain(2)), outputs=("x", "w", "u1", "u0"))
    inputs = random_inputs(graph, 3)
    with device.prepare(graph, WEIGHTS, greedy(graph, device)) as executable:
        assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))


def test_facts_are_stable_and_complete(device: Device) -> None:
    facts = device.facts
    assert facts == next(found for found in discover() if found.name == facts.name)
    assert facts.parallelism >= 1
    assert facts.memory_bytes > 0
    assert facts.versions["torch"] == torch.__version__


def test_what_is_simulated_says_so_and_is_the_same_every_time(device: Device) -> None:
    facts = device.facts
    assert facts.simulated == facts.name.startswith("sim:") == (facts.kind == "sim")
    assert facts.gpu is not None if facts.simulated else facts.kind != "sim"
    if not facts.simulated:
        return
    graph = graph_of(wide(5))
    plan, inputs = greedy(graph, device), random_inputs(graph, 0)
    found = []
    for _ in range(2):
        with device.prepare(graph, WEIGHTS, plan) as executable:
            found.append((set(executable.time(inputs, 5)), executable.timeline(inputs)))
    assert found[0] == found[1]
    assert len(found[0][0]) == 1


@pytest.mark.parametrize("name", SIMULATED[2:])
def test_every_simulated_device_runs_and_times(name: str) -> None:
    opened = devices.open_device(name)
    graph = graph_of(wide(6))
    inputs = random_inputs(graph, 4)
    with opened.prepare(graph, WEIGHTS, greedy(graph, opened)) as executable:
        assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))
        assert 0 < executable.time(inputs, 1)[0] < 10
        assert {span.unit for span in executable.timeline(inputs).spans} == set(graph.index)
        assert {kernel.unit for kernel in executable.profile(inputs)} == set(graph.index)
    opened.close()


def test_devices_are_told_apart() -> None:
    found = devices.discover()
    assert len({facts.fingerprint for facts in found}) == len(found)
    assert len({facts.name for facts in found}) == len(found)
