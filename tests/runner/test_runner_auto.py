"""``auto``: everything that there is, what it becomes, and what the user has beside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from onnx import helper
from support.onnx_models import model, written
from support.recorders import Kept

from backend.jobs.schemas import BatchSummary, JobSpec, OparaOptions
from workers.devices import open_device
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelFile
from workers.measure.profile_index import MemoryIndex
from workers.runner.pipeline import run_job
from workers.runner.quiet import NoisePolicy
from workers.runner.search import entries
from workers.runner.workplace import BASELINE, Workplace
from workers.schedules.artifact import read_artifact

LIMITS = SandboxLimits(memory_bytes=4 << 30, seconds=120)


class Summed(Kept):
    """Keeps the summaries too."""

    summaries: Sequence[BatchSummary] = ()

    def succeed(self, summary: list[BatchSummary]) -> None:
        self.summaries = summary


def branches(folder: Path, count: int) -> ModelFile:
    """Some convolutions of the same input, each followed by one more, joined."""
    random = np.random.default_rng(0)
    nodes, weights = [], {}
    for number in range(count):
        size = 1 + 2 * (number % 2)
        weights[f"w{number}"] = random.standard_normal((16, 16, size, size), np.float32) / 10
        weights[f"v{number}"] = random.standard_normal((16, 16, 3, 3), np.float32) / 10
        pads = [size // 2] * 4
        nodes += [
            helper.make_node("Conv", ["x", f"w{number}"], [f"a{number}"], pads=pads),
            helper.make_node("Relu", [f"a{number}"], [f"r{number}"]),
            helper.make_node("Conv", [f"r{number}", f"v{number}"], [f"b{number}"], pads=[1] * 4),
        ]
    joined = [f"b{number}" for number in range(count)]
    nodes.append(helper.make_node("Concat", joined, ["y"], axis=1))
    found = model(nodes, {"x": [1, 16, 12, 12]}, ["y"], weights)
    return ModelFile(written(found, folder), "onnx")


def run(spec: JobSpec, folder: Path, count: int) -> Summed:
    recorder = Summed(folder)
    (folder / "work").mkdir()
    with closing(open_device(spec.device)) as device:
        noise = NoisePolicy(allow=True, seconds=1)
        place = Workplace(device, MemoryIndex(), recorder, folder / "work", LIMITS, noise)
        run_job(spec, "branches.onnx", branches(folder, count), place)
    return recorder


def test_auto_stands_for_every_scheduler() -> None:
    names = [entry.name for entry in entries(JobSpec(model="zoo:a", schedulers=["auto"]))]
    assert names == ["sequential", "greedy", "nimble", "opara", "ios", "opara-strict"]
    strict = JobSpec(model="zoo:a", schedulers=["auto"], opara=OparaOptions(strict=True))
    assert [entry.name for entry in entries(strict)] == names[:-1]
    alone = entries(JobSpec(model="zoo:a", schedulers=["opara", "sequential"]))
    assert [entry.name for entry in alone] == ["sequential", "opara"]


def test_an_auto_job_on_a_simulated_gpu_gives_the_same_answer_twice(tmp_path: Path) -> None:
    spec = JobSpec(model="zoo:file", device="sim:v100", schedulers=["auto"])
    runs = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        runs.append(run(spec, folder, 4))
    first, second = (one.summaries[0] for one in runs)
    assert first == second
    assert first.winner != BASELINE
    assert first.speedup > 1
    assert first.simulated
    assert first.faster_alternative is None
    assert 3 <= len(first.why) <= 5
    assert first.gap is not None
    assert 0 <= first.gap < 1
    outcomes = runs[0].outcomes
    absent = {one.contender for one in first.skipped}
    everything = {
        "sequential", "greedy", "nimble", "opara", "opara-strict", "ios", "ios+opara", "refined",
    }  # fmt: skip
    assert set(outcomes) | absent == everything
    assert not set(outcomes) & absent
    assert sorted(outcome.place for outcome in outcomes.values()) == list(
        range(1, len(outcomes) + 1)
    )
    winner = outcomes[first.winner]
    assert winner.winner
    assert all(winner.measurement.latency_ms <= o.measurement.latency_ms for o in outcomes.values())
    assert read_artifact(runs[0].artifacts[0]).key.batch_size == 1


def test_an_auto_job_on_a_cpu_compares_with_what_the_user_has(tmp_path: Path) -> None:
    spec = JobSpec(model="zoo:file", device="cpu", schedulers=["auto"], budget_seconds=300)
    recorder = run(spec, tmp_path, 2)
    summary, outcomes = recorder.summaries[0], recorder.outcomes
    reasons = {one.contender: one.reason for one in summary.skipped}
    alternatives = {name for name, outcome in outcomes.items() if outcome.kind == "alternative"}
    assert alternatives == {"onnxruntime", "onnxruntime parallel"}
    for name in alternatives:
        assert outcomes[name].max_abs_error < 1e-3
        assert not outcomes[name].schedule
        assert not outcomes[name].timeline.spans
    assert "thread blocks" in reasons["opara-strict"]
    compiled = {name for name in outcomes if outcomes[name].provider == "inductor"}
    assert compiled >= {"sequential+inductor", "whole+inductor"}
    if "mixed" in outcomes:
        named = [place[2:] for place in outcomes["mixed"].schedule["placements"]]
        others = [name for names in named for name in names]
        assert set(others) <= {"inductor", "onnxruntime"}
        assert any("refined from" in note for note in outcomes["mixed"].search["notes"])
    else:
        assert "nothing better than" in reasons["mixed"] or "its plan is" in reasons["mixed"]
    winner = outcomes[summary.winner]
    assert winner.winner
    assert winner.kind == "schedule"
    if summary.faster_alternative is not None:
        assert summary.faster_alternative.name in alternatives
    assert read_artifact(recorder.artifacts[0]).graph.outputs
