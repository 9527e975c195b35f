"""The CUDA device on an emulation of its runtime that runs streams in every order that CUDA allows.

The device that a GPU machine has besides passes ``test_devices_conformance``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cuda_emulation import EmulatedDriver
from support.gpus import h200_facts
from support.graphs import DIAMOND, SIDE, Dag, chain, dags, graph_of, wide
from support.schedules import random_stream_schedule, schedules, sequential, stream_schedules
from torch import Tensor

from workers.devices.base import CancelledError, DeviceError
from workers.devices.cuda import launches
from workers.devices.cuda.device import CudaDevice
from workers.devices.cuda.executable import CudaExecutable
from workers.graph.graph import Graph, Operator, TensorSpec, Unit, ValueRef
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.schedules.lower import lower
from workers.schedules.plan import Launch, Plan, Stream

WEIGHTS = {"w": torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(1)) / 3}


def device_on(driver: EmulatedDriver) -> CudaDevice:
    return CudaDevice(h200_facts(), driver)


def prepared(
    graph: Graph, plan: Plan, driver: EmulatedDriver | None = None, capture: bool = True
) -> CudaExecutable:
    return device_on(driver or EmulatedDriver()).prepare(graph, WEIGHTS, plan, capture=capture)


def spread(graph: Graph, streams: int, seed: int = 0) -> Plan:
    return lower(random_stream_schedule(graph, streams, seed), graph, 1)


def assert_same(outputs: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert outputs.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(outputs[name], tensor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("capture", [True, False], ids=["graph", "eager"])
@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    dag=dags(max_units=12),
    order=st.integers(0, 9999),
    eagerness=st.sampled_from([0, 0.3, 0.9]),
)
def test_any_plan_computes_what_the_interpreter_does_in_any_order(
    capture: bool, data: st.DataObject, dag: Dag, order: int, eagerness: float
) -> None:
    graph = graph_of(dag)
    drawn = schedules(graph, dag) | stream_schedules(graph, dag)
    plan = lower(data.draw(drawn), graph, 1)
    driver = EmulatedDriver(order, eagerness=eagerness)
    with prepared(graph, plan, driver, capture) as executable:
        for seed in range(3):
            inputs = random_inputs(graph, seed)
            assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))
        assert executable.mode == ("graph" if capture else "eager")


@pytest.mark.parametrize("capture", [True, False], ids=["graph", "eager"])
@pytest.mark.parametrize("seed", range(4))
def test_streams_that_really_run_at_once(capture: bool, seed: int) -> None:
    graph = graph_of(wide(8))
    driver = EmulatedDriver(seed, threads=True)
    with prepared(graph, spread(graph, 5, seed), driver, capture) as executable:
        for number in range(3):
            inputs = random_inputs(graph, number)
            assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))


def too_early(plan: Plan, graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Frees a value as soon as its last reader was launched, wherever that runs: what PyTorch does
    with a tensor that the caller drops."""
    last: dict[str, int] = {}
    for number, launch in enumerate(plan.launches):
        unit = graph.unit(launch.unit)
        for name in (*unit.outputs, *unit.inputs):
            if name in graph.producers and name not in graph.outputs:
                last[name] = number
    frees: list[list[str]] = [[] for _ in plan.launches]
    for name, number in last.items():
        if number + 1 < len(frees):
            frees[number + 1].append(name)
    return tuple(map(tuple, frees))


RACE = (
    Plan(
        (Stream(), Stream()),
        (
            Launch("u0", 0, records=0),
            Launch("u2", 1, waits=(0,), records=1),
            Launch("u1", 0),
            Launch("u3", 0, waits=(1,)),
        ),
    ),
    # u2 reads u0 on the other stream, while u1 of u0's stream is given memory.
    ((), (), (0,), (1, 2)),
)


def wrong_orders(capture: bool) -> int:
    """Of twenty orders of RACE, how many compute something else than the interpreter."""
    plan, dag = RACE
    graph = graph_of(dag)
    inputs = random_inputs(graph, 0)
    expected = run_graph(graph, WEIGHTS, inputs)
    wrong = 0
    for order in range(20):
        driver = EmulatedDriver(order, eagerness=0)
        with prepared(graph, plan, driver, capture) as executable:
            outputs = executable.run(inputs)
        wrong += any(not torch.allclose(outputs[name], expected[name]) for name in expected)
    return wrong


@pytest.mark.parametrize("capture", [True, False], ids=["graph", "eager"])
def test_the_emulation_catches_memory_that_is_freed_too_early(
    capture: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wrong_orders(capture) == 0
    monkeypatch.setattr(launches, "stream_frees", too_early)
    assert wrong_orders(capture) > 0


@pytest.mark.parametrize("capture", [True, False], ids=["graph", "eager"])
def test_the_emulation_catches_a_wait_that_is_missing(
    capture: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.devices.cuda.device.validate", lambda plan, graph: None)
    graph = graph_of(DIAMOND)
    plan = spread(graph, 3, 1)
    careless = replace(plan, launches=tuple(replace(x, waits=()) for x in plan.launches))
    inputs = random_inputs(graph, 0)
    expected = run_graph(graph, WEIGHTS, inputs)
    results = []
    for order in range(20):
        driver = EmulatedDriver(order, eagerness=0)
        with prepared(graph, careless, driver, capture) as executable:
            results.append(executable.run(inputs))
    assert any(not torch.allclose(found["u3"], expected["u3"]) for found in results)


@pytest.mark.parametrize("capture", [True, False], ids=["graph", "eager"])
@pytest.mark.parametrize("streams", [1, 4])
def test_memory_is_used_again(capture: bool, streams: int) -> None:
    graph = graph_of(chain(40))
    plan = spread(graph, streams)
    driver = EmulatedDriver()
    device = device_on(driver)
    inputs = random_inputs(graph, 0)
    with device.prepare(graph, WEIGHTS, plan, capture=capture) as executable:
        executable.run(inputs)
        use = executable.memory(inputs)
        reserved = driver.allocator.reserved
    everything = 40 * 512  # what the emulation gives each value of 256 bytes
    assert use.weights_bytes == 256
    assert 512 <= use.peak_bytes < everything / 4
    assert reserved < everything
    device.close()


def test_a_run_and_its_close_leave_nothing_allocated() -> None:
    graph = graph_of(wide(5))
    driver = EmulatedDriver()
    device = device_on(driver)
    executable = device.prepare(graph, WEIGHTS, spread(graph, 3))
    executable.run(random_inputs(graph, 0))
    executable.close()
    del executable
    assert driver.allocator.allocated == 0
    device.close()


def test_more_streams_than_torch_has() -> None:
    graph = graph_of(wide(50))
    plan = Plan(
        tuple(Stream() for _ in range(52)),
        (
            Launch("u0", 0, records=0),
            *(Launch(f"u{i}", i, waits=(0,), records=i) for i in range(1, 51)),
            Launch("u51", 51, waits=tuple(range(1, 51))),
        ),
    )
    driver = EmulatedDriver(3)
    with prepared(graph, plan, driver) as executable:
        inputs = random_inputs(graph, 0)
        assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))
        assert {span.stream for span in executable.timeline(inputs).spans} == set(range(52))
        assert executable.mode == "graph"
    assert len(set(map(id, driver.streams))) == 52


def test_executables_share_the_devices_streams() -> None:
    driver = EmulatedDriver()
    device = device_on(driver)
    graph = graph_of(wide(5))
    for streams in (2, 4, 3):
        with device.prepare(graph, WEIGHTS, spread(graph, streams)) as executable:
            executable.run(random_inputs(graph, 0))
    assert len(driver.streams) <= 4
    device.close()
    assert driver.closed


def test_a_capture_that_fails_falls_back_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    graph = graph_of(wide(4))
    driver = EmulatedDriver(breaks_capture=lambda name: name == "aten::tanh_")
    inputs = random_inputs(graph, 0)
    with caplog.at_level(logging.WARNING), prepared(graph, spread(graph, 3), driver) as executable:
        assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))
        assert executable.mode == "eager"
        assert len(executable.time(inputs, 5)) == 5
        (note,) = executable.notes
    assert "no CUDA Graph" in note
    assert "unit 'u" in note
    assert "not permitted when stream is capturing" in note
    assert note in caplog.text
    assert sum("CUDA Graph" in record.message for record in caplog.records) == 1


def test_a_unit_that_reads_back_cannot_be_captured() -> None:
    rows, mask = TensorSpec((SIDE, SIDE), "float32"), TensorSpec((SIDE,), "bool")
    picked = Operator(
        "picked", "aten.index.Tensor", (ValueRef("x"), (ValueRef("mask"),)), (), ("picked",)
    )
    graph = Graph(
        "masked",
        ("x",),
        ("picked",),
        ("mask",),
        {"x": rows, "mask": mask, "picked": TensorSpec((SIDE // 2, SIDE), "float32")},
        (Unit("picked", "data", (picked,), ("x",), ("mask",), ("picked",), 0, 0),),
    )
    weights = {"mask": torch.arange(SIDE) % 2 == 0}
    inputs = random_inputs(graph, 0)
    device = device_on(EmulatedDriver())
    with device.prepare(graph, weights, spread(graph, 1)) as executable:
        assert_same(executable.run(inputs), {"picked": inputs["x"][weights["mask"]]})
        assert executable.mode == "eager"
        assert "unit 'picked'" in executable.notes[0]


def test_memory_that_does_not_suffice_for_inputs_is_said() -> None:
    graph = graph_of(chain(2))
    executable = prepared(graph, spread(graph, 1), EmulatedDriver(capacity=512))
    with pytest.raises(
        DeviceError, match="the run of graph 'dag' failed: the GPU's memory is full"
    ):
        executable.run(random_inputs(graph, 0))


def test_memory_that_does_not_suffice_is_said() -> None:
    graph = graph_of(wide(30))
    driver = EmulatedDriver(capacity=12 * 512)
    executable = prepared(graph, spread(graph, 4), driver)
    with pytest.raises(
        DeviceError, match=r"unit 'u\d+' failed: the GPU's memory is full"
    ) as caught:
        executable.run(random_inputs(graph, 0))
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)


def test_weights_that_do_not_fit_are_said() -> None:
    graph = graph_of(chain(2))
    with pytest.raises(DeviceError, match="weights of graph 'dag' do not fit"):
        prepared(graph, spread(graph, 1), EmulatedDriver(capacity=100))


def test_a_kernel_gone_astray_ends_the_device() -> None:
    graph = graph_of(chain(3))
    astray = [False]
    driver = EmulatedDriver(goes_astray=lambda name: astray[0] and name == "aten::tanh_")
    device = device_on(driver)
    executable = device.prepare(graph, WEIGHTS, spread(graph, 1))
    executable.run(random_inputs(graph, 0))
    astray[0] = True
    words = "cuda:0 is unusable in this process: CUDA error: an illegal memory access"
    for _ in range(2):
        with pytest.raises(DeviceError, match=words):
            executable.run(random_inputs(graph, 0))
    with pytest.raises(DeviceError, match="start a new process"):
        device.prepare(graph, WEIGHTS, spread(graph, 1))
    executable.close()
    device.close()


def test_a_thread_that_captures_has_warmed_up_itself() -> None:
    graph = graph_of(wide(3))
    inputs = random_inputs(graph, 0)
    with prepared(graph, spread(graph, 3)) as executable:
        executable.memory(inputs)  # warms this thread up, and captures nothing
        with ThreadPoolExecutor(1) as pool:
            outputs = pool.submit(executable.run, inputs).result()
        assert executable.mode == "graph", executable.notes
        assert_same(outputs, run_graph(graph, WEIGHTS, inputs))


@pytest.mark.parametrize("capture", [True, False], ids=["graph", "eager"])
def test_a_trace_that_lost_records_is_taken_again(capture: bool) -> None:
    graph = graph_of(wide(3))
    inputs = random_inputs(graph, 0)
    for loses in (1, 2):
        driver = EmulatedDriver(loses=loses)
        with prepared(graph, spread(graph, 2), driver, capture) as executable:
            assert {kernel.unit for kernel in executable.profile(inputs)} == set(graph.index)
            assert not executable.notes
    with prepared(graph, spread(graph, 2), EmulatedDriver(loses=9), capture) as executable:
        executable.profile(inputs)
        assert executable.notes == ("trace lacks the records of 1 launches",)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("capture", [True, False], ids=["graph", "eager"])
def test_a_cancelled_run_ends_soon_and_the_next_works(capture: bool) -> None:
    graph = graph_of(wide(4))
    inputs = random_inputs(graph, 0)
    with prepared(graph, spread(graph, 3), EmulatedDriver(), capture) as executable:
        executable.cancel()
        executable.run(inputs)
        killer = threading.Timer(0.3, executable.cancel)
        killer.start()
        started = time.monotonic()
        with pytest.raises(CancelledError):
            executable.time(inputs, 10**7)
        assert time.monotonic() - started < 20
        assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))


def test_a_capture_that_is_cancelled_is_tried_again() -> None:
    graph = graph_of(chain(6))
    inputs = random_inputs(graph, 0)
    driver = EmulatedDriver()
    executable = prepared(graph, spread(graph, 2), driver)
    begin: Callable[[], None] = driver.begin_capture

    def cancelled() -> None:
        begin()
        executable.cancel()

    driver.begin_capture = cancelled  # type: ignore[method-assign]  # for one call
    with pytest.raises(CancelledError):
        executable.run(inputs)
    driver.begin_capture = begin  # type: ignore[method-assign]  # as it was
    assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))
    assert executable.mode == "graph"


def test_values_are_those_of_every_unit() -> None:
    graph = graph_of(wide(4))
    inputs = random_inputs(graph, 0)
    every = replace(graph, outputs=tuple(name for unit in graph.units for name in unit.outputs))
    with prepared(graph, spread(graph, 3)) as executable:
        assert_same(executable.values(inputs), run_graph(every, WEIGHTS, inputs))


def test_outputs_may_be_inputs_and_weights() -> None:
    graph = replace(graph_of(chain(2)), outputs=("x", "w", "u1", "u0"))
    with prepared(graph, spread(graph, 2)) as executable:
        for seed in (1, 2):
            inputs = random_inputs(graph, seed)
            assert_same(executable.run(inputs), run_graph(graph, WEIGHTS, inputs))


def test_outputs_do_not_change_with_the_next_run() -> None:
    graph = graph_of(chain(3))
    with prepared(graph, spread(graph, 2)) as executable:
        first = executable.run(random_inputs(graph, 0))
        kept = {name: tensor.clone() for name, tensor in first.items()}
        executable.run(random_inputs(graph, 1))
        assert_same(first, kept)


def test_one_replay_is_one_launch_and_short_ones_are_repeated() -> None:
    graph = graph_of(chain(3))
    driver = EmulatedDriver()
    inputs = random_inputs(graph, 0)
    device = device_on(driver)
    with device.prepare(graph, WEIGHTS, spread(graph, 1)) as executable:
        executable.run(inputs)
        driver.launches.clear()
        executable.run(inputs)
        assert driver.launches == ["Memcpy HtoD", "graph"]
        driver.launches.clear()
        assert len(executable.time(inputs, 6)) == 6
    kernels = [name for name in driver.launches if name not in {"hold", "busy"}]
    # Six kernels of about 5 µs: 50 µs take two replays or a few more.
    assert kernels.count("graph") in range(12, 31)
    assert kernels.count("graph") % 6 == 0
    with device.prepare(graph, WEIGHTS, spread(graph, 1), cold=True) as executable:
        executable.run(inputs)
        driver.launches.clear()
        executable.time(inputs, 6)
        assert [x for x in driver.launches if x in {"flush", "graph"}] == ["flush", "graph"] * 6
    with device.prepare(graph, WEIGHTS, spread(graph, 1), capture=False) as executable:
        executable.run(inputs)
        driver.launches.clear()
        executable.time(inputs, 6)
        assert driver.launches.count("aten::mm") == 18
        assert "hold" not in driver.launches


def test_clocks_are_warmed_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(chain(2))
    driver = EmulatedDriver()
    inputs = random_inputs(graph, 0)
    with prepared(graph, spread(graph, 1), driver) as executable:
        executable.time(inputs, 1)
        assert driver.launches.count("busy") <= 1
        driver.launches.clear()
        executable.time(inputs, 1)
        assert "busy" not in driver.launches
        monkeypatch.setattr("workers.devices.cuda.timing.IDLE_SECONDS", -1.0)
        executable.time(inputs, 1)
        assert driver.launches.count("busy") == 1


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("capture", [True, False], ids=["graph", "eager"])
def test_a_timeline_is_of_the_graph_where_there_is_one(capture: bool, numbered: bool) -> None:
    graph = graph_of(wide(6))
    plan = spread(graph, 3)
    driver = EmulatedDriver(5, numbers_nodes=numbered)
    with prepared(graph, plan, driver, capture) as executable:
        timeline = executable.timeline(random_inputs(graph, 0))
        (note,) = executable.notes
    assert note == (
        "timeline of a replay of the CUDA Graph"
        if capture
        else "timeline of kernels launched one by one"
    )
    spans = {span.unit: span for span in timeline.spans}
    assert {(s.unit, s.stream) for s in timeline.spans} == {
        (x.unit, x.stream) for x in plan.launches
    }
    for unit, before in zip(graph.units, graph.predecessors, strict=True):
        for position in before:
            assert spans[graph.units[position].name].end_ms <= spans[unit.name].start_ms
    assert min(span.start_ms for span in timeline.spans) == 0
    # 4 blocks of 128 threads each.
    assert {warps for _, warps in timeline.resident_warps} == {0, 16}


def test_a_profile_names_each_units_kernels() -> None:
    graph = graph_of(wide(3))
    with prepared(graph, spread(graph, 3)) as executable:
        kernels = executable.profile(random_inputs(graph, 0))
    by_unit = {unit.name: [k.name for k in kernels if k.unit == unit.name] for unit in graph.units}
    assert by_unit["u1"] == ["aten::mm", "aten::tanh_"]
    assert by_unit["u4"] == ["aten::add.Tensor"] * 2 + ["aten::mm", "aten::tanh_"]
    (first, *_) = kernels
    assert (first.grid, first.block) == ((4, 1, 1), (128, 1, 1))
    assert (first.registers_per_thread, first.shared_memory_bytes) == (32, 1024)
    assert all(kernel.duration_ms > 0 for kernel in kernels)


def view_graph() -> Graph:
    """``a`` makes a value, ``b`` a view of it that outlives it, ``c`` and ``d`` read the view, with
    numbers that operators make themselves."""
    spec = TensorSpec((SIDE, SIDE), "float32")
    flat = TensorSpec((SIDE * SIDE,), "float32")

    def call(name: str, target: str, *arguments: object) -> Operator:
        return Operator(name, f"aten.{target}", arguments, (), (name,))  # type: ignore[arg-type]

    def unit(name: str, reads: str, *operators: Operator) -> Unit:
        return Unit(name, "elementwise", operators, (reads,), (), (operators[-1].outputs[0],), 1, 1)

    x, a, b = ValueRef("x"), ValueRef("a"), ValueRef("b")
    line = call("line", "arange.default", SIDE * SIDE)
    return Graph(
        "views",
        ("x",),
        ("c", "e"),
        (),
        {"x": spec, "a": spec, "b": flat, "line": flat, "c": flat, "d": flat, "e": flat},
        (
            unit("ua", "x", call("a", "exp.default", x)),
            unit("ub", "a", call("b", "reshape.default", a, (SIDE * SIDE,))),
            unit("uc", "b", line, call("c", "add.Tensor", b, ValueRef("line"))),
            unit("ud", "b", call("d", "sin.default", b)),
            unit("ue", "d", call("e", "cos.default", ValueRef("d"))),
        ),
    )


@pytest.mark.parametrize("capture", [True, False], ids=["graph", "eager"])
@pytest.mark.parametrize("seed", range(15))
def test_views_keep_their_memory_and_made_numbers_lie_on_the_gpu(seed: int, capture: bool) -> None:
    graph = view_graph()
    driver = EmulatedDriver(seed, eagerness=0)
    device = device_on(driver)
    with device.prepare(graph, {}, spread(graph, 3, seed), capture=capture) as executable:
        inputs = random_inputs(graph, seed)
        assert_same(executable.run(inputs), run_graph(graph, {}, inputs))
        assert executable.mode == ("graph" if capture else "eager")


def test_a_graph_of_nothing() -> None:
    graph = replace(graph_of(chain(1)), units=(), outputs=("x",))
    with prepared(graph, Plan((), ())) as executable:
        inputs = random_inputs(graph, 0)
        assert_same(executable.run(inputs), inputs)
        assert executable.timeline(inputs).spans == ()


def test_a_profiler_that_records_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(chain(2))
    driver = EmulatedDriver()

    def silent(body: Callable[[], None]) -> dict[str, object]:
        body()
        return {"traceEvents": []}

    monkeypatch.setattr(driver, "traced", silent)
    with prepared(graph, spread(graph, 1), driver) as executable:
        for use in (executable.profile, executable.timeline):
            with pytest.raises(DeviceError, match="profiler of cuda:0 recorded no kernels"):
                use(random_inputs(graph, 0))


def test_a_provider_that_the_gpu_lacks() -> None:
    graph = graph_of(chain(1))
    with pytest.raises(DeviceError, match="no kernels of provider 'none'; known: aten, inductor"):
        device_on(EmulatedDriver()).prepare(graph, WEIGHTS, spread(graph, 1), "none")


def test_sequential_plans_need_no_events() -> None:
    graph = graph_of(wide(4))
    program = launches.program(lower(sequential(graph), graph, 1), graph)
    assert (program.joins, program.forks, program.events) == ((), False, 0)
