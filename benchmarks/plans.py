"""Every model of the zoo, run and verified on every kind of device under right Plans of all sorts.

    .venv/bin/python benchmarks/plans.py [--output benchmarks/results/plans.json] [MODEL ...]

Models that are not named keep their rows in the output.

Each model is imported as a job imports it, at batch 1, and optimised. Then Plans of it are run on
each device and compared with what the original model computes on the same fresh inputs: the
sequential one, the greedy one, and Plans that put its Units on random streams in a random order.
Nothing here is timed but the lowering and the validation; it fails if one comparison does.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from machine import machine

from workers import zoo
from workers.devices import open_device
from workers.devices.base import Device
from workers.graph.graph import Graph
from workers.graph.importers import import_model, reference_outputs
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ZooModel
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs
from workers.measure.verify import Case, verify
from workers.schedulers.greedy import GreedyScheduler
from workers.schedulers.sequential import SequentialScheduler
from workers.schedules.lower import lower
from workers.schedules.schedule import Placement, Schedule, StreamSchedule
from workers.schedules.validate import validate

LIMITS = SandboxLimits(memory_bytes=16 << 30, seconds=900)
DEVICES = ("cpu", "sim:v100")
RANDOM_STREAMS = (2, 5, 40)
"""More than a CPU has cores, and more than PyTorch has CUDA streams of one priority."""


def random_streams(graph: Graph, streams: int, seed: int) -> StreamSchedule:
    """The Units in a random topological order, each on a random stream."""
    draw = random.Random(seed)
    waiting = [len(before) for before in graph.predecessors]
    ready = [position for position, count in enumerate(waiting) if not count]
    placements = []
    while ready:
        position = ready.pop(draw.randrange(len(ready)))
        placements.append(Placement(graph.units[position].name, draw.randrange(streams)))
        for after in graph.successors[position]:
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    # Streams are numbered without gaps, whatever was drawn.
    numbers = {stream: n for n, stream in enumerate(dict.fromkeys(p.stream for p in placements))}
    return StreamSchedule("random", tuple(Placement(p.unit, numbers[p.stream]) for p in placements))


class Unasked:
    """The oracle of schedulers that ask nothing."""

    parallelism = 1

    def stage_latencies(self, stages: Sequence[object]) -> list[Any]:
        raise AssertionError(stages)


def schedules(graph: Graph) -> Iterator[tuple[str, Schedule]]:
    yield "sequential", SequentialScheduler().schedule(graph, Unasked()).schedule
    yield "greedy", GreedyScheduler().schedule(graph, Unasked()).schedule
    for streams in RANDOM_STREAMS:
        yield f"random, {streams} streams", random_streams(graph, streams, seed=streams)


def checked(name: str, devices: Sequence[Device], folder: Path) -> dict[str, Any]:
    source = ZooModel(name)
    started = time.perf_counter()
    imported = import_model(source, 1, folder, LIMITS)
    graph, weights = optimise(imported.graph, imported.weights)
    (reference,) = reference_outputs(source, 1, [7], folder, LIMITS)
    import_seconds = time.perf_counter() - started
    case = Case(
        inputs=random_inputs(graph, 7),
        expected=[reference[f"output_{index}"] for index in range(len(reference))],
    )
    plans: dict[str, Any] = {}
    for kind, schedule in schedules(graph):
        for device in devices:
            started = time.perf_counter()
            plan = lower(schedule, graph, device.facts.parallelism)
            validate(plan, graph)
            lowered = time.perf_counter() - started
            found = verify(device, graph, weights, plan, [case])
            plans[f"{kind} on {device.facts.name}"] = {
                "passed": found.passed,
                "difference": found.difference,
                "max_abs_error": found.max_abs_error,
                "streams": len(plan.streams),
                "waits": sum(len(launch.waits) for launch in plan.launches),
                "lower_and_validate_seconds": round(lowered, 4),
            }
    return {"units": len(graph.units), "import_seconds": round(import_seconds, 1), "plans": plans}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(zoo.names()), metavar="MODEL")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {}
    if options.output and options.output.exists():
        report = json.loads(options.output.read_text())
    taken_on = machine()
    wrong = 0
    for name in options.models:
        with tempfile.TemporaryDirectory(prefix="plait-plans-") as folder, ExitStack() as opened:
            devices = [opened.enter_context(closing(open_device(device))) for device in DEVICES]
            row = checked(name, devices, Path(folder))
        failed = [plan for plan, found in row["plans"].items() if not found["passed"]]
        wrong += len(failed)
        worst = max(found["max_abs_error"] for found in row["plans"].values())
        longest = max(found["lower_and_validate_seconds"] for found in row["plans"].values())
        print(
            f"{name:18} {row['units']:5} units  {len(row['plans'])} plans  "
            f"largest error {worst:.2g}  lowered and validated in {longest:.3f} s at most  "
            f"{'WRONG: ' + '; '.join(failed) if failed else 'all right'}",
            flush=True,
        )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        report[name] = {"measured_at": now, "machine": taken_on, **row}
        if options.output:
            options.output.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
