"""The artifact's program on CUDA, as far as that can be told without a GPU: the order of what it
gives to streams, and what it does when a CUDA graph can or cannot be captured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_cuda import FakeCuda
from support.graphs import SIDE, Dag, dags, graph_of, wide
from support.schedules import schedules

from workers.graph.graph import Graph
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.graph.serialize import graph_to_json
from workers.schedules import run
from workers.schedules.lower import lower
from workers.schedules.plan import Plan, plan_to_json
from workers.schedules.schedule import Stage, StageSchedule

WEIGHTS = {"w": torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(3)) / 3}
CPU = torch.device("cpu")


def units_on(cuda: FakeCuda, graph: Graph) -> dict[str, run.Run]:
    """The units of the graph, each telling ``cuda`` when it is launched."""

    def told(unit: Mapping[str, Any]) -> run.Run:
        real = run.compile_unit(unit)

        def launch(values: run.Values) -> None:
            cuda.give(unit["name"])
            real(values)

        return launch

    return {unit["name"]: told(unit) for unit in graph_to_json(graph)["units"]}


def disorder(cuda: FakeCuda, graph: Graph, first: int = 0) -> list[str]:
    """What of the run that began with launch ``first`` might start too early."""
    position = {name: number for number, (_, name, _) in enumerate(cuda.given) if number >= first}
    found = []
    for _, name, before in cuda.given[first:]:
        for reader in graph.predecessors[graph.index[name]]:
            other = graph.units[reader].name
            if position[other] not in before:
                found.append(f"{name} before {other}")
    return found


@settings(deadline=None, max_examples=40)
@given(data=st.data(), dag=dags(max_units=8))
def test_no_unit_can_start_before_what_it_reads(data: st.DataObject, dag: Dag) -> None:
    graph, cuda = graph_of(dag), FakeCuda()
    plan = plan_to_json(lower(data.draw(schedules(graph, dag)), graph, 4))
    runner = run.StreamRunner(plan, units_on(cuda, graph), cuda)
    inputs = random_inputs(graph, 1)
    for number in range(2):
        values = {**WEIGHTS, **inputs}
        runner.run(values)
        assert disorder(cuda, graph, first=number * len(dag)) == []
        for name, expected in run_graph(graph, WEIGHTS, inputs).items():
            torch.testing.assert_close(values[name], expected)
        # Whoever called comes after all of it, and so does the next run, on every stream.
        assert cuda.current_stream().before == set(range((number + 1) * len(dag)))
    for _, _, before in cuda.given[len(dag) :]:
        assert set(range(len(dag))) <= before


def test_a_wait_that_is_missing_would_be_noticed() -> None:
    graph, cuda = graph_of(wide(2)), FakeCuda()
    plan = plan_to_json(lower(STAGES, graph, 2))
    for launch in plan["launches"]:
        launch["waits"] = []
    run.StreamRunner(plan, units_on(cuda, graph), cuda).run({**WEIGHTS, **random_inputs(graph, 1)})
    assert len(disorder(cuda, graph)) == 4


STAGES = StageSchedule("test", (Stage((("u0",),)), Stage((("u1",), ("u2",))), Stage((("u3",),))))


def engine(
    cuda: FakeCuda, notes: list[str], use_graph: bool = True, plan: Plan | None = None
) -> tuple[run.CudaEngine, Graph]:
    graph = graph_of(wide(2))
    schedule = {"plan": plan_to_json(plan or lower(STAGES, graph, 2))}
    units = units_on(cuda, graph)
    made = run.CudaEngine(
        graph_to_json(graph), schedule, WEIGHTS, units, notes, CPU, use_graph, cuda
    )
    return made, graph


@pytest.mark.parametrize("sequential", [False, True])
def test_a_graph_is_captured_once_and_replayed(sequential: bool) -> None:
    notes: list[str] = []
    cuda = FakeCuda()
    made, graph = engine(cuda, notes)
    inputs = random_inputs(graph, 2)
    first, second = made.run(inputs, sequential), made.run(inputs, sequential)
    assert notes == []
    assert cuda.replays == 2
    assert len(cuda.given) == 4 * 4, "three runs to warm up and one to capture"
    expected = run_graph(graph, WEIGHTS, inputs)["u3"]
    torch.testing.assert_close(first["u3"], expected)
    assert first["u3"].data_ptr() != second["u3"].data_ptr()
    made.time(inputs, sequential)
    assert cuda.replays == 3
    streams = {stream for stream, _, _ in cuda.given}
    assert len(streams) == (1 if sequential else 3)


@pytest.mark.parametrize(("use_graph", "fails"), [(False, False), (True, True)])
def test_without_a_graph_units_are_launched(use_graph: bool, fails: bool) -> None:
    notes: list[str] = []
    cuda = FakeCuda(capture_fails=fails)
    made, graph = engine(cuda, notes, use_graph)
    for seed in range(2):
        inputs = random_inputs(graph, seed)
        expected = run_graph(graph, WEIGHTS, inputs)["u3"]
        torch.testing.assert_close(made.run(inputs, sequential=False)["u3"], expected)
    assert cuda.replays == 0
    assert len(notes) == fails
    if fails:
        assert notes[0].endswith("operation not permitted when stream is capturing")
    given = len(cuda.given)
    assert made.time(inputs, sequential=False) == 4.0, "from before the first launch to the last"
    assert len(cuda.given) == given + 4


def test_a_unit_that_fails_is_named() -> None:
    cuda = FakeCuda()
    made, _ = engine(cuda, [], use_graph=False)
    with pytest.raises(RuntimeError, match="unit 'u0' failed"):
        made.run({"x": torch.ones(3, 3)}, sequential=False)


def tuned_on(fingerprint: str) -> dict[str, Any]:
    return {"key": {"device_fingerprint": fingerprint}}


@pytest.mark.parametrize(
    ("asked", "fingerprint", "gpus", "device"),
    [
        (None, "cpu-1", 1, "cpu"),
        (None, "cuda-1", 1, "cuda"),
        (None, "sim-v100-1", 1, "cuda"),
        (None, "cuda-1", 0, "cpu"),
        ("cpu", "cuda-1", 1, "cpu"),
        ("cuda:1", "cpu-1", 2, "cuda:1"),
        ("cuda", "cpu-1", 0, "device 'cuda' is not here; run with --device cpu"),
        ("cuda:1", "cuda-1", 1, "device 'cuda:1' is not here"),
        ("meta", "cpu-1", 1, "device 'meta' is not known"),
    ],
)
def test_it_runs_where_it_was_tuned_for_unless_asked(
    asked: str | None, fingerprint: str, gpus: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    if " " in device:
        with pytest.raises(run.ArtifactError, match=device):
            run.choose_device(asked, tuned_on(fingerprint))
    else:
        assert str(run.choose_device(asked, tuned_on(fingerprint))) == device


def test_what_is_made_of_no_tensor_is_made_on_the_device() -> None:
    unit = {
        "name": "u",
        "operators": [
            {
                "target": "aten.full.default",
                "arguments": [[2], 1.5],
                "keywords": {},
                "outputs": ["f"],
            },
            {
                "target": "aten.add.Tensor",
                "arguments": [{"value": "f"}, {"value": "x"}],
                "keywords": {},
                "outputs": ["s"],
            },
        ],
        "inputs": ["x"],
        "weights": [],
        "outputs": ["s"],
    }
    meta = torch.device("meta")  # as good as a GPU for telling where something lies
    values = {"x": torch.ones(2, device=meta)}
    run.compile_unit(unit, meta)(values)
    assert values["s"].device == meta
