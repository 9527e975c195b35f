"""A job whose stages DOPpler measures, in processes beside each other."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pytest
from onnx import helper
from support.onnx_models import model, written
from support.recorders import Kept

from backend.jobs.schemas import JobSpec, RoundEvent, StageMeasurer
from workers.devices import open_device
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelFile
from workers.measure.profile_index import MemoryIndex
from workers.runner.pipeline import run_job
from workers.runner.quiet import NoisePolicy
from workers.runner.workplace import Workplace
from workers.schedules.artifact import read_artifact

LIMITS = SandboxLimits(memory_bytes=4 << 30, seconds=120)


@dataclass
class Rounds(Kept):
    """Keeps the rounds too."""

    rounds: list[RoundEvent] = field(default_factory=list)

    def round(self, event: RoundEvent) -> None:
        self.rounds.append(event)


def branches(folder: Path) -> ModelFile:
    """Three branches of two convolutions each, which differ, joined."""
    random = np.random.default_rng(0)
    nodes, weights = [], {}
    for number in range(3):
        weights[f"w{number}"] = random.standard_normal((8 + number, 8, 3, 3), np.float32) / 10
        weights[f"v{number}"] = random.standard_normal((8, 8 + number, 3, 3), np.float32) / 10
        nodes += [
            helper.make_node("Conv", ["x", f"w{number}"], [f"a{number}"], pads=[1] * 4),
            helper.make_node("Conv", [f"a{number}", f"v{number}"], [f"b{number}"], pads=[1] * 4),
        ]
    nodes.append(helper.make_node("Concat", [f"b{n}" for n in range(3)], ["y"], axis=1))
    return ModelFile(written(model(nodes, {"x": [1, 8, 9, 9]}, ["y"], weights), folder), "onnx")


def run(folder: Path, measurer: StageMeasurer, device: str = "cpu") -> Rounds:
    spec = JobSpec(model="zoo:file", device=device, schedulers=["ios"], measurer=measurer)
    recorder = Rounds(folder)
    (folder / "work").mkdir()
    with closing(open_device(spec.device)) as opened:
        noise = NoisePolicy(allow=True, seconds=1)
        place = Workplace(opened, MemoryIndex(), recorder, folder / "work", LIMITS, noise)
        run_job(spec, "branches.onnx", branches(folder), place)
    return recorder


@pytest.mark.timeout(240)
def test_stages_are_measured_beside_each_other_and_chosen_ones_alone(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    recorder = run(tmp_path, "doppler")
    searched = [one for one in recorder.rounds if one.timeout_seconds]
    alone = [one for one in recorder.rounds if not one.timeout_seconds]
    cores = len(os.sched_getaffinity(0))
    assert max(one.degree_of_parallelism for one in searched) == min(cores, 3)
    assert searched[0].degree_of_parallelism == 1
    assert not any(one.failures for one in searched)
    assert alone
    assert all(one.degree_of_parallelism == 1 and one.remeasured for one in alone)
    assert {"sequential", "ios"} == set(recorder.outcomes)
    assert sorted(read_artifact(recorder.artifacts[0]).schedule.units)
    assert set(psutil.Process().children(recursive=True)) <= before


def test_a_simulated_device_computes_as_ever(tmp_path: Path) -> None:
    recorder = run(tmp_path, "doppler", "sim:v100")
    assert {one.degree_of_parallelism for one in recorder.rounds} == {1}
    assert {one.timeout_seconds for one in recorder.rounds} == {0}
