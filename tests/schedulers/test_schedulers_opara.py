"""Opara as a scheduler: classes, demands, strict mode by hand, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, chain, dags, graph_of, wide
from support.oracles import FakeClockOracle, longest_group

from workers.devices.sim.device import SimDevice
from workers.devices.sim.specs import SPECS
from workers.graph.graph import Operator, TensorSpec, Unit, ValueRef
from workers.hardware.kernel import Kernel
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.schedulers import create
from workers.schedulers.base import SchedulerError
from workers.schedulers.opara import OparaScheduler
from workers.schedulers.opara.classes import compute_bound, listed
from workers.schedulers.opara.demand import Waves, of_a_block
from workers.schedules.lower import lower
from workers.schedules.schedule import Placement, StreamSchedule
from workers.schedules.validate import validate

A100 = SPECS["a100"].gpu  # 108 SMs of 2048 threads, 65536 registers, 164 KiB, 32 blocks


def kernel(
    unit: str,
    blocks: int = 1,
    threads: int = 256,
    registers: int = 32,
    shared: int = 0,
    duration: float = 1.0,
) -> Kernel:
    return Kernel(unit, unit, duration, (blocks, 1, 1), (threads, 1, 1), registers, shared)


COPY = Kernel("u", "Memcpy DtoD", 1.0)


def placed(schedule: object) -> list[tuple[str, int]]:
    assert isinstance(schedule, StreamSchedule)
    return [(placement.unit, placement.stream) for placement in schedule.placements]


def test_the_demand_of_a_block() -> None:
    kernels = [kernel("u", 9, 256, 32, 1024), kernel("u", 1, 128, 96, 0), COPY]
    assert of_a_block(kernels) == (1024, 128 * 96, 256)
    assert of_a_block([COPY]) == of_a_block([]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("taken", "at_once"),
    [
        (kernel("u", threads=256, registers=16), 8 * 108),  # threads: 2048 / 256
        (kernel("u", threads=256, registers=64), 4 * 108),  # registers: 65536 / (64 · 256)
        (kernel("u", threads=64, shared=40 << 10), 4 * 108),  # 164 KiB / (40 + 1)
        (kernel("u", threads=32, registers=16), 32 * 108),  # block slots
    ],
    ids=["threads", "registers", "shared memory", "block slots"],
)
def test_a_wave_is_limited_by_the_scarcest_resource(taken: Kernel, at_once: int) -> None:
    for blocks in (1, 54, 1080):
        assert Waves(A100).of([replace(taken, grid=(blocks, 1, 1))]) == blocks / at_once


def test_waves_are_weighted_by_duration() -> None:
    small = kernel("u", 864, registers=16, duration=3.0)  # one wave
    large = kernel("u", 8640, registers=16, duration=1.0)  # ten
    assert Waves(A100).of([small, large]) == (3 * 1 + 1 * 10) / 4
    assert Waves(A100).of([small, COPY]) == 3 * 1 / 4
    assert Waves(A100).of([replace(small, duration_ms=0.0), replace(large, duration_ms=0.0)]) == 10
    assert Waves(A100).of([]) == 0


SPEC = TensorSpec((64, 64), "float32")
VALUES = dict.fromkeys(["a", "b", "product", "sum", "row"], SPEC)


def operator(name: str, target: str, *read: str) -> Operator:
    return Operator(name, target, tuple(map(ValueRef, read)), (), (name,))


MM = operator("product", "aten.mm.default", "a", "b")  # 524288 flops, 3 · 16 KiB: 10.7 each byte
ADD = operator("sum", "aten.add.Tensor", "product", "a")  # 4096 flops, 3 · 16 KiB: 1/12
VIEW = operator("row", "aten.view.default", "sum")


def unit(*operators: Operator, kind: str = "matmul") -> Unit:
    moved = 3 * SPEC.nbytes
    return Unit("u", kind, operators, ("a", "b"), (), ("sum",), 2 * 64**3 + 64**2, moved)


def test_the_table_of_operators() -> None:
    assert listed(unit(MM, ADD))
    assert not listed(unit(ADD, kind="elementwise"))
    assert listed(unit(operator("sum", "aten.arange.default"), kind="data"))
    assert not listed(unit(operator("sum", "aten.ones.default"), kind="data"))


def test_the_class_is_intensity_against_the_ridge() -> None:
    fused = [kernel("u")]
    assert compute_bound(unit(MM, ADD), fused, VALUES, ridge=10)
    assert not compute_bound(unit(MM, ADD), fused, VALUES, ridge=11)
    assert compute_bound(unit(MM, ADD), [], VALUES, ridge=10)


def test_kernels_of_single_operators_weigh_as_long_as_they_take() -> None:
    both = unit(MM, ADD, VIEW)
    long_product = [kernel("u", duration=3), kernel("u", duration=2)]
    assert compute_bound(both, long_product, VALUES, ridge=10)
    assert not compute_bound(both, long_product[::-1], VALUES, ridge=10)
    # Three kernels of two operators: nobody can tell which is whose.
    assert compute_bound(both, [*long_product[::-1], COPY], VALUES, ridge=10)


def test_strict_by_hand() -> None:
    """A fork of four products (the table: all compute-intensive): least shared memory first, then
    registers, then threads, then the graph's order."""
    blocks = {
        "u0": kernel("u0"),
        "u1": kernel("u1", shared=2048),
        "u2": kernel("u2", registers=64),
        "u3": kernel("u3", threads=128, registers=64),
        "u4": kernel("u4", shared=2048),
        "u5": kernel("u5"),
    }
    oracle = FakeClockOracle(longest_group, profiles={name: (k,) for name, k in blocks.items()})
    found = OparaScheduler(strict=True).schedule(graph_of(wide(4)), oracle)
    assert placed(found.schedule) == [
        ("u0", 0), ("u3", 2), ("u2", 1), ("u1", 0), ("u4", 3), ("u5", 0),
    ]  # fmt: skip
    (note,) = found.notes
    assert note == (
        "4 streams, as many as wanted, 6 dependencies between them, synchronised but for those"
        " that others imply; 6 of 6 units are compute-intensive by the table"
    )


def test_strict_takes_as_many_streams_as_it_wants() -> None:
    graph = graph_of(wide(40))
    found = [
        OparaScheduler(strict=strict).schedule(graph, FakeClockOracle(longest_group)).schedule
        for strict in (True, False)
    ]
    assert [max(stream for _, stream in placed(s)) + 1 for s in found] == [40, 32]


def test_by_default_fewer_waves_go_first() -> None:
    """On the GPU the kernel with the larger block goes first, its grid being smaller."""
    profiles = {
        "u0": (kernel("u0"),),
        "u1": (kernel("u1", blocks=900, duration=9.0),),  # of 864 at once
        "u2": (kernel("u2", blocks=2, threads=512, shared=4096),),
        "u3": (kernel("u3"),),
    }
    graph = graph_of(DIAMOND)
    on_gpu = FakeClockOracle(longest_group, profiles=profiles, gpu=A100)
    found = OparaScheduler().schedule(graph, on_gpu)
    assert placed(found.schedule) == [("u0", 0), ("u2", 1), ("u1", 0), ("u3", 0)]
    (note,) = found.notes
    assert note == (
        "2 streams of 2 wanted, 2 synchronisations; 0 of 4 units are compute-bound, with more than"
        " 10 operations per byte"
    )
    strict = OparaScheduler(strict=True).schedule(graph, on_gpu)
    assert placed(strict.schedule) == [("u0", 0), ("u1", 0), ("u2", 1), ("u3", 0)]


def test_of_what_leaves_room_the_longest_path_goes_first() -> None:
    """u1 and u2 fill less than a wave; u2 leads to the long u4."""
    dag: Dag = ((), (0,), (0,), (1,), (2,))
    profiles = {f"u{n}": (kernel(f"u{n}", blocks=9 - n),) for n in range(4)}
    profiles["u4"] = (kernel("u4", blocks=5000, duration=7.0),)
    oracle = FakeClockOracle(longest_group, profiles=profiles, gpu=A100)
    found = OparaScheduler().schedule(graph_of(dag), oracle)
    assert [name for name, _ in placed(found.schedule)] == ["u0", "u2", "u1", "u3", "u4"]


def test_on_a_cpu_fewer_bytes_go_first() -> None:
    """u3 reads two values, u2 and u4 one; kernels have no grid."""
    dag: Dag = ((), (), (0,), (0, 1), (0,))
    profiles = {f"u{n}": (Kernel(f"u{n}", "aten::mm", 1.0),) for n in range(5)}
    found = OparaScheduler().schedule(
        graph_of(dag), FakeClockOracle(longest_group, profiles=profiles)
    )
    assert [name for name, _ in placed(found.schedule)] == ["u0", "u1", "u2", "u4", "u3"]


@settings(deadline=None, max_examples=25)
@given(dags(max_units=10), st.booleans(), st.integers(1, 4))
def test_on_a_simulated_gpu(dag: Dag, strict: bool, most: int) -> None:
    """What it finds can be run, each Unit once, and is found again."""
    graph = graph_of(dag)
    oracle = MeasuringOracle(graph, {}, SimDevice("a100"), MemoryIndex())
    scheduler = OparaScheduler(strict=strict, max_streams=most)
    found = scheduler.schedule(graph, oracle)
    assert scheduler.schedule(graph, oracle) == found
    validate(lower(found.schedule, graph, 1), graph)
    if not strict:
        assert max(stream for _, stream in placed(found.schedule)) < most


def test_strict_needs_thread_blocks() -> None:
    profiles = {"u0": (Kernel("u0", "aten::mm", 1.0),)}
    oracle = FakeClockOracle(longest_group, profiles=profiles)
    with pytest.raises(SchedulerError, match="no thread blocks on this device"):
        OparaScheduler(strict=True).schedule(graph_of(chain(1)), oracle)


@pytest.mark.parametrize("strict", [True, False])
def test_a_model_that_cannot_be_profiled(strict: bool) -> None:
    graph, device = graph_of(chain(2)), SimDevice("a100")
    device.close()
    oracle = MeasuringOracle(graph, {}, device, MemoryIndex())
    with pytest.raises(SchedulerError, match=r"cannot be profiled: .* is closed"):
        OparaScheduler(strict=strict).schedule(graph, oracle)


@pytest.mark.parametrize(
    "options", [{"strict": 1}, {"max_streams": 0}, {"max_streams": 2.0}, {"max_streams": True}]
)
def test_a_wrong_value_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SchedulerError, match=next(iter(options))):
        create("opara", options)


def test_the_schedule_names_the_scheduler() -> None:
    found = create("opara").schedule(graph_of(chain(1)), FakeClockOracle(longest_group))
    assert found.schedule == StreamSchedule("opara", (Placement("u0", 0),))
