"""From schedules to a verified, measured winner with its artifact, on a simulated GPU."""

from __future__ import annotations

import json
import zipfile
from contextlib import closing
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from onnx import helper
from support.onnx_models import model, written
from support.recorders import Kept

from backend.jobs.schemas import JobSpec
from workers.devices import open_device
from workers.devices.base import DeviceError, Executable, Span, Timeline
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelFile
from workers.graph.serialize import graph_hash, load_graph
from workers.measure.profile_index import MemoryIndex
from workers.measure.verify import Case
from workers.runner.delivery import Entrants, _recorded, deliver
from workers.runner.importing import import_graph
from workers.runner.pipeline import run_job
from workers.runner.quiet import NoisePolicy, Watch
from workers.runner.reporting import Reporter
from workers.runner.search import make_candidate
from workers.runner.workplace import Prepared, Workplace
from workers.schedulers.base import SearchResult
from workers.schedules.artifact import read_artifact
from workers.schedules.schedule import ScheduleKey, Stage, StageSchedule

LIMITS = SandboxLimits(memory_bytes=4 << 30, seconds=120)


def branches(folder: Path) -> ModelFile:
    """Two convolutions of the same input, of different kernels, joined."""
    weight = np.random.default_rng(0).standard_normal((40, 16, 3, 3), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "wide"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["x", "narrow"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=1),
    ]
    weights = {"wide": weight[:32], "narrow": weight[32:, :, :1, :1]}
    return ModelFile(written(model(nodes, {"x": [1, 16, 8, 8]}, ["y"], weights), folder), "onnx")


def test_stages_that_were_merged_are_verified_measured_and_delivered(tmp_path: Path) -> None:
    source = branches(tmp_path)
    spec = JobSpec(model="zoo:file", device="sim:v100")
    recorder = Kept(tmp_path)
    (tmp_path / "work").mkdir()
    with closing(open_device(spec.device)) as device:
        place = Workplace(device, MemoryIndex(), recorder, tmp_path / "work", LIMITS, NoisePolicy())
        reporter = Reporter(recorder, 1)
        graph, weights = import_graph(spec, source, reporter, place.workdir, LIMITS)
        key = ScheduleKey(
            graph_hash(graph), device.facts.fingerprint, "float32", 1, device.facts.versions
        )
        prepared = Prepared(graph, weights, key)
        names = [unit.name for unit in graph.units]
        together = [unit.name for unit in graph.units if unit.kind == "conv"]
        assert len(together) == 2
        one_by_one = tuple(Stage(((name,),)) for name in names)
        merged = (
            Stage(tuple((name,) for name in together), strategy="merge"),
            *(Stage(((name,),)) for name in names if name not in together),
        )
        candidates = [
            make_candidate(name, SearchResult(StageSchedule(name, stages), None), prepared, 1, 0.0)
            for name, stages in (("sequential", one_by_one), ("ios", merged))
        ]
        watch = Watch.over(device.facts, place.noise, reporter)
        summary = deliver("a.onnx", source, prepared, Entrants(candidates), place, reporter, watch)

    assert (summary.winner, summary.simulated) == ("ios", True)
    assert summary.speedup > 1
    outcome = recorder.outcomes["ios"]
    assert outcome.verified
    assert outcome.provider == "aten"
    assert outcome.environment["fingerprint"] == device.facts.fingerprint
    assert outcome.environment["noise"]["complaint"] is None
    assert outcome.schedule["key"]["graph_hash"] == graph_hash(graph)  # the model's own
    assert outcome.search["samples"]["shape"] == "steady"
    assert len(outcome.timeline.spans) == len(names) - 1

    [path] = recorder.artifacts
    assert path.name == "a-batch1-ios.zip"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "artifact")
    delivered, _ = load_graph(tmp_path / "artifact" / "model")
    document = json.loads((tmp_path / "artifact" / "schedule.json").read_text())
    assert len(delivered.units) == len(names) - 1
    assert document["graph_hash"] == graph_hash(delivered)
    assert document["key"]["graph_hash"] == graph_hash(graph)
    artifact = read_artifact(path)  # which proves that it all fits together
    assert [unit.name for unit in artifact.graph.units] == [unit.name for unit in delivered.units]
    assert document["summary"]["simulated"] is True


def test_a_provider_that_the_device_lacks_is_refused_before_anything_runs(tmp_path: Path) -> None:
    spec = JobSpec(model="zoo:squeezenet", device="sim:v100", provider="inductor")
    source = ModelFile(tmp_path / "missing.onnx", "onnx")
    with closing(open_device(spec.device)) as device:
        noise, recorder = NoisePolicy(), Kept(tmp_path)
        place = Workplace(device, MemoryIndex(), recorder, tmp_path, LIMITS, noise)
        with pytest.raises(DeviceError, match="kernels of aten, not of inductor"):
            run_job(spec, "squeezenet", source, place)


def test_of_several_recorded_runs_the_most_typical_is_shown() -> None:
    class Scattering:
        def __init__(self) -> None:
            self.took = [5.0, 2.2, 9.0, 1.9, 4.0]

        def timeline(self, inputs: object) -> Timeline:
            return Timeline((Span("u", "conv", 0, 0.0, self.took.pop(0)),))

    executable = Scattering()
    shown, lost = _recorded(cast("Executable", executable), Case({}, []), 2.0, runs=5)
    assert shown.spans[0].end_ms == 1.9
    assert (executable.took, lost) == ([], ())
