"""IOS on this machine's CPU, measured: what it predicts, what it finds, and what is delivered.

    .venv/bin/python benchmarks/ios_cpu.py [--output benchmarks/results/ios_cpu.json] [MODEL ...]
        [--share 1.0] [--mode guided] [--allow-noise]

Each model goes through a whole job: import, search within a budget, verification against the
original, a comparison of all schedules in turns, and a second one of the leader against the
sequential baseline, both prepared afresh. Nothing is known of any stage at the start. The claim to
hold is that what is delivered is never slower than the baseline beyond the interval; what IOS's own
schedule is worth stands beside it, with its prediction. ``--share`` scales all budgets, for a try.

Models that are not named keep their rows in the output, which is written after each. The budgets
are five and a half minutes; all else takes less than as much again. Run it on a machine that does
nothing else: a busy one is refused, unless noise is allowed.

Two small models are made here, in which operators side by side should pay on a CPU:

- ``towers``: six chains of three small linear layers each on one input. No layer has work for two
  cores, two layers do.
- ``heads``: twelve small linear layers on one input, as attention has them. Merged, they are one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from machine import machine
from torch import Tensor, nn

from backend.jobs.schemas import (
    BatchSummary,
    IosOptions,
    JobProgress,
    JobSpec,
    LogEvent,
    RoundEvent,
    SearchEvent,
)
from workers.devices import open_device
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelFile, ModelSource, ZooModel
from workers.measure.profile_index import MemoryIndex
from workers.runner.outcome import ScheduleOutcome
from workers.runner.pipeline import run_job
from workers.runner.quiet import NoisePolicy
from workers.runner.workplace import BASELINE, Workplace

LIMITS = SandboxLimits(memory_bytes=16 << 30, seconds=900)
BUDGETS = {
    "squeezenet": 45.0,
    "googlenet": 75.0,
    "inception_v3": 100.0,
    "nasbench_3": 45.0,
    "towers": 45.0,
    "heads": 20.0,
}
"""Seconds to search."""

WIDTH = 192


class Towers(nn.Module):
    """Six chains of three linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.towers = nn.ModuleList(
            nn.Sequential(
                *(layer for _ in range(3) for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh()))
            )
            for _ in range(6)
        )

    def forward(self, values: Tensor) -> Tensor:
        return torch.cat([tower(values) for tower in self.towers], dim=1)


class Heads(nn.Module):
    """Twelve linear layers on one input."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(WIDTH, 64) for _ in range(12))

    def forward(self, values: Tensor) -> Tensor:
        return torch.cat([head(values) for head in self.heads], dim=1)


MADE: Mapping[str, Callable[[], nn.Module]] = {"towers": Towers, "heads": Heads}


@dataclass
class Kept:
    """A Recorder that keeps what the table needs and says on the terminal where it is."""

    events: list[SearchEvent] = field(default_factory=list)
    outcomes: dict[str, ScheduleOutcome] = field(default_factory=dict)
    log_lines: list[str] = field(default_factory=list)
    summary: BatchSummary | None = None

    def enter_tuning(self) -> None: ...

    def enter_verifying(self) -> None: ...

    def progress(self, progress: JobProgress) -> None: ...

    def round(self, event: RoundEvent) -> None: ...

    def graph(self, facts: Mapping[str, Any]) -> None: ...

    def artifact(self, batch_size: int, path: Path) -> None: ...

    def search(self, event: SearchEvent) -> None:
        if event.scheduler == "ios":
            self.events.append(event)

    def log(self, event: LogEvent) -> None:
        self.log_lines.append(event.message)
        print(f"  {event.message}", file=sys.stderr)

    def result(self, outcome: ScheduleOutcome) -> None:
        self.outcomes[outcome.scheduler] = outcome

    def succeed(self, summary: list[BatchSummary]) -> None:
        (self.summary,) = summary


def source_of(name: str, folder: Path) -> ModelSource:
    if name not in MADE:
        return ZooModel(name)
    torch.manual_seed(0)
    path = folder / f"{name}.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        program = torch.export.export(MADE[name]().eval(), (torch.zeros(1, WIDTH),))
        torch.export.save(program, path)
    return ModelFile(path, "pt2")


def run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One job; its row of the table."""
    budget = BUDGETS[name] * options.share
    spec = JobSpec(
        model=f"zoo:{name}",
        schedulers=["sequential", "greedy", "ios"],
        budget_seconds=budget,
        ios=IosOptions(mode=options.mode),
        allow_noise=options.allow_noise,
    )
    kept, started = Kept(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, closing(open_device("cpu")) as device:
        place = Workplace(
            device, MemoryIndex(), kept, Path(folder), LIMITS, NoisePolicy(options.allow_noise)
        )
        run_job(spec, name, source_of(name, Path(folder)), place)
    if kept.summary is None:
        raise RuntimeError(f"the job on {name} ended without a summary")
    found = kept.outcomes["ios"]
    predicted, measured = found.search["predicted_ms"], found.measurement.latency_ms
    return {
        "budget_seconds": budget,
        "job_seconds": time.monotonic() - started,
        "search_seconds": found.search["seconds"],
        "stages_measured": found.search["stages_measured"],
        "stages_total": found.search["stages_total"],
        "ended": found.search["ended"],
        "predicted_ms": predicted,
        "measured_ms": measured,
        "prediction_error": predicted / measured - 1 if predicted is not None else None,
        "schedules": {
            scheduler: {
                "latency_ms": outcome.measurement.latency_ms,
                **{
                    fact: outcome.search[fact]
                    for fact in ("speedup", "speedup_low", "speedup_high", "verdict", "ended")
                },
            }
            for scheduler, outcome in kept.outcomes.items()
        },
        "delivered": kept.summary.model_dump(),
        "never_slower": kept.summary.winner == BASELINE or kept.summary.speedup > 1,
        "log": kept.log_lines,
        "environment": dict(found.environment),
        "best_over_time": [
            [round(event.elapsed_seconds, 3), event.stages_measured, event.best_ms, event.bound_ms]
            for event in kept.events
        ],
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def show(name: str, row: Mapping[str, Any]) -> None:
    own = row["schedules"]["ios"]
    delivered = row["delivered"]
    print(
        f"{name}: {row['stages_measured']} of {row['stages_total']} stages"
        f" in {row['search_seconds']:.0f} s ({row['ended']}); predicted"
        f" {row['predicted_ms']:.3f} ms, measured {row['measured_ms']:.3f} ms;"
        f" IOS {own['speedup']:.3f}× ({own['speedup_low']:.3f} to {own['speedup_high']:.3f},"
        f" {own['verdict']});"
        f" delivered {delivered['winner']} {delivered['speedup']:.3f}×"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(BUDGETS)}")
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).parent / "results" / "ios_cpu.json"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the budgets to search")
    parser.add_argument("--mode", default="guided", choices=("exhaustive", "exact", "guided"))
    parser.add_argument("--allow-noise", action="store_true", help="measure on a busy machine")
    options = parser.parse_args()
    if unknown := sorted(set(options.models) - set(BUDGETS)):
        parser.error(f"unknown model {unknown[0]!r}; known: {', '.join(BUDGETS)}")
    before = machine()
    old = json.loads(options.output.read_text()) if options.output.exists() else {}
    rows: dict[str, Any] = old.get("models", {})
    for name in options.models or BUDGETS:
        rows[name] = {**run(name, options), "machine": before, "mode": options.mode}
        show(name, rows[name])
        table = {name: rows[name] for name in BUDGETS if name in rows}
        claim = "what is delivered is never slower than the sequential schedule"
        result = {
            "claim": claim,
            "holds": all(row["never_slower"] for row in table.values()),
            "ios_itself_slower": [
                model
                for model, row in table.items()
                if row["schedules"]["ios"]["verdict"] == "slower"
            ],
        }
        options.output.write_text(json.dumps({**result, "models": table}, indent=1) + "\n")
    return 0 if all(row["never_slower"] for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
