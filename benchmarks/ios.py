"""How fast IOS's search is where measuring takes no time, and how much memory it takes.

    .venv/bin/python benchmarks/ios.py [--only NAME ...] [--output benchmarks/results/ios.json]

Two kinds of runs, each in a process of its own, whose peak memory is its own:

- The dynamic program alone, over the largest block of IOS's Table 1 (RandWire's) with random
  latencies: the search space is enumerated and the best schedule found.
- The whole search of a network on ``sim:v100``, through the oracle that real devices have, with an
  empty ProfileIndex in memory: exact (``search/``) and of all stages (``exhaustive/``). Latencies
  are simulated and nothing was run on a GPU. Importing the network is not counted.

Seconds are CPU time; the searches are of one thread and wait for nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

from workers.schedulers.ios.scheduler import Mode

BLOCK = Path(__file__).parents[1] / "tests/reference/ios_table1/randwire_large.json"
PROGRAM_LIMITS = {"pruned": 1.5, "unpruned": 6.0}
PEAK_MIB = 1024
SEARCH_LIMITS = {
    "squeezenet": 2.0,
    "inception_v3": 10.0,
    "nasnet_a_large": 120.0,
    "randwire": 120.0,
}


def program(name: str) -> dict[str, Any]:
    """Enumerate the block's search space and solve it."""
    from workers.schedulers.endings import Pruning  # noqa: PLC0415  # counted in its own process
    from workers.schedulers.ios.paths import solve  # noqa: PLC0415
    from workers.schedulers.ios.space import build_space  # noqa: PLC0415

    successors = json.loads(BLOCK.read_text())["successors"]
    pruning = Pruning(3, 8) if name == "pruned" else Pruning()
    started = time.process_time()
    space = build_space(successors, pruning)
    enumerated = time.process_time()
    found = solve(space, np.random.default_rng(0).random(len(space.stages)))
    ended = time.process_time()
    return {
        "states": len(space.states),
        "transitions": space.transitions,
        "stages": len(space.stages),
        "stages_of_the_best": len(found.stages),
        "enumerate_cpu_seconds": round(enumerated - started, 3),
        "solve_cpu_seconds": round(ended - enumerated, 3),
        "cpu_seconds": round(ended - started, 3),
        "target": PROGRAM_LIMITS[name],
    }


def search(name: str, mode: Mode) -> dict[str, Any]:
    """The optimum of a network."""
    from networks import at_batch  # noqa: PLC0415  # torch, in this process alone

    from workers.devices.sim.device import SimDevice  # noqa: PLC0415
    from workers.measure.oracle import MeasuringOracle  # noqa: PLC0415
    from workers.measure.profile_index import MemoryIndex  # noqa: PLC0415
    from workers.runner.workplace import collect_rarely  # noqa: PLC0415
    from workers.schedulers.ios import IosScheduler  # noqa: PLC0415

    collect_rarely()  # as in a job
    graph = at_batch(name, 1)
    oracle = MeasuringOracle(graph, {}, SimDevice("v100", "streams"), MemoryIndex())
    started = time.process_time()
    found = IosScheduler(strategies="parallel", mode=mode).schedule(graph, oracle)
    ended = time.process_time()
    return {
        "mode": mode,
        "strategies": "parallel",
        "latency_ms": found.predicted_ms,
        "bound_ms": found.bound_ms,
        "bound_holds": found.bound_holds,
        "stages_measured": found.stages_measured,
        "stages_total": found.stages_total,
        "simulated": oracle.measured,
        "notes": list(found.notes),
        "cpu_seconds": round(ended - started, 2),
        "target": SEARCH_LIMITS[name],
    }


def runs() -> dict[str, Callable[[], dict[str, Any]]]:
    return {
        **{f"program/{name}": partial(program, name) for name in PROGRAM_LIMITS},
        **{f"search/{name}": partial(search, name, "exact") for name in SEARCH_LIMITS},
        **{f"exhaustive/{name}": partial(search, name, "exhaustive") for name in SEARCH_LIMITS},
    }


def in_own_process(name: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--run", name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    met = result["cpu_seconds"] <= result["target"]
    if name.startswith("program/"):
        met = met and result["peak_mib"] <= PEAK_MIB
    result["met"] = met
    print(
        f"{name:26} {result['cpu_seconds']:8.2f} s of {result['target']:g},"
        f" {result['peak_mib']:5} MiB   {'met' if met else 'MISSED'}"
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", nargs="*", choices=runs(), default=list(runs()))
    parser.add_argument("--run", choices=runs(), help="in this process; prints JSON")
    options = parser.parse_args()
    if options.run:
        result = runs()[options.run]()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({**result, "peak_mib": peak}))
        return
    taken_on = machine()
    report = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": taken_on,
        "runs": {name: in_own_process(name) for name in options.only},
    }
    if options.output:
        options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
