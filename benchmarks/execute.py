"""What it costs to make Plans and to run them, beside the operators themselves.

    .venv/bin/python benchmarks/execute.py [--output benchmarks/results/execute.json]

- Lowering and validating Plans of NASNet-A-Large: sequential, greedy, and random over streams.
- The CPU's executor with a single stream against a plain Python loop that calls the same fused
  functions on the same thread with the same intra-operator threads, in turns.
- What a launch costs beside its operator, on one stream and where each waits for another stream.
- Simulating one Plan of NASNet-A-Large on a V100.

Ratios are medians over rounds, with the 95 % interval of the median. Run it on a machine that does
nothing else: the load before is part of the result.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from machine import machine
from torch import Tensor

from workers.devices import open_device
from workers.devices.cpu import CpuDevice
from workers.devices.cpu_executable import CpuExecutable
from workers.devices.signals import BlockingSignal
from workers.graph.graph import Graph, Operator, TensorSpec, ValueRef
from workers.graph.importers import import_model
from workers.graph.importers.sandbox import SandboxLimits
from workers.graph.importers.source import ZooModel
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs
from workers.graph.units import operator_units
from workers.measure.statistics import median_interval
from workers.schedulers.greedy import GreedyScheduler
from workers.schedulers.sequential import SequentialScheduler
from workers.schedules.lower import lower
from workers.schedules.plan import Launch, Plan, Stream
from workers.schedules.schedule import Placement, Schedule, Stage, StageSchedule, StreamSchedule
from workers.schedules.validate import validate

LIMITS = SandboxLimits(memory_bytes=16 << 30, seconds=900)
LARGE = "nasnet_a_large"
LOWER_SECONDS, SIMULATE_SECONDS = 1.0, 0.5
LOOP_RATIO, LAUNCH_US = 1.03, 15.0
TINY = 400
ROUNDS = 21

Weights = dict[str, Tensor]


def imported(name: str) -> tuple[Graph, Weights]:
    with tempfile.TemporaryDirectory(prefix="plait-bench-") as folder:
        found = import_model(ZooModel(name), 1, Path(folder), LIMITS)
        return optimise(found.graph, found.weights)


class Unasked:
    """The oracle of schedulers that ask nothing."""

    parallelism = 2

    def stage_latencies(self, stages: Sequence[object]) -> list[Any]:
        raise AssertionError(stages)


def schedules(graph: Graph) -> dict[str, Schedule]:
    spread = [Placement(unit.name, number % 8) for number, unit in enumerate(graph.units)]
    return {
        "sequential": SequentialScheduler().schedule(graph, Unasked()).schedule,
        "greedy": GreedyScheduler().schedule(graph, Unasked()).schedule,
        "8 streams": StreamSchedule("spread", tuple(spread)),
    }


def lowering(graph: Graph) -> dict[str, Any]:
    found = {}
    for name, schedule in schedules(graph).items():
        times = []
        for _ in range(5):
            started = time.perf_counter()
            plan = lower(schedule, graph, 2)
            validate(plan, graph)
            times.append(time.perf_counter() - started)
        found[name] = {
            "launches": len(plan.launches),
            "waits": sum(len(launch.waits) for launch in plan.launches),
            "seconds": round(statistics.median(times), 4),
            "seconds_target": LOWER_SECONDS,
        }
    return found


def simulating(graph: Graph) -> dict[str, Any]:
    """A Plan never seen by the device, as a search has it: the kernels of its Units are known."""
    device = open_device("sim:v100")
    found = {}
    for name, schedule in schedules(graph).items():
        plan = lower(schedule, graph, 1)
        times = []
        for _ in range(5):
            started = time.perf_counter()
            with device.prepare(graph, {}, plan) as executable:
                (latency,) = executable.time(random_inputs(graph, 0), 1)
            times.append(time.perf_counter() - started)
        found[name] = {
            "simulated_ms": latency,
            "seconds": round(statistics.median(times), 4),
            "seconds_first": round(times[0], 4),
            "seconds_target": SIMULATE_SECONDS,
        }
    device.close()
    return found


def chain(length: int) -> tuple[Graph, Weights]:
    """Operators on eight numbers: what is left is the cost of launching them."""
    names = ["x", *(f"n{number}" for number in range(length))]
    operators = [
        Operator(name, "aten.neg.default", (ValueRef(before),), (), (name,))
        for before, name in itertools.pairwise(names)
    ]
    graph = operator_units(
        name="tiny operators",
        inputs=("x",),
        outputs=(names[-1],),
        weights=(),
        values={name: TensorSpec((8,), "float32") for name in names},
        operators=operators,
    )
    return graph, {}


def one_stream(graph: Graph, threads: int) -> Plan:
    return Plan((Stream(threads),), tuple(Launch(unit.name, 0) for unit in graph.units))


def plain_loop(executable: CpuExecutable, graph: Graph) -> Callable[[dict[str, Tensor]], float]:
    """Calls the executable's functions one after another on its own thread; the ms it took."""
    units = [executable._units[unit.name] for unit in graph.units]
    calls = [(unit.function, unit.inputs, unit.outputs[0], unit.outputs[1:]) for unit in units]
    (worker,) = executable._workers
    done = BlockingSignal()

    def run(inputs: dict[str, Tensor]) -> float:
        took = []

        def loop() -> None:
            start = time.perf_counter()
            values = dict(inputs)
            for function, reads, makes, others in calls:
                results = function(*[values[name] for name in reads])
                values[makes] = results[0]
                if others:
                    values.update(zip(others, results[1:], strict=True))
            took.append((time.perf_counter() - start) * 1e3)
            done.send()

        worker.submit(loop)
        done.wait()
        return took[0]

    return run


def against_a_loop(device: CpuDevice, graph: Graph, weights: Weights, threads: int) -> Any:
    inputs = random_inputs(graph, 0)
    with device.prepare(graph, weights, one_stream(graph, threads)) as executable:
        assert isinstance(executable, CpuExecutable)
        loop = plain_loop(executable, graph)
        for _ in range(3):
            loop(inputs)
            executable.run(inputs)
        ours, plain = [], []
        for number in range(ROUNDS):
            # Who comes second finds the caches of who came first: they take turns in that, too.
            for mine in (number % 2 == 0, number % 2 == 1):
                if mine:
                    ours.append(min(executable.time(inputs, 3)))
                else:
                    plain.append(min(loop(inputs) for _ in range(3)))
    ratios = [a / b for a, b in zip(ours, plain, strict=True)]
    low, high = median_interval(ratios)
    return {
        "units": len(graph.units),
        "threads": threads,
        "plan_ms": round(statistics.median(ours), 3),
        "loop_ms": round(statistics.median(plain), 3),
        "ratio": round(statistics.median(ratios), 4),
        "ratio_interval": [round(low, 4), round(high, 4)],
        "ratio_target": LOOP_RATIO,
    }


def ladder(length: int) -> Graph:
    """Pairs of operators on eight numbers, each of which reads both of the pair before."""
    operators: list[Operator] = []
    pair = ("x", "x")
    for number in range(length):
        reads = (ValueRef(pair[0]), ValueRef(pair[1]))
        pair = (f"a{number}", f"b{number}")
        operators += [Operator(name, "aten.maximum.default", reads, (), (name,)) for name in pair]
    return operator_units(
        name="ladder",
        inputs=("x",),
        outputs=pair,
        weights=(),
        values={name: TensorSpec((8,), "float32") for name in ("x", *(o.name for o in operators))},
        operators=operators,
    )


def launching(device: CpuDevice) -> dict[str, Any]:
    """µs a launch: on one stream, beside what its operator takes when called alone; and what two
    streams that wait for each other after every launch take more than one launch of each."""
    graph, weights = chain(TINY)
    with torch.inference_mode():
        tensor = random_inputs(graph, 0)["x"]
        bare = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(TINY):
                torch.ops.aten.neg.default(tensor)
            bare.append((time.perf_counter() - start) / TINY * 1e6)
    crossed = ladder(TINY)
    rungs = zip(crossed.units[::2], crossed.units[1::2], strict=True)
    schedule = StageSchedule("ladder", tuple(Stage(((a.name,), (b.name,))) for a, b in rungs))
    found: dict[str, Any] = {"operator_us": round(statistics.median(bare), 2)}
    for name, planned, plan in (
        ("one_stream", graph, one_stream(graph, 1)),
        ("pair_on_one_stream", crossed, one_stream(crossed, 1)),
        ("pair_on_two_streams", crossed, lower(schedule, crossed, 2)),
    ):
        with device.prepare(planned, weights, plan) as executable:
            inputs = random_inputs(planned, 0)
            executable.time(inputs, 5)
            times = executable.time(inputs, ROUNDS)
        found[f"{name}_us"] = round(statistics.median(times) / TINY * 1e3, 2)
    found["launch_us"] = round(found["one_stream_us"] - found["operator_us"], 2)
    found["hand_over_us"] = round(
        found["pair_on_two_streams_us"] - found["pair_on_one_stream_us"] / 2, 2
    )
    found["launch_us_target"] = LAUNCH_US
    return found


def met(found: float, target: float) -> str:
    return f"of {target:g}   {'met' if found <= target else 'MISSED'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "torch": torch.__version__,
    }
    large, _ = imported(LARGE)
    report["lowering"] = lowering(large)
    for name, row in report["lowering"].items():
        print(f"lower {name:24} {row['seconds']:8.4f} s {met(row['seconds'], LOWER_SECONDS)}")
    report["simulating"] = simulating(large)
    for name, row in report["simulating"].items():
        print(f"simulate {name:21} {row['seconds']:8.4f} s {met(row['seconds'], SIMULATE_SECONDS)}")
    models = {name: imported(name) for name in ("squeezenet", "inception_v3")}
    models["tiny operators"] = chain(TINY)
    device = CpuDevice()
    report["against_a_loop"] = {}
    for name, (graph, weights) in models.items():
        for threads in sorted({1, device.facts.parallelism}):
            row = against_a_loop(device, graph, weights, threads)
            report["against_a_loop"][f"{name}, {threads} threads"] = row
            low, high = row["ratio_interval"]
            print(
                f"loop {name + ', ' + str(threads):25} {row['ratio']:8.4f} ({low:.3f}-{high:.3f})"
                f" {met(row['ratio'], LOOP_RATIO)}   {row['plan_ms']:.2f} ms"
            )
    row = report["launching"] = launching(device)
    print(f"launch {'':24} {row['launch_us']:7.2f} µs {met(row['launch_us'], LAUNCH_US)}")
    print(f"hand-over {'':21} {row['hand_over_us']:7.2f} µs")
    device.close()
    if options.output:
        options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
