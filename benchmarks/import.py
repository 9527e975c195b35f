"""How long importing an ONNX model takes and how much memory, and how long counting takes.

    .venv/bin/python benchmarks/import.py [--output benchmarks/results/import.json]

Exports two models of the zoo to ONNX, imports each several times as a job does, in a fresh
sandboxed process, and reports the median time and the largest memory of that process. Then counts
the search space of NASNet's largest block, as the IOS paper has it, under both conventions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from machine import machine

REPEATS = 5
SECONDS = {"inception_v3": 5.0, "nasnet_a_large": 20.0}
COUNT_SECONDS = 2.0
EXTRA_MB, TIMES_THE_FILE = 300, 3
BLOCK = Path(__file__).parents[1] / "tests" / "reference" / "ios_table1" / "nasnet_large.json"

# Runs in a process of its own, so that each import starts as a job's does and the memory that it
# reports is of one sandbox.
_IMPORT = """
import json, resource, sys, tempfile, time
from pathlib import Path
from workers.graph.importers import import_model
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ModelFile
import workers.graph.serialize, torch
started = time.perf_counter()
with tempfile.TemporaryDirectory() as folder:
    found = import_model(
        ModelFile(Path(sys.argv[1]), "onnx"), 1, Path(folder), SandboxLimits(16 << 30, 600)
    )
    seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(json.dumps([seconds, peak, len(found.graph.operators)]))
"""


def exported(name: str, folder: Path) -> Path:
    path = folder / f"{name}.onnx"
    subprocess.run(
        ["plait", "zoo", "export", name, "--format", "onnx", "--output", str(path)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return path


def importing(name: str, folder: Path) -> dict[str, Any]:
    path = exported(name, folder)
    runs = []
    for _ in range(REPEATS):
        answer = subprocess.run(
            [sys.executable, "-c", _IMPORT, str(path)], check=True, capture_output=True, text=True
        )
        runs.append(json.loads(answer.stdout.splitlines()[-1]))
    size = path.stat().st_size / 1e6
    return {
        "file_mb": round(size, 1),
        "operators": runs[0][2],
        "seconds": round(statistics.median(run[0] for run in runs), 2),
        "seconds_all": [round(run[0], 2) for run in runs],
        "seconds_target": SECONDS[name],
        "peak_mb": round(max(run[1] for run in runs)),
        "peak_mb_target": round(TIMES_THE_FILE * size + EXTRA_MB),
    }


def counting() -> dict[str, Any]:
    from workers.schedulers.counts import Counts, count  # noqa: PLC0415
    from workers.schedulers.endings import Pruning  # noqa: PLC0415

    successors = json.loads(BLOCK.read_text())["successors"]
    found = {}
    for convention in ("paper", "published"):
        times = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            counts = count(successors, Pruning(), convention)
            times.append(time.perf_counter() - started)
        assert isinstance(counts, Counts)  # nothing limits it
        found[convention] = {
            "transitions": counts.transitions,
            "schedules": str(counts.schedules),
            "seconds": round(statistics.median(times), 3),
            "seconds_target": COUNT_SECONDS,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    taken_on = machine()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="plait-bench-") as directory:
        imports = {name: importing(name, Path(directory)) for name in SECONDS}
    counts = counting()
    for name, row in imports.items():
        met = row["seconds"] <= row["seconds_target"] and row["peak_mb"] <= row["peak_mb_target"]
        print(
            f"{name:16} {row['seconds']:6.2f} s of {row['seconds_target']:g}   "
            f"{row['peak_mb']:5} MB of {row['peak_mb_target']}   {'met' if met else 'MISSED'}"
        )
    for convention, row in counts.items():
        met = row["seconds"] <= COUNT_SECONDS
        print(
            f"count {convention:10} {row['seconds']:6.3f} s of {COUNT_SECONDS:g}   "
            f"{row['transitions']} transitions   {'met' if met else 'MISSED'}"
        )
    report = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": taken_on,
        "imports": imports,
        "counts": counts,
    }
    if options.output:
        options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
