"""``auto`` on this machine's CPU, over ten models of the zoo: what wins, and beside what.

    .venv/bin/python benchmarks/auto_cpu.py [MODEL ...] [--twice] [--output FILE] [--allow-noise]

Each model goes through a whole ``auto`` job: all schedulers, their schedules combined and refined,
kernels that TorchInductor makes, and eager PyTorch and ``torch.compile`` of the original model, in
one tournament of interleaved rounds. ``--twice`` runs each job again, with everything measured
anew, and notes whether the same one won or a tie was declared. A row is written as soon as it is
there, and keeps those of other models that the file has. The machine must be quiet.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ios_cpu import LIMITS, Kept
from machine import machine

from backend.jobs.schemas import AUTO, JobSpec
from workers.devices import open_device
from workers.graph.importers.source import ZooModel
from workers.measure.profile_index import MemoryIndex
from workers.runner.pipeline import run_job
from workers.runner.quiet import NoisePolicy
from workers.runner.workplace import Workplace, calm_numpy, collect_rarely

OUTPUT = Path(__file__).parent / "results/auto_cpu.json"
MODELS = (
    "squeezenet", "googlenet", "inception_v3", "mobilenet_v1", "nasbench_0", "nasbench_3",
    "resnet50", "alexnet", "deepfm", "resnet18",
)  # fmt: skip
BUDGET = 300.0
"""Seconds to search and compile, for each model; Inception-v3 has the 120 s of its target."""
BUDGETS = {"inception_v3": 120.0}


def run(name: str, allow_noise: bool) -> dict[str, Any]:
    """One job; its row of the table."""
    budget = BUDGETS.get(name, BUDGET)
    spec = JobSpec(
        model=f"zoo:{name}", schedulers=[AUTO], budget_seconds=budget, allow_noise=allow_noise
    )
    kept, started = Kept(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, closing(open_device("cpu")) as device:
        noise = NoisePolicy(allow_noise)
        place = Workplace(device, MemoryIndex(), kept, Path(folder), LIMITS, noise)
        run_job(spec, name, ZooModel(name), place)
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


def same_answer(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two jobs agree: the same winner, or one that the other declares tied with its own."""
    one, other = first["summary"], second["summary"]
    return (
        one["winner"] == other["winner"]
        or one["winner"] in other["tied_with"]
        or other["winner"] in one["tied_with"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--allow-noise", action="store_true")
    options = parser.parse_args()
    calm_numpy()
    collect_rarely()
    known = json.loads(options.output.read_text()) if options.output.exists() else {"models": {}}
    known["machine"] = machine()
    for name in options.models:
        print(name, file=sys.stderr)
        row = run(name, options.allow_noise)
        if options.twice:
            again = run(name, options.allow_noise)
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
