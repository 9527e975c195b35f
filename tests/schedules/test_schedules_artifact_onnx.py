"""An artifact that was tuned with ONNX Runtime brings its models, and runs without it, too."""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread, get_ident
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from support.graphs import SIDE, chain, graph_of
from support.unit_graphs import convolution, unit_graph

from workers.devices.cpu_facts import read_cpu
from workers.devices.providers import create, kernels_of
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.graph.serialize import graph_hash
from workers.graph.units import regroup
from workers.schedules import run
from workers.schedules.artifact import ArtifactError, read_artifact, write_artifact
from workers.schedules.lower import lower
from workers.schedules.schedule import (
    Placement,
    ScheduleKey,
    Stage,
    StageSchedule,
    StreamSchedule,
)

GRAPH, WEIGHTS = convolution()
SCHEDULE = StageSchedule("whole+onnxruntime", (Stage((("c",),)),))
KEY = ScheduleKey(graph_hash(GRAPH), "cpu-1", "float32", 2, {"torch": torch.__version__})


def written(
    folder: Path,
    edit: Callable[[dict[str, Any]], object] = lambda models: None,
    provider: str = "onnxruntime",
) -> Path:
    """The zip, with the models in it as ``edit`` leaves them; it is unpacked beside it."""
    kernels = kernels_of(GRAPH, {"c": provider}, read_cpu())
    edit(kernels.get("onnx", {}))
    path, plan = folder / "m.zip", lower(SCHEDULE, GRAPH, 1)
    write_artifact(path, GRAPH, WEIGHTS, SCHEDULE, KEY, plan, {}, 1, provider, kernels)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return path


def check(model: run.Model, runs: int = 1, sequential: bool = False) -> None:
    for seed in range(runs):
        inputs = random_inputs(GRAPH, seed)
        expected = run_graph(GRAPH, WEIGHTS, inputs)["r"]
        found = model(sequential=sequential, **inputs)["r"]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_its_models_are_run_in_one_session_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Session(onnxruntime.InferenceSession):
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            made.append(len(arguments[0]))
            super().__init__(*arguments, **keywords)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    path = written(tmp_path)
    model = run.load(tmp_path)
    check(model, runs=3)
    check(model, sequential=True)
    assert len(made) == 1
    assert made[0] < sum(tensor.nbytes for tensor in WEIGHTS.values()), "the weights are not in it"
    assert model.notes == []
    assert read_artifact(path).provider == "onnxruntime"
    readme = (tmp_path / "README.txt").read_text()
    assert f"pip install torch=={torch.__version__} onnxruntime\n" in readme


@pytest.mark.parametrize("apart", [False, True])
def test_threads_spin_for_a_moment_after_a_run_and_never_beside_other_units(
    apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the provider as of ``run.py``; ``apart`` has each operator in a Unit of its own."""
    given: list[Any] = []

    class Session(onnxruntime.InferenceSession):
        def __init__(self, model: bytes, options: Any, **keywords: Any) -> None:
            given.append(options)
            super().__init__(model, options, **keywords)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    graph = regroup(GRAPH, [[one] for one in GRAPH.operators]) if apart else GRAPH
    names = {unit.name: "onnxruntime" for unit in graph.units}
    for unit in graph.units:
        create("onnxruntime").compile(graph, unit, WEIGHTS, threads=2)
    for model in kernels_of(graph, names, read_cpu())["onnx"].values():
        run.Session(model, dict(WEIGHTS), 2, not apart, os.sched_getaffinity(0))
    assert len(given) == 2 * len(graph.units)
    assert (len(graph.units) > 1) is apart
    key, value = (
        ("session.force_spinning_stop", "1")
        if apart
        else ("session.intra_op.spin_duration_us", "1000")
    )
    assert all(options.get_session_config_entry(key) == value for options in given)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core only")
def test_threads_of_a_session_made_on_a_pinned_thread_may_use_all_cores() -> None:
    """They were on the host's own core, where two threads took twice as long as on two."""
    cores = os.sched_getaffinity(0)
    (model,) = kernels_of(GRAPH, {"c": "onnxruntime"}, read_cpu())["onnx"].values()
    found: list[set[int]] = []

    def on_a_host() -> None:
        os.sched_setaffinity(0, {min(cores)})
        before = run._threads()
        session = run.Session(model, dict(WEIGHTS), 2, alone=True, cores=cores)
        found.extend(os.sched_getaffinity(thread) for thread in run._threads() - before)
        found.append(os.sched_getaffinity(0))
        del session

    thread = Thread(target=on_a_host)
    thread.start()
    thread.join()
    assert found == [cores, {min(cores)}], "one thread of the session, and the host where it was"


def test_a_session_for_all_of_a_model_runs_on_the_thread_that_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path)
    called = []
    run_really = onnxruntime.InferenceSession.run

    def run_seen(*given: Any) -> Any:
        called.append(get_ident())
        return run_really(*given)

    monkeypatch.setattr(onnxruntime.InferenceSession, "run", run_seen)
    model = run.load(tmp_path)
    check(model, runs=2)
    (x,) = random_inputs(GRAPH, 0).values()
    model(x.numpy())
    assert called == [get_ident()] * 3


@pytest.mark.parametrize("provider", ["onnxruntime", "aten"])
def test_arrays_are_made_of_arrays(provider: str, tmp_path: Path) -> None:
    written(tmp_path, provider=provider)
    model = run.load(tmp_path)
    for seed in range(2):
        (x,) = random_inputs(GRAPH, seed).values()
        expected = run_graph(GRAPH, WEIGHTS, {"x": x})["r"]
        for found in (model(x.numpy()), model(x=x.numpy()), model(x.numpy(), sequential=True)):
            assert list(found) == ["r"]
            assert isinstance(found["r"], np.ndarray)
            torch.testing.assert_close(torch.from_numpy(found["r"]), expected, rtol=1e-4, atol=1e-5)
    wanted = tuple(x.shape)
    for wrong, words in [
        (
            (x.numpy()[:1],),
            rf"'x' is float32 \(1, .*the model takes torch.float32 {re.escape(str(wanted))}",
        ),
        ((x.double().numpy(),), "'x' is float64"),
        ((x.double(),), "'x' is torch.float64"),
        (([1.0, 2.0],), "input 'x' is missing"),
        ((), "input 'x' is missing"),
        ((x.numpy(), x.numpy()), "it takes 1 inputs, and 2 were given"),
    ]:
        with pytest.raises(ValueError, match=words):
            model(*wrong)
    with pytest.raises(ValueError, match="there is no input 'z'; inputs: x"):
        model(x, z=x)
    check(model)


def test_some_arrays_and_some_tensors_are_refused(tmp_path: Path) -> None:
    graph, weights = unit_graph("elementwise")
    schedule = StageSchedule("s", (Stage(((graph.units[0].name,),)),))
    key = ScheduleKey(graph_hash(graph), "cpu-1", "float32", 1, {"torch": torch.__version__})
    write_artifact(
        tmp_path / "a.zip", graph, weights, schedule, key, lower(schedule, graph, 1), {}, 1
    )
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        archive.extractall(tmp_path)
    model = run.load(tmp_path)
    inputs = random_inputs(graph, 0)
    first, second = inputs.values()
    with pytest.raises(ValueError, match="some inputs are tensors and some are arrays"):
        model(first, second.numpy())
    expected = run_graph(graph, weights, inputs)
    found = model(first.numpy(), second.numpy())
    for name in graph.outputs:
        torch.testing.assert_close(torch.from_numpy(found[name]), expected[name])


def test_without_onnx_runtime_it_runs_plainly_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    model = run.load(tmp_path)
    check(model, runs=2)
    (note,) = model.notes
    assert note.startswith("unit 'c' runs without ONNX Runtime: import of onnxruntime halted")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda models: models["c"].update(inputs=["z"]), "has 'z' among its inputs"),
        (lambda models: models["c"].update(weights=["x"]), "has 'x' among its weights"),
        (lambda models: models["c"].update(model="#"), "malformed kernels"),
        (lambda models: models.update(d=models.pop("c")), "'d'"),
    ],
)
def test_models_that_do_not_fit_are_refused(
    tmp_path: Path, edit: Callable[[dict[str, Any]], object], words: str
) -> None:
    with pytest.raises(ArtifactError) as error:
        read_artifact(written(tmp_path, edit))
    assert words in str(error.value)


def test_the_models_are_the_same_each_time() -> None:
    """Or the same schedule would not give the same artifact."""
    once, again = (kernels_of(GRAPH, {"c": "onnxruntime"}, read_cpu()) for _ in range(2))
    assert json.dumps(once) == json.dumps(again)


def test_units_of_several_providers_run_as_they_were_tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One each: calls of oneDNN, a model for ONNX Runtime, and what torch.compile makes."""
    graph, weights = graph_of(chain(3)), {"w": torch.randn(SIDE, SIDE) / 3}
    names = ("aten", "onnxruntime", "inductor")
    placements = tuple(Placement(f"u{i}", 0, name) for i, name in enumerate(names))
    schedule = StreamSchedule("mixed", placements)
    plan = lower(schedule, graph, 1)
    kernels = kernels_of(graph, plan.providers("aten"), read_cpu())
    assert list(kernels["onnx"]) == ["u1"]
    key = ScheduleKey(graph_hash(graph), "cpu-1", "float32", 1, {"torch": torch.__version__})
    path = tmp_path / "m.zip"
    write_artifact(path, graph, weights, schedule, key, plan, {}, 1, "aten", kernels)
    artifact = read_artifact(path)
    assert (artifact.schedule, artifact.plan) == (schedule, plan)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    assert " onnxruntime\n" in (tmp_path / "README.txt").read_text()
    compiled = []
    compile_really = torch.compile

    def compile_seen(function: Any, **options: Any) -> Any:
        compiled.append(function)
        return compile_really(function, **options)

    monkeypatch.setattr(torch, "compile", compile_seen)
    model = run.load(tmp_path)
    for seed in range(2):
        inputs = random_inputs(graph, seed)
        expected = run_graph(graph, weights, inputs)
        found = model(**inputs)
        for name in graph.outputs:
            torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)
    assert len(compiled) == 1
    assert model.notes == []
