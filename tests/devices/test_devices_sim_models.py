"""The kernel models: what a Unit launches on a simulated GPU, and recorded kernels instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pass_graphs import call, graph_of_calls, random_graphs

from workers.devices import discover, open_device
from workers.devices.base import DeviceError
from workers.devices.recorded import RecordedProfile, append_profiles, unit_signature
from workers.devices.sim.arithmetic import memory_of
from workers.devices.sim.device import SimDevice
from workers.devices.sim.engine import Job, simulate
from workers.devices.sim.facts import PROFILES, facts_of
from workers.devices.sim.kernel import SimKernel
from workers.devices.sim.launch_path import LaunchPath
from workers.devices.sim.recorded_kernels import recorded_kernels
from workers.devices.sim.specs import SPECS
from workers.devices.sim.units import kernels_of
from workers.graph.graph import Graph, Operator, ValueRef
from workers.graph.passes.fuse import fuse
from workers.graph.random_inputs import random_inputs
from workers.hardware.kernel import Kernel
from workers.schedulers.sequential import SequentialScheduler
from workers.schedules.lower import lower
from workers.schedules.plan import Plan

V100 = SPECS["v100"].gpu


def sequential(graph: Graph) -> Plan:
    class Unasked:
        parallelism = 1

        def stage_latencies(self, stages: object) -> list[object]:
            raise AssertionError

    return lower(SequentialScheduler().schedule(graph, Unasked()).schedule, graph, 1)


def one_unit(
    *calls: Operator,
    shapes: dict[str, tuple[int, ...]],
    weights: dict[str, tuple[int, ...]] | None = None,
    dtype: str = "float32",
) -> Graph:
    """The graph of ``calls`` on the input ``x``, fused into Units."""
    given = {"x": shapes.pop("x")}
    graph, _ = graph_of_calls(
        calls,
        outputs=[calls[-1].name],
        inputs=given,
        weights=weights or {},
        shapes=shapes,
        dtype=dtype,
    )
    return fuse(graph)


def convolution(
    channels: int, filters: int, side: int, window: int, stride: int = 1, groups: int = 1
) -> Graph:
    """A convolution of an image with its ReLU."""
    out = -(-side // stride)
    pad = window // 2
    arguments = (ValueRef("x"), ValueRef("w"), ValueRef("b"), (stride, stride), (pad, pad))
    return one_unit(
        call("c", "conv2d.default", *arguments, (1, 1), groups),
        call("r", "relu.default", ValueRef("c")),
        shapes={
            "x": (1, channels, side, side),
            "c": (1, filters, out, out),
            "r": (1, filters, out, out),
        },
        weights={"w": (filters, channels // groups, window, window), "b": (filters,)},
    )


def only(graph: Graph, name: str = "v100") -> tuple[SimKernel, ...]:
    (unit,) = graph.units
    return kernels_of(SPECS[name].gpu, graph, unit)


def test_peaks_are_those_of_the_datasheets() -> None:
    """The K80's 8.74 TFLOPS are of its two GPUs."""
    printed = {
        "k80": 8.74 / 2, "p100": 10.6, "v100": 15.7, "rtx2080super": 11.15, "rtx2080ti": 13.4,
        "a100": 19.5, "h100": 67, "h200": 67,
    }  # fmt: skip
    assert printed.keys() == SPECS.keys()
    for name, tflops in printed.items():
        assert SPECS[name].gpu.fp32_tflops == pytest.approx(tflops, rel=0.005)
        assert SPECS[name].source


def test_a_convolution_takes_its_bias_and_relu_along() -> None:
    assert len(only(convolution(64, 64, 28, 1))) == 1
    assert len(only(convolution(64, 64, 28, 5))) == 1


def names(*calls: Operator, bias: bool = True) -> list[str]:
    """The kernels of one Unit of ``calls``, all of whose values have the shape of ``x``."""
    shape = (1, 8, 8, 8)
    graph = one_unit(
        *calls,
        shapes=dict.fromkeys(("x", *(each.name for each in calls)), shape),
        weights={"w": (8, 8, 3, 3)} | ({"b": (8,)} if bias else {}),
    )
    return [kernel.name.split("_")[0] for kernel in only(graph)]


def test_what_cudnn_does_not_take_along_are_kernels_of_their_own() -> None:
    x, c, a = ValueRef("x"), ValueRef("c"), ValueRef("a")
    rest = ((1, 1), (1, 1), (1, 1), 1)
    biased = call("c", "conv2d.default", x, ValueRef("w"), ValueRef("b"), *rest)
    bare = call("c", "conv2d.default", x, ValueRef("w"), None, *rest)
    relu, tanh = call("r", "relu.default", c), call("t", "tanh.default", c)
    assert len(names(biased, relu)) == 1
    assert names(biased)[1:] == ["add"]  # the bias
    assert names(biased, tanh)[1:] == ["add", "tanh"]
    assert names(bare, relu, bias=False)[1:] == ["relu"]
    assert len(names(bare, bias=False)) == 1
    summed = (call("a", "add.Tensor", c, x), call("r", "relu.default", a))
    assert len(names(biased, *summed)) == 1
    assert names(bare, *summed, bias=False)[1:] == ["add", "relu"]


def test_the_sum_that_a_convolution_takes_along_is_read_by_it() -> None:
    x, c, a = ValueRef("x"), ValueRef("c"), ValueRef("a")
    layer = call("c", "conv2d.default", x, ValueRef("w"), ValueRef("b"), (1, 1), (1, 1))
    shape = (1, 8, 32, 32)
    read = []
    for calls in (
        [layer, call("r", "relu.default", c)],
        [layer, call("a", "add.Tensor", c, x), call("r", "relu.default", a)],
    ):
        graph = one_unit(
            *calls,
            shapes=dict.fromkeys(("x", *(each.name for each in calls)), shape),
            weights={"w": (8, 8, 3, 3), "b": (8,)},
        )
        (kernel,) = only(graph)
        read.append(kernel.grid * kernel.work.reused_bytes)
    assert read[1] - read[0] == pytest.approx(4 * 8 * 32 * 32)


def test_other_activations_and_prologues_are_kernels_of_their_own() -> None:
    x, c, s = ValueRef("x"), ValueRef("c"), ValueRef("s")
    shape = (1, 8, 8, 8)
    graph = one_unit(
        call("s", "relu.default", x),
        call("c", "conv2d.default", s, ValueRef("w"), None, (1, 1), (1, 1)),
        call("t", "tanh.default", c),
        shapes={"x": shape, "s": shape, "c": shape, "t": shape},
        weights={"w": (8, 8, 3, 3)},
    )
    first, _, last = only(graph)
    assert (first.name, last.name) == ("relu", "tanh")


def test_a_separable_convolution_is_two_kernels() -> None:
    x, d = ValueRef("x"), ValueRef("d")
    graph = one_unit(
        call("d", "conv2d.default", x, ValueRef("w"), None, (1, 1), (2, 2), (1, 1), 8),
        call("c", "conv2d.default", d, ValueRef("v")),
        shapes={"x": (1, 8, 8, 8), "d": (1, 8, 8, 8), "c": (1, 16, 8, 8)},
        weights={"w": (8, 1, 5, 5), "v": (16, 8, 1, 1)},
    )
    first, second = only(graph)
    assert first.name == "conv_depthwise2d"
    assert second.name.startswith("conv_")


@pytest.mark.parametrize(
    ("activation", "shape", "kernels"),
    [
        (call("g", "gelu.default", ValueRef("l"), approximate="tanh"), (32, 64), 1),
        (call("g", "relu.default", ValueRef("l")), (32, 64), 1),
        (call("g", "gelu.default", ValueRef("l")), (32, 64), 2),  # the exact one
        (call("g", "relu.default", ValueRef("l")), (4, 8, 64), 2),  # three dimensions
    ],
)
def test_a_linear_layer_takes_what_cublaslt_has(
    activation: Operator, shape: tuple[int, ...], kernels: int
) -> None:
    result = (*shape[:-1], 16)
    graph = one_unit(
        call("l", "linear.default", ValueRef("x"), ValueRef("w"), ValueRef("b")),
        activation,
        call("v", "reshape.default", ValueRef("g"), (8, 64)),
        shapes={"x": shape, "l": result, "g": result, "v": (8, 64)},
        weights={"w": (16, 64), "b": (16,)},
    )
    assert len(only(graph)) == kernels


def test_views_launch_nothing() -> None:
    view = one_unit(
        call("v", "reshape.default", ValueRef("x"), (8, 64)),
        shapes={"x": (32, 16), "v": (8, 64)},
    )
    assert only(view) == ()


def test_what_is_empty_launches_nothing_or_little() -> None:
    graph = one_unit(
        call("p", "mm.default", ValueRef("x"), ValueRef("w")),
        shapes={"x": (0, 8), "p": (0, 4)},
        weights={"w": (8, 4)},
    )
    assert only(graph) == ()
    summed = one_unit(
        call("p", "mm.default", ValueRef("x"), ValueRef("w")),
        shapes={"x": (8, 0), "p": (8, 4)},
        weights={"w": (0, 4)},
    )
    assert len(only(summed)) == 1


def test_large_products_take_large_tiles_and_small_ones_small_tiles() -> None:
    assert only(convolution(512, 512, 112, 1))[0].name == "conv_128x128"
    assert only(convolution(512, 64, 7, 1))[0].name == "conv_32x32"


def test_winograd_is_for_three_by_three_of_stride_one() -> None:
    assert only(convolution(256, 256, 56, 3))[0].name == "winograd_2x2_3x3"
    assert only(convolution(256, 256, 56, 3, stride=2))[0].name.startswith("conv_")
    assert only(convolution(256, 256, 56, 5))[0].name.startswith("conv_")


def test_tensor_cores_are_for_half_precision() -> None:
    def latency(dtype: str, name: str) -> float:
        graph = one_unit(
            call("p", "mm.default", ValueRef("x"), ValueRef("w")),
            shapes={"x": (2048, 2048), "p": (2048, 2048)},
            weights={"w": (2048, 2048)},
            dtype=dtype,
        )
        return SimDevice(name).latency_ms(graph, sequential(graph))

    assert latency("float16", "v100") < latency("float32", "v100") / 3
    assert latency("bfloat16", "a100") < latency("float32", "a100") / 3
    assert latency("bfloat16", "v100") > latency("float32", "v100") / 2  # none on Volta


@settings(deadline=None, max_examples=60)
@given(random_graphs())
def test_every_unit_has_kernels_that_fit_everywhere(made: tuple[Graph, object]) -> None:
    graph = fuse(made[0])
    for spec in SPECS.values():
        for unit in graph.units:
            for kernel in kernels_of(spec.gpu, graph, unit):
                assert kernel.grid >= 1
                assert kernel.fit >= 1
                assert 0 < kernel.work.alone_s < 1
                assert 0 < kernel.work.compute_share <= 1


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from([1, 3, 64, 513]),
    st.sampled_from([1, 32, 100, 768]),
    st.sampled_from([1, 7, 56]),
    st.sampled_from([1, 3, 5]),
    st.sampled_from([1, 2]),
    st.sampled_from(sorted(SPECS)),
)
def test_a_convolution_beats_neither_arithmetic_nor_memory(
    channels: int, filters: int, side: int, window: int, stride: int, name: str
) -> None:
    """Winograd's F(2x2, 3x3) multiplies 16 times where 36 are needed otherwise."""
    graph = convolution(channels, filters, side, window, stride)
    (unit,) = graph.units
    seconds = SimDevice(name).latency_ms(graph, sequential(graph)) / 1e3
    gpu = SPECS[name].gpu
    saved = 16 / 36 if window == 3 and stride == 1 else 1.0
    result = graph.values["r"]
    assert seconds > saved * 2 * result.numel * channels * window**2 / (gpu.fp32_tflops * 1e12)
    least = graph.values["w"].nbytes + result.nbytes
    assert seconds > least / memory_of(gpu).dram_bytes_per_s
    assert unit.bytes_moved >= least


def recorded(graph: Graph, gpu: str, *durations: float) -> RecordedProfile:
    kernels = tuple(
        Kernel("elsewhere", f"k{number}", ms, (100, 2, 1), (128, 1, 1), 64, 1024)
        for number, ms in enumerate(durations)
    )
    return RecordedProfile(gpu, "aten", unit_signature(graph, 0), kernels, {})


def test_recorded_kernels_take_the_place_of_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = convolution(64, 64, 28, 3)
    plan = sequential(graph)
    inputs = random_inputs(graph, 0)
    before = SimDevice("v100")
    path = tmp_path / "kernels.jsonl"
    append_profiles(path, [recorded(graph, V100.name, 0.25, 1.5)])
    monkeypatch.setenv(PROFILES, str(path))
    after, other = SimDevice("v100"), SimDevice("a100")
    with after.prepare(graph, {}, plan) as executable:
        kernels = executable.profile(inputs)
    assert [kernel.name for kernel in kernels] == ["k0", "k1"]
    assert [kernel.duration_ms for kernel in kernels] == pytest.approx([0.25, 1.5])
    assert kernels[0] == replace(
        recorded(graph, V100.name, 0.25).kernels[0],
        unit=graph.units[0].name,
        duration_ms=kernels[0].duration_ms,
    )
    assert after.latency_ms(graph, plan) > before.latency_ms(graph, plan)
    assert after.facts.fingerprint != before.facts.fingerprint
    assert "recorded" in after.facts.description
    # Of another GPU, and of another Unit, the models are used.
    monkeypatch.delenv(PROFILES)
    assert other.facts == facts_of("a100")
    wider = convolution(64, 65, 28, 3)
    assert after.latency_ms(wider, sequential(wider)) == before.latency_ms(wider, sequential(wider))


def test_a_recorded_kernel_that_cannot_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = convolution(64, 64, 28, 3)
    wrong = recorded(graph, V100.name, 1.0)
    wrong = replace(wrong, kernels=(replace(wrong.kernels[0], block=(4096, 1, 1)),))
    path = tmp_path / "kernels.jsonl"
    append_profiles(path, [wrong])
    monkeypatch.setenv(PROFILES, str(path))
    with pytest.raises(
        DeviceError, match=r"recorded profile of unit .c. is wrong.*too many threads"
    ):
        SimDevice("v100").latency_ms(graph, sequential(graph))


def test_more_recordings_are_another_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = convolution(64, 64, 28, 3)
    path = tmp_path / "kernels.jsonl"
    monkeypatch.setenv(PROFILES, str(path))
    found = []
    for duration in (1.0, 2.0):
        append_profiles(path, [recorded(graph, V100.name, duration)])
        found.append(facts_of("v100").fingerprint)
    assert len(set(found)) == 2


@given(
    st.integers(1, 2000),
    st.sampled_from([32, 128, 384, 1024]),
    st.floats(1e-4, 10),
)
@settings(deadline=None)
def test_a_recorded_kernel_alone_takes_what_was_recorded(
    grid: int, threads: int, duration: float
) -> None:
    unit = convolution(64, 64, 28, 3).units[0]
    kernel = Kernel("u", "k", duration, (grid, 1, 1), (threads, 1, 1), 32, 0)
    made = recorded_kernels(V100, unit, [kernel])
    free = LaunchPath(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    found = simulate(V100, memory_of(V100), free, [Job("u", 0, made)])
    assert found.latency_s * 1e3 == pytest.approx(duration, rel=1e-6)


@pytest.mark.parametrize("content", [None, "{"])
def test_unreadable_recordings_trouble_none_but_the_simulated_devices(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = {facts.name: facts for facts in discover()}
    path = tmp_path / "kernels.jsonl"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv(PROFILES, str(path))
    found = {facts.name: facts for facts in discover()}
    assert found.keys() == clean.keys()
    assert found["cpu"] == clean["cpu"]
    assert "cannot be read" in found["sim:v100"].description
    assert found["sim:v100"].fingerprint != clean["sim:v100"].fingerprint
    with pytest.raises(DeviceError, match=str(path)):
        open_device("sim:v100")
