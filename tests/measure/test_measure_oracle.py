"""The oracle: nothing twice, within the budget, by structure."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import torch
from support.fake_device import ScriptedDevice
from support.graphs import DIAMOND, SIDE, Dag, graph_of, wide

from workers.devices import open_device
from workers.devices.base import DeviceError
from workers.graph.graph import Graph, Operator, TensorSpec, Unit, ValueRef
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.measure.measurement import Failure, Measurement, Round
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex, ProfileKey
from workers.measure.subgraph import subgraph
from workers.schedulers.ios import IosScheduler
from workers.schedules.plan import Plan, Stream
from workers.schedules.schedule import Stage

TWO_DIAMONDS: Dag = (*DIAMOND, (3,), (4,), (4,), (5, 6))


def launches(graph: Graph, plan: Plan) -> float:
    return float(len(plan.launches))


def oracle_on(
    device: ScriptedDevice, dag: Dag, index: MemoryIndex, **options: object
) -> MeasuringOracle:
    return MeasuringOracle(graph_of(dag), {}, device, index, **options)  # type: ignore[arg-type]


def test_equal_stages_are_measured_once_whatever_their_names() -> None:
    device, index = ScriptedDevice(launches), MemoryIndex()
    oracle = oracle_on(device, TWO_DIAMONDS, index)
    stages = [Stage((("u1",), ("u2",))), Stage((("u5",), ("u6",))), Stage((("u1",),))]
    assert [a.latency_ms for a in oracle.stage_latencies(stages)] == [2.0, 2.0, 1.0]
    assert len(device.prepared) == 2
    assert (oracle.measured, oracle.looked_up) == (2, 1)
    again = oracle_on(device, DIAMOND, index)
    assert again.stage_latencies([Stage((("u2",),))])[0].latency_ms == 1.0
    assert (again.measured, again.looked_up) == (0, 1)


def test_what_changes_the_latency_is_part_of_the_key() -> None:
    index = RecordingIndex()
    oracle = oracle_on(ScriptedDevice(launches), (*wide(3), (0,)), index)
    oracle.stage_latencies(
        [
            Stage((("u1",),)),
            Stage((("u1",), ("u2",))),
            Stage((("u1",), ("u2",)), threads=(2, 1)),
            Stage((("u0", "u1"),)),
            Stage((("u1", "u2"),)),
        ]
    )
    assert len(index.keys) == 5
    assert {key.context for key in index.keys} == {
        "concurrent threads=2",
        "concurrent threads=1+1",
        "concurrent threads=2+1",
    }
    assert {(key.provider, key.device_fingerprint) for key in index.keys} == {("aten", "sim-1")}


class RecordingIndex(MemoryIndex):
    def __init__(self) -> None:
        super().__init__()
        self.keys: list[ProfileKey] = []

    def record(self, entries: object) -> None:
        self.keys.extend(entries)  # type: ignore[call-overload]
        super().record(entries)  # type: ignore[arg-type]


def test_after_the_deadline_only_the_index_answers() -> None:
    device, index = ScriptedDevice(launches), MemoryIndex()
    oracle_on(device, DIAMOND, index).stage_latencies([Stage((("u0",),))])
    late = oracle_on(device, DIAMOND, index, deadline=time.monotonic())
    known, unknown = late.stage_latencies([Stage((("u0",),)), Stage((("u3",),))])
    assert known.latency_ms == 1.0
    assert (unknown.latency_ms, unknown.reason) == (math.inf, "budget")
    in_time = oracle_on(device, DIAMOND, index)
    assert in_time.stage_latencies([Stage((("u3",),))])[0].latency_ms == 1.0


def test_failures_are_remembered_with_their_reason() -> None:
    def fails(graph: Graph, plan: Plan) -> float:
        raise DeviceError("unit 'u0' failed: no")

    index = MemoryIndex()
    for device in (ScriptedDevice(fails), ScriptedDevice(launches)):
        (answer,) = oracle_on(device, DIAMOND, index).stage_latencies([Stage((("u0",),))])
        assert (answer.latency_ms, answer.reason) == (math.inf, "unit 'u0' failed: no")


def test_failures_that_may_not_repeat_are_tried_again_by_the_next_search() -> None:
    def short_of_memory(graph: Graph, plan: Plan) -> float:
        raise DeviceError("unit 'u0' failed") from MemoryError()

    index = MemoryIndex()
    device = ScriptedDevice(short_of_memory)
    oracle = oracle_on(device, DIAMOND, index)
    for _ in range(2):
        (answer,) = oracle.stage_latencies([Stage((("u0",),))])
        assert (answer.latency_ms, answer.reason) == (math.inf, "unit 'u0' failed")
    assert len(device.prepared) == 1
    assert list(index.entries()) == []
    later = oracle_on(ScriptedDevice(launches), DIAMOND, index)
    assert later.stage_latencies([Stage((("u0",),))])[0].latency_ms == 1.0


def test_such_failures_in_an_index_from_elsewhere_are_no_answer() -> None:
    index = RecordingIndex()
    oracle_on(ScriptedDevice(launches), DIAMOND, index).stage_latencies([Stage((("u0",),))])
    for failure, latency in ((Failure.CRASH, 1.0), (Failure.LAUNCH, math.inf)):
        imported = MemoryIndex()
        imported.record({index.keys[0]: Measurement.failed(failure, "from elsewhere")})
        oracle = oracle_on(ScriptedDevice(launches), DIAMOND, imported)
        assert oracle.stage_latencies([Stage((("u0",),))])[0].latency_ms == latency


def test_the_provider_is_part_of_the_key_and_reaches_the_device() -> None:
    index, asked = RecordingIndex(), []

    class Watched(ScriptedDevice):
        def prepare(self, graph, weights, plan, provider="aten"):  # type: ignore[no-untyped-def]
            asked.append(provider)
            return super().prepare(graph, weights, plan, provider)

    for provider in ("aten", "inductor"):
        oracle = oracle_on(Watched(launches), DIAMOND, index, provider=provider)
        oracle.stage_latencies([Stage((("u0",),))])
    assert asked == [key.provider for key in index.keys] == ["aten", "inductor"]


def test_rounds_are_reported_and_empty_batches_are_none() -> None:
    rounds: list[Round] = []
    oracle = oracle_on(
        ScriptedDevice(launches), TWO_DIAMONDS, MemoryIndex(), on_round=rounds.append
    )
    oracle.stage_latencies([Stage((("u0",),)), Stage((("u3",),))])
    oracle.stage_latencies([Stage((("u4",),))])
    oracle.stage_latencies([])
    assert [(round_.number, round_.candidates) for round_ in rounds] == [(1, 2)]


def test_a_search_resumes_without_measuring_twice() -> None:
    graph, index = graph_of(wide(4)), MemoryIndex()
    weights = {"w": torch.eye(SIDE)}
    device = open_device("cpu")
    try:
        first = MeasuringOracle(graph, weights, device, index)
        found = IosScheduler().schedule(graph, first)
        second = MeasuringOracle(graph, weights, device, index)
        assert IosScheduler().schedule(graph, second) == found
    finally:
        device.close()
    assert first.measured > 0
    assert (second.measured, second.looked_up) == (0, found.stages_total)


def test_a_subgraph_computes_what_its_units_do() -> None:
    graph = graph_of(TWO_DIAMONDS)
    weights = {"w": torch.eye(SIDE) / 2}
    part = subgraph(graph, ("u6", "u4", "u5"))
    assert part.inputs == ("u3",)
    assert part.outputs == ("u5", "u6")
    assert [unit.name for unit in part.units] == ["u4", "u5", "u6"]
    whole = subgraph(graph, [unit.name for unit in graph.units])
    inputs = random_inputs(graph, 1)
    assert torch.equal(
        run_graph(whole, weights, inputs)["u7"], run_graph(graph, weights, inputs)["u7"]
    )


def test_a_subgraph_returns_what_is_read_elsewhere_too() -> None:
    graph = graph_of(((), (0,), (0,), (1, 2)))
    assert subgraph(graph, ("u0", "u1")).outputs == ("u0", "u1")
    assert subgraph(graph, ("u3",)).inputs == ("u1", "u2")


def two_layers() -> Graph:
    """Two convolutions of one image, 1×1 and 3×3, and one of something else."""
    image, out = TensorSpec((1, 4, 8, 8), "float32"), TensorSpec((1, 6, 8, 8), "float32")
    values = {"x": image, "a": TensorSpec((6, 4, 1, 1), "float32")}
    values |= {"b": TensorSpec((6, 4, 3, 3), "float32"), "c": TensorSpec((6, 6, 3, 3), "float32")}
    units = []
    for name, read, weight, padding in (
        ("one", "x", "a", (0, 0)), ("three", "x", "b", (1, 1)), ("next", "one", "c", (1, 1)),
    ):  # fmt: skip
        arguments = (ValueRef(read), ValueRef(weight), None, (1, 1), padding, (1, 1), 1)
        operator = Operator(name, "aten.conv2d.default", arguments, (), (name,))
        units.append(Unit(name, "conv", (operator,), (read,), (weight,), (name,), 1, 1))
        values[name] = out
    return Graph("layers", ("x",), ("three", "next"), ("a", "b", "c"), values, tuple(units))


def test_a_merged_stage_is_measured_merged() -> None:
    graph, index = two_layers(), RecordingIndex()
    generator = torch.Generator().manual_seed(1)
    weights = {
        name: torch.randn(graph.values[name].shape, generator=generator) for name in graph.weights
    }
    prepared: list[tuple[Graph, Plan]] = []
    cpu = open_device("cpu")

    class Watched(ScriptedDevice):
        def prepare(self, graph, weights, plan, provider="aten"):  # type: ignore[no-untyped-def]
            with cpu.prepare(graph, weights, plan, provider) as real:
                outputs = real.run(random_inputs(graph, 1))
            expected = run_graph(two_layers(), every, random_inputs(two_layers(), 1))["three"]
            torch.testing.assert_close(outputs["three"], expected)
            prepared.append((graph, plan))
            return super().prepare(graph, weights, plan, provider)

    every = dict(weights)
    oracle = MeasuringOracle(graph, weights, Watched(launches), index)
    groups = (("one",), ("three",))
    stages = [Stage(groups, "merge"), Stage(groups), Stage(groups, "merge")]
    stages.append(Stage(groups, "merge", threads=(1,)))
    try:
        answers = oracle.stage_latencies(stages)
    finally:
        cpu.close()
    assert [answer.latency_ms for answer in answers] == [1.0, 2.0, 1.0, 1.0]
    assert [len(part.units) for part, _ in prepared] == [1, 2, 1]
    assert [plan.streams for _, plan in prepared] == [
        (Stream(2),),
        (Stream(1), Stream(1)),
        (Stream(1),),
    ]
    assert [key.context for key in index.keys] == [
        "merge threads=2",
        "concurrent threads=1+1",
        "merge threads=1",
    ]
    assert len({key.signature for key in index.keys}) == 1
    assert (oracle.measured, oracle.looked_up) == (3, 1)


def test_a_stage_that_cannot_be_merged_is_infinite_and_says_why() -> None:
    graph, index = two_layers(), MemoryIndex()
    oracle = MeasuringOracle(graph, {}, ScriptedDevice(launches), index)
    apart, alone = oracle.stage_latencies(
        [Stage((("three",), ("next",)), "merge"), Stage((("three",),), "merge")]
    )
    assert apart.latency_ms == alone.latency_ms == math.inf
    assert apart.reason
    assert alone.reason == "there is nothing to merge one unit with"
    assert list(index.entries()) == []
    assert (oracle.measured, oracle.looked_up) == (0, 0)


def test_what_was_measured_is_kept_at_once_and_what_was_computed_in_batches() -> None:
    class Counting(MemoryIndex):
        calls = 0

        def record(self, entries: Mapping[ProfileKey, Measurement]) -> None:
            self.calls += 1
            super().record(entries)

    graph = graph_of(DIAMOND)
    stages = [Stage((("u0",),)), Stage((("u1",), ("u2",))), Stage((("u3",),))]
    for name, calls in (("cpu", 3), ("sim:v100", 1)):
        index, weights = Counting(), {"w": torch.zeros(SIDE, SIDE)}
        device = open_device(name)
        MeasuringOracle(graph, weights, device, index).stage_latencies(stages)
        device.close()
        assert index.calls == calls
        assert len(list(index.entries())) == 3
