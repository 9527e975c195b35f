"""``auto`` on this machine's CPU, over ten models of the zoo: what wins, and beside what.

    .venv/bin/python benchmarks/auto_cpu.py [MODEL[.onnx] ...] [--twice] [--output FILE]
        [--allow-noise | --table]

Each model goes through a whole ``auto`` job: all schedulers, their schedules combined and refined,
the whole graph as one for TorchInductor and for ONNX Runtime, and what its user has already, in
tournaments of interleaved rounds: eager PyTorch and ``torch.compile`` of the original model, or
ONNX Runtime where the job is on the model's export to ONNX (``MODEL.onnx``). ``--twice`` runs each
job again, with everything measured anew, and notes whether the same one won or a tie was declared.
A row is written as soon as it is there, and keeps those of other models that the file has. The
machine must be quiet. ``--table`` measures nothing and prints what the file has.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from ios_cpu import LIMITS, Kept
from machine import machine

from backend.jobs.schemas import AUTO, JobSpec
from workers import zoo
from workers.devices import open_device
from workers.graph.importers.source import ModelFile, ModelSource, ZooModel
from workers.measure.profile_index import MemoryIndex
from workers.runner.pipeline import run_job
from workers.runner.quiet import NoisePolicy
from workers.runner.workplace import Workplace, calm_numpy, collect_rarely

OUTPUT = Path(__file__).parent / "results/auto_cpu.json"
MODELS = (
    "squeezenet", "googlenet", "inception_v3", "mobilenet_v1", "nasbench_0", "nasbench_3",
    "resnet50", "alexnet", "deepfm", "resnet18",
)  # fmt: skip
ONNX = ".onnx"
BUDGET = 60.0
"""Seconds to search and compile, for each model. Inception-v3 has the 120 s of its target;
torch.compile takes more than half a minute for those that have more."""
BUDGETS = {
    "inception_v3": 120.0, "googlenet": 120.0, "nasbench_0": 90.0, "nasbench_3": 90.0,
    "resnet50": 90.0,
}  # fmt: skip
OPSET = 17


def source_of(name: str, folder: Path) -> ModelSource:
    """A model of the zoo, or its export to ONNX in the folder."""
    if not name.endswith(ONNX):
        return ZooModel(name)
    path, model = folder / name, name.removesuffix(ONNX)
    with torch.no_grad():
        torch.onnx.export(
            zoo.build(model), tuple(zoo.inputs(model, 1)), str(path), dynamo=False,
            opset_version=OPSET,
        )  # fmt: skip
    return ModelFile(path, "onnx")


def run(name: str, allow_noise: bool) -> dict[str, Any]:
    """One job; its row of the table."""
    model = name.removesuffix(ONNX)
    budget = BUDGETS.get(model, BUDGET)
    spec = JobSpec(
        model=f"zoo:{model}", schedulers=[AUTO], budget_seconds=budget, allow_noise=allow_noise
    )
    with tempfile.TemporaryDirectory() as folder, closing(open_device("cpu")) as device:
        source = source_of(name, Path(folder))
        kept, started = Kept(), time.monotonic()
        noise = NoisePolicy(allow_noise)
        place = Workplace(device, MemoryIndex(), kept, Path(folder), LIMITS, noise)
        run_job(spec, name, source, place)
    if kept.summary is None:
        raise RuntimeError(f"the job on {name} ended without a summary")
    placed = sorted(kept.outcomes.values(), key=lambda outcome: outcome.place)
    return {
        "budget_seconds": budget,
        "job_seconds": time.monotonic() - started,
        "leaderboard": [
            {
                "name": outcome.scheduler,
                "kind": outcome.kind,
                "latency_ms": outcome.measurement.latency_ms,
                "samples": outcome.measurement.samples,
                **{
                    fact: outcome.search[fact]
                    for fact in (
                        "speedup", "speedup_low", "speedup_high", "verdict", "final", "dropped",
                    )
                },
            }
            for outcome in placed
        ],
        "summary": kept.summary.model_dump(),
        "environment": dict(placed[0].environment),
        "log": kept.log_lines,
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


def run_afresh(name: str, allow_noise: bool) -> dict[str, Any]:
    """``run`` in a process of its own, as the service's jobs are: of several in one, the later
    ones were seen to be slowed down by what the earlier ones leave behind."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_run_quietly, name, allow_noise).result()


def _run_quietly(name: str, allow_noise: bool) -> dict[str, Any]:
    calm_numpy()
    collect_rarely()
    return run(name, allow_noise)


def same_answer(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two jobs agree: the same winner, or one that the other declares tied with its own."""
    one, other = first["summary"], second["summary"]
    return (
        one["winner"] == other["winner"]
        or one["winner"] in other["tied_with"]
        or other["winner"] in one["tied_with"]
    )


def table(rows: dict[str, Any]) -> str:
    """In Markdown: the fastest of ours beside the fastest of what the user has, both relative to
    the sequential baseline, and what the final of the two said."""
    lines = [
        "| model | fastest of ours | to sequential | fastest alternative | to sequential | said |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        board, said = row["leaderboard"], row["summary"]
        ours = next(one for one in board if one["name"] == said["winner"])
        others = [one for one in board if one["kind"] == "alternative"]
        other = max(others, key=lambda one: one["speedup"], default=None)
        beside = f"{other['name']} | {_speedup(other)}" if other else "none | "
        faster = said["faster_alternative"]
        words = f"keep {faster['name']}" if faster else "ours"
        if tied := [one["name"] for one in others if one["name"] in said["tied_with"]]:
            words = f"tied with {', '.join(tied)}"
        lines.append(f"| {name} | {ours['name']} | {_speedup(ours)} | {beside} | {words} |")
    return "\n".join(lines)


def _speedup(one: dict[str, Any]) -> str:
    return f"{one['speedup']:.2f} ({one['speedup_low']:.2f} to {one['speedup_high']:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    both = [*MODELS, *(name + ONNX for name in MODELS)]
    parser.add_argument("models", nargs="*", metavar="MODEL[.onnx]", default=both)
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--allow-noise", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(options.output.read_text())["models"]))
        return
    known = json.loads(options.output.read_text()) if options.output.exists() else {"models": {}}
    known["machine"] = machine()
    for name in options.models:
        print(name, file=sys.stderr)
        row = run_afresh(name, options.allow_noise)
        if options.twice:
            again = run_afresh(name, options.allow_noise)
            row["again"] = {
                "winner": again["summary"]["winner"],
                "tied_with": again["summary"]["tied_with"],
                "same_answer": same_answer(row, again),
            }
        known["models"][name] = row
        options.output.write_text(json.dumps(known, indent=1) + "\n")
        best = row["leaderboard"][0]
        print(f"{name:14} {best['name']:24} {best['latency_ms']:9.3f} ms {best['speedup']:6.2f} x")


if __name__ == "__main__":
    main()
