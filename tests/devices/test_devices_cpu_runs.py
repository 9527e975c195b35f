"""What a run on the CPU tells of itself, and how it ends: memory, profile, cancelling."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, SIDE, chain, graph_of, wide
from support.schedules import sequential
from support.unit_graphs import call, convolution, one_unit

from workers.devices.base import CancelledError
from workers.devices.cpu import CpuDevice
from workers.devices.cpu_memory import LiveStorages, Weights
from workers.graph.graph import Graph, TensorSpec, ValueRef
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.graph.units import operator_units
from workers.schedules.lower import lower
from workers.schedules.plan import Launch, Plan, Stream
from workers.schedules.schedule import Stage, StageSchedule

WEIGHTS = {"w": torch.eye(SIDE)}
VALUE = SIDE * SIDE * 4
"""Bytes of every value of ``graph_of``."""


@pytest.fixture(scope="module")
def device() -> Iterator[CpuDevice]:
    opened = CpuDevice()
    yield opened
    opened.close()


def peak(device: CpuDevice, graph: Graph) -> int:
    plan = lower(sequential(graph), graph, 1)
    with device.prepare(graph, WEIGHTS, plan) as executable:
        first = executable.memory(random_inputs(graph, 0))
        assert executable.memory(random_inputs(graph, 1)) == first
    return first.peak_bytes


def test_memory_follows_what_the_plan_frees(device: CpuDevice) -> None:
    # x, what is read, the product (tanh overwrites it): of a chain no more than three at once.
    assert peak(device, graph_of(chain(2))) == peak(device, graph_of(chain(30))) == 3 * VALUE
    # x, u0 to u2, then of u3 the sum and the product.
    assert peak(device, graph_of(DIAMOND)) == (1 + 2 + 2) * VALUE


def test_memory_counts_the_inside_of_a_unit_and_aliases_once(device: CpuDevice) -> None:
    x, a, v = ValueRef("x"), ValueRef("a"), ValueRef("v")
    shapes = {"x": (8, 8), "a": (8, 8), "v": (64,), "c": (64,)}
    operators = [
        call("a", "neg.default", x),
        call("v", "reshape.default", a, (64,)),
        call("c", "exp.default", v),
    ]
    fused, _ = one_unit(operators, shapes, ("c",))
    apart = operator_units(
        name="apart",
        inputs=("x",),
        outputs=("v", "c"),
        weights=(),
        values={name: TensorSpec(shape, "float32") for name, shape in shapes.items()},
        operators=operators,
    )
    for graph in (fused, apart):
        assert peak(device, graph) == 3 * VALUE  # x, a with its view v, c


def test_a_view_outlives_the_value_that_it_is_of(device: CpuDevice) -> None:
    """The Plan frees ``a`` when ``v``, a view of it, was made; ``b`` must not get its memory."""
    x, a, v, b = ValueRef("x"), ValueRef("a"), ValueRef("v"), ValueRef("b")
    operators = [
        call("a", "neg.default", x),
        call("v", "transpose.int", a, 0, 1),
        call("b", "exp.default", x),
        call("c", "sub.Tensor", v, b),
    ]
    graph = operator_units(
        name="views",
        inputs=("x",),
        outputs=("c",),
        weights=(),
        values={name: TensorSpec((SIDE, SIDE), "float32") for name in "xavbc"},
        operators=operators,
    )
    plan = lower(sequential(graph), graph, 1)
    inputs = random_inputs(graph, 0)
    with device.prepare(graph, {}, plan) as executable:
        for _ in range(5):
            assert torch.equal(executable.run(inputs)["c"], -inputs["x"].T - inputs["x"].exp())


def test_weights_are_not_counted_among_values(device: CpuDevice) -> None:
    graph = replace(graph_of(chain(1)), outputs=("w", "u0"))
    with device.prepare(graph, WEIGHTS, lower(sequential(graph), graph, 1)) as executable:
        memory = executable.memory(random_inputs(graph, 0))
    assert memory.weights_bytes == VALUE
    assert memory.peak_bytes == 2 * VALUE


def test_storages_count_while_anyone_holds_them() -> None:
    weight = torch.zeros(10)
    live = LiveStorages(Weights([weight]))
    base = torch.zeros(100)
    live.hold("a", [base[:10], base[20:30], weight[:5]])
    live.hold("b", [base.view(10, 10)])
    assert live.peak_bytes == 400
    live.release("a")
    live.hold("c", [torch.zeros(50)])
    assert live.peak_bytes == 600
    live.release("b")
    live.hold("d", [torch.zeros(90)])
    assert live.peak_bytes == 600
    live.release("nothing")


def test_the_address_of_a_weight_that_is_gone_is_anyone_s() -> None:
    weight = torch.zeros(10)
    weights = Weights([weight])
    address = weight.untyped_storage().data_ptr()
    assert address in weights
    del weight
    assert address not in weights


def test_a_profile_names_every_call(device: CpuDevice) -> None:
    graph, weights = convolution()
    plan = Plan((Stream(1),), (Launch("c", 0),))
    with device.prepare(graph, weights, plan) as executable:
        (kernel,) = executable.profile(random_inputs(graph, 0))
    assert (kernel.unit, kernel.name) == ("c", "mkldnn._convolution_pointwise(relu)")
    graph = graph_of(DIAMOND)
    with device.prepare(graph, WEIGHTS, lower(sequential(graph), graph, 1)) as executable:
        kernels = executable.profile(random_inputs(graph, 0))
    assert [(kernel.unit, kernel.name) for kernel in kernels] == [
        (unit.name, operator.target) for unit in graph.units for operator in unit.operators
    ]
    assert all(kernel.duration_ms > 0 for kernel in kernels)


@settings(deadline=None, max_examples=30)
@given(delay_us=st.integers(0, 2000), repeats=st.integers(1, 30), streams=st.integers(1, 2))
def test_cancelling_at_any_moment_breaks_nothing(
    device: CpuDevice, delay_us: int, repeats: int, streams: int
) -> None:
    """Before, during or after a run: it ends whole or cancelled, and the next one is right."""
    graph = graph_of(wide(6))
    inputs = random_inputs(graph, 0)
    expected = run_graph(graph, WEIGHTS, inputs)
    plan = lower(sequential(graph), graph, 2)
    if streams == 2:
        names = tuple(unit.name for unit in graph.units)
        branches = Stage((names[1:4], names[4:7]))
        stages = (Stage((names[:1],)), branches, Stage((names[7:],)))
        plan = lower(StageSchedule("test", stages), graph, 2)
    with device.prepare(graph, WEIGHTS, plan) as executable:
        canceller = threading.Timer(delay_us / 1e6, executable.cancel)
        canceller.start()
        with suppress(CancelledError):
            assert len(executable.time(inputs, repeats)) == repeats
        canceller.join()
        for _ in range(2):
            found = executable.run(inputs)
            assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_a_cancelled_run_leaves_its_unit_and_no_more(device: CpuDevice) -> None:
    """A run of many long Units ends after those that were running."""
    side = 300
    x = ValueRef("x")
    operators = [call("m0", "mm.default", x, x)]
    operators += [call(f"m{n}", "mm.default", ValueRef(f"m{n - 1}"), x) for n in range(1, 300)]
    names = ["x", *(operator.name for operator in operators)]
    graph = operator_units(
        name="long",
        inputs=("x",),
        outputs=("m299",),
        weights=(),
        values={name: TensorSpec((side, side), "float32") for name in names},
        operators=operators,
    )
    inputs = {"x": torch.eye(side)}
    with device.prepare(graph, {}, lower(sequential(graph), graph, 1)) as executable:
        (whole,) = executable.time(inputs, 1)
        canceller = threading.Timer(whole / 10e3, executable.cancel)
        canceller.start()
        started = time.monotonic()
        with pytest.raises(CancelledError):
            executable.run(inputs)
        assert (time.monotonic() - started) * 1e3 < 0.7 * whole
        assert torch.equal(executable.run(inputs)["m299"], inputs["x"])
