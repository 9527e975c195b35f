"""Stages are timed as within their model: after what they read from, with others' bytes touched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.fake_device import ScriptedExecutable
from support.graphs import DIAMOND, SIDE, dags, graph_of
from support.noisy_device import NoisyDevice
from support.pass_graphs import call, graph_of_calls
from torch import Tensor

from workers.devices import cpu_executable, open_device
from workers.devices.base import DeviceError, Surroundings
from workers.devices.cpu_surroundings import Scratch, disturbance
from workers.graph.graph import Graph, ValueRef
from workers.graph.random_inputs import random_inputs
from workers.graph.signature import Signatures
from workers.measure.measurement import Failure
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.measure.serial import Candidate, SerialMeasurer
from workers.measure.surroundings import LEAD_IN, Neighbourhood, rounded
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import Stage, StageSchedule

NOTHING = Surroundings(lead_in=0, weights_bytes=0, values_bytes=0)


def products(*sides: int) -> Graph:
    """Units ``m0``, ``m1``, …, each of which multiplies a square input by a square weight."""
    names = [f"m{number}" for number in range(len(sides))]
    calls, weights, inputs = [], {}, {}
    for number, side in enumerate(sides):
        inputs[f"x{number}"] = weights[f"w{number}"] = (side, side)
        calls.append(
            call(names[number], "mm.default", ValueRef(f"x{number}"), ValueRef(f"w{number}"))
        )
    shapes = {name: (side, side) for name, side in zip(names, sides, strict=True)}
    return graph_of_calls(calls, outputs=names, inputs=inputs, weights=weights, shapes=shapes)[0]


def one_by_one(graph: Graph) -> Plan:
    order = StageSchedule("one by one", tuple(Stage(((unit.name,),)) for unit in graph.units))
    return lower(order, graph, 1)


@given(amount=st.integers(0, 1 << 45))
def test_amounts_are_rounded_to_powers_of_the_root_of_two(amount: int) -> None:
    found = rounded(amount)
    assert rounded(found) == found
    if found:
        assert 2**-0.251 < found / amount < 2**0.251
        assert abs(2 * math.log2(found) - round(2 * math.log2(found))) < 0.02
    else:
        assert amount < 1 << 20


def test_what_leads_in_is_what_makes_the_inputs_and_what_that_depends_on() -> None:
    graph = graph_of(DIAMOND)
    near = Neighbourhood(graph, Signatures(graph), 1 << 20)
    assert near.lead_in(("u0",)) == ()
    assert near.lead_in(("u2", "u1")) == ("u0",)
    assert near.lead_in(("u3",)) == ("u0", "u1", "u2")
    assert near.lead_in(("u1", "u3")) == ("u0", "u2")


def test_a_few_units_lead_in_the_nearest_first_but_all_that_make_inputs() -> None:
    """A chain of ten; and ten sources that one Unit reads, of which the first two are chains."""
    chain = graph_of(((), *((before,) for before in range(9))))
    near = Neighbourhood(chain, Signatures(chain), 1 << 20)
    assert near.lead_in(("u9",)) == tuple(f"u{unit}" for unit in range(9 - LEAD_IN, 9))
    assert near.lead_in(("u2", "u3")) == ("u0", "u1")
    fan = graph_of((*10 * ((),), (0,), (1,), tuple(range(2, 12))))
    near = Neighbourhood(fan, Signatures(fan), 1 << 20)
    assert near.lead_in(("u12",)) == tuple(f"u{unit}" for unit in range(2, 12))


@pytest.mark.parametrize(("side", "threads"), [(32, 1), (128, 2)])
def test_small_units_lead_in_on_the_threads_of_the_stage_and_large_ones_on_all(
    side: int, threads: int
) -> None:
    shape = (side, side)
    calls = [call("a", "mm.default", ValueRef("x"), ValueRef("w"))]
    calls.append(call("b", "mm.default", ValueRef("a"), ValueRef("w")))
    shapes = {"x": shape, "w": shape, "a": shape, "b": shape}
    graph, weights = graph_of_calls(
        calls, outputs=("b",), inputs={"x": shape}, weights={"w": shape}, shapes=shapes
    )
    oracle = MeasuringOracle(graph, weights, CachedDevice(), MemoryIndex())
    candidate = oracle._candidate(Stage((("b",),), threads=(1,)))
    before, stage = candidate.plan.launches
    assert (before.unit, stage.unit) == ("a", "b")
    assert candidate.plan.streams[before.stream].threads == threads
    assert candidate.plan.streams[stage.stream].threads == 1


@given(dag=dags(), data=st.data())
def test_no_more_is_touched_than_the_rest_of_the_model_has(dag: tuple, data: st.DataObject) -> None:
    graph = graph_of(dag)
    chosen = data.draw(st.lists(st.sampled_from(graph.units), min_size=1, unique=True))
    near = Neighbourhood(graph, Signatures(graph), 1 << 30)
    found = near.of([unit.name for unit in chosen])
    before = near.lead_in([unit.name for unit in chosen])
    made = {unit.name for unit in chosen}.union(before)
    read = {name for unit in chosen for name in unit.inputs if name in graph.index}
    assert found.lead_in == len(before) <= max(LEAD_IN, len(read))
    assert read <= made
    assert not made.intersection(before).intersection(unit.name for unit in chosen)
    assert found.weights_bytes == 0  # the one weight is the stage's own
    assert found.values_bytes <= 1.2 * len(dag) * 4 * SIDE * SIDE


def test_other_weights_count_up_to_twice_the_caches() -> None:
    graph = products(512, 1024, 64)
    mib = 1 << 20

    def weights(cache_bytes: int, *units: str) -> int:
        return Neighbourhood(graph, Signatures(graph), cache_bytes).of(units).weights_bytes

    assert weights(64 * mib, "m1") == mib
    assert weights(64 * mib, "m0") == 4 * mib
    assert weights(64 * mib, "m2") == rounded(5 * mib)
    assert weights(mib, "m2") == 2 * mib
    assert weights(64 * mib, "m0", "m1") == 0


class Within(ScriptedExecutable):
    """Takes a millisecond alone, and as many more within a model as there are MiB of weights."""

    def time_within(
        self, inputs: Mapping[str, Tensor], repeats: int, surroundings: Surroundings
    ) -> list[float]:
        return [1.0 + surroundings.weights_bytes / (1 << 20)] * repeats


class CachedDevice(NoisyDevice):
    """A device on which the caches matter."""

    cache_bytes = 64 << 20

    def prepare(self, graph, weights, plan, provider="aten"):  # type: ignore[no-untyped-def]
        super().prepare(graph, weights, plan, provider)
        return Within(lambda _: 1.0)


def test_a_stage_is_timed_within_its_model_the_second_time_too() -> None:
    graph, device, index = products(512, 1024), CachedDevice(), MemoryIndex()
    oracle = MeasuringOracle(graph, {}, device, index)
    stages = [Stage((("m0",),)), Stage((("m0",), ("m1",)))]
    for answers in (oracle.stage_latencies(stages), oracle.recheck(stages)):
        assert [answer.latency_ms for answer in answers] == [5.0, 1.0]


def test_equal_stages_of_models_of_other_sizes_are_not_mixed_up() -> None:
    index, device = MemoryIndex(), CachedDevice()
    found = []
    for sides in ((512, 1024), (512, 1024, 32), (512, 2048)):
        oracle = MeasuringOracle(products(*sides), {}, device, index)
        (answer,) = oracle.stage_latencies([Stage((("m0",),))])
        found.append((answer.latency_ms, oracle.measured))
    assert found == [(5.0, 1), (5.0, 0), (17.0, 1)]
    assert sorted(key.context for key, _ in index.entries()) == [
        "concurrent threads=2 within=16384K+16384K",
        "concurrent threads=2 within=4096K+4096K",
    ]


def test_what_ran_before_is_part_of_the_key_by_its_structure() -> None:
    graph, index = graph_of(((), (0,), (1,), (), (3,), (3, 4))), MemoryIndex()
    oracle = MeasuringOracle(graph, {}, CachedDevice(), index)
    stages = [Stage(((unit,),)) for unit in ("u1", "u4", "u2", "u0")]
    oracle.stage_latencies(stages)
    keys = [oracle._key(stage) for stage in stages]
    assert len({key.signature for key in keys}) == 1
    assert " after=" in keys[0].context
    assert keys[0].context != keys[3].context
    assert " after=" not in keys[3].context


def test_what_leads_in_is_not_timed_on_a_cpu() -> None:
    graph = products(768, 8)
    weights = {name: torch.rand(graph.values[name].shape) for name in graph.weights}
    inputs = random_inputs(graph, 0)
    with closing(open_device("cpu")) as device:
        plan = one_by_one(graph)
        with device.prepare(graph, weights, plan) as executable:
            executable.time(inputs, 3)
            whole = min(executable.time(inputs, 10))
            part = executable.time_within(inputs, 10, Surroundings(1, 0, 0))
            every = executable.time_within(inputs, 10, NOTHING)
            assert torch.equal(executable.run(inputs)["m1"], inputs["x1"] @ weights["w1"])
    assert len(part) == len(every) == 10
    assert 0 < min(part) < 0.2 * whole
    assert min(part) < 0.2 * min(every)


@pytest.mark.parametrize("threads", [(1,), (1, 1)])
def test_the_caches_are_disturbed_before_each_timed_run(
    threads: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, asked, runs = graph_of(DIAMOND), [], []

    def counted(surroundings: Surroundings, scratch: Scratch) -> object:
        asked.append(surroundings)
        return lambda: runs.append(1)

    monkeypatch.setattr(cpu_executable, "disturbance", counted)
    groups = (("u1",), ("u2",)) if len(threads) == 2 else (("u1", "u2"),)
    middle = Stage(groups, threads=threads)
    order = StageSchedule("s", (Stage((("u0",),)), middle, Stage((("u3",),))))
    around = Surroundings(1, 1 << 20, 1 << 20)
    with closing(open_device("cpu")) as device:
        plan = lower(order, graph, device.facts.parallelism)
        part = Candidate(graph, {"w": torch.eye(SIDE)}, plan, surroundings=around)
        found = SerialMeasurer(device).measure([part]).measurements[0]
    assert asked == [around, around]
    assert len(runs) == found.samples + 1


def test_memory_that_runs_out_before_a_timed_run_is_the_candidates_failure() -> None:
    graph = graph_of(DIAMOND)
    around = Surroundings(0, 0, 1 << 60)
    with closing(open_device("cpu")) as device:
        plan = one_by_one(graph)
        part = Candidate(graph, {"w": torch.eye(SIDE)}, plan, surroundings=around)
        found = SerialMeasurer(device).measure([part]).measurements[0]
    assert found.failure is Failure.OUT_OF_MEMORY


def test_other_devices_refuse() -> None:
    with closing(open_device("sim:v100")) as device:
        assert device.cache_bytes == 0
        graph = graph_of(DIAMOND)
        with (
            device.prepare(graph, {"w": torch.eye(SIDE)}, one_by_one(graph)) as executable,
            pytest.raises(DeviceError, match="does not time parts"),
        ):
            executable.time_within(random_inputs(graph, 0), 1, NOTHING)


def test_scratch_grows_to_the_most_that_was_asked_for() -> None:
    scratch = Scratch()
    assert scratch.words(1000).nbytes == 1000
    first = scratch.words(4000).data_ptr()
    assert scratch.words(2000).data_ptr() == first
    disturbance(Surroundings(0, 8000, 4096), scratch)()
    assert scratch.words(8000).sum() == 0
