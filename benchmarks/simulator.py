"""The simulated GPUs beside what the papers measured on real ones, and how fast simulating is.

    .venv/bin/python benchmarks/simulator.py [--output benchmarks/results/simulator.json]

What IOS's authors measured is in the README of their repository (github.com/mit-han-lab/
inter-operator-scheduler, section 4.2); the paper has it as figures. Opara's numbers are in the text
of its Section 5.2. No GPU is asked here: what is printed as simulated was computed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from machine import machine
from torch import Tensor, nn

from workers import zoo
from workers.devices.base import Timeline
from workers.devices.sim.device import SimDevice
from workers.graph.graph import Graph
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise
from workers.schedulers.base import Scheduler, StageLatency
from workers.schedulers.greedy import GreedyScheduler
from workers.schedulers.ios import IosScheduler
from workers.schedulers.sequential import SequentialScheduler
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import Placement, Schedule, Stage, StageSchedule, StreamSchedule

# IOS, batch 1 on the V100, ms: sequential, greedy, IOS with concurrent execution alone
# ("IOS-Parallel"), from the README's table of section 4.2.1, means of five, which are the paper's
# Figure 6. Plait's search merges nothing.
# NASNet and RandWire are not searched here: it took IOS an hour, too.
IOS_SCHEDULES = {
    "inception_v3": (6.51, 4.62, 4.11),
    "randwire": (8.49, 6.27, 6.02),
    "nasnet_a_large": (22.95, 16.78, 16.04),
    "squeezenet": (0.86, 0.98, 0.82),
}
LARGE = ("nasnet_a_large", "randwire")
# IOS, Inception-v3 on the V100, ms: sequential and IOS (with merging), section 4.2.6, one run.
IOS_BATCHES = {
    1: (6.20, 3.94),
    16: (17.95, 15.17),
    32: (30.54, 27.00),
    64: (55.67, 51.11),
    128: (108.55, 102.74),
}
# IOS with merging, Inception-v3 at batch 1, ms on (GPU) with the schedule found on (GPU), section
# 4.2.4, one run; the paper's Table 3 (2).
IOS_DEVICES = {
    ("v100", "v100"): 4.02,
    ("v100", "k80"): 4.42,
    ("k80", "k80"): 13.93,
    ("k80", "v100"): 14.64,
}
# IOS's sample network on the V100, ms: each of its stages, sequentially, and both schedules
# (README, section 3); active warps of the second against the first (paper, Section 6.3).
IOS_SAMPLE_STAGES = (0.1107, 0.1260, 0.1060, 0.1255, 0.0179)
IOS_SAMPLE = (0.486, 0.333, 1.58)
# Opara against a sequential CUDA Graph, Inception-v3 on the RTX 2080 SUPER (Section 5.2).
OPARA_BATCHES = {1: 1.41, 32: 1.09}

NASNET_SECONDS, SQUEEZENET_SEARCH_SECONDS, INCEPTION_SEARCH_SECONDS = 0.5, 2.0, 10.0
REPEATS = 5


class Sample(nn.Module):
    """IOS's sample network, Figure 2: three convolutions side by side, one of them continued."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.third = self._layer(375, 375), self._layer(375, 375)
        self.second, self.fourth = self._layer(375, 750), self._layer(375, 750)

    @staticmethod
    def _layer(channels: int, filters: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:
        parts = [self.fourth(self.first(image)), self.second(image), self.third(image)]
        return torch.cat(parts, dim=1)


@cache
def model(name: str) -> Graph:
    print(f"importing {name}", file=sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        if name == "sample":
            program = torch.export.export(Sample().eval(), (torch.zeros(1, 375, 15, 15),))
        else:
            program = zoo.program(name, 1)
    return optimise(*import_program(program, 1), merge_common=False)[0]


@cache
def at_batch(name: str, batch: int) -> Graph:
    """The model with every value's first dimension ``batch``: kernels follow from shapes."""
    graph = model(name)
    weights = set(graph.weights)
    values = {
        value: spec if value in weights else replace(spec, shape=(batch, *spec.shape[1:]))
        for value, spec in graph.values.items()
    }
    return replace(graph, values=values)


class StageOracle:
    """Asks a simulated device for stages, and counts them."""

    parallelism = 1

    def __init__(self, device: SimDevice, graph: Graph) -> None:
        self._device, self._graph = device, graph
        self.seconds: list[float] = []

    def stage_latencies(self, stages: Sequence[Stage]) -> list[StageLatency]:
        return [StageLatency(self._latency(stage)) for stage in stages]

    def _latency(self, stage: Stage) -> float:
        plan = lower(StageSchedule("stage", (stage,)), self._graph, 1)
        started = time.perf_counter()
        latency = self._device.latency_ms(self._graph, plan)
        self.seconds.append(time.perf_counter() - started)
        return latency


def scheduled(graph: Graph, device: SimDevice, scheduler: Scheduler) -> Schedule:
    return scheduler.schedule(graph, StageOracle(device, graph)).schedule


@cache
def searched(name: str, batch: int, gpu: str) -> Schedule:
    """IOS's schedule, found once."""
    return scheduled(at_batch(name, batch), SimDevice(gpu, "streams"), IosScheduler())


def latency(graph: Graph, device: SimDevice, schedule: Schedule) -> float:
    return device.latency_ms(graph, lower(schedule, graph, 1))


def streams(graph: Graph) -> StreamSchedule:
    """Opara's Algorithm 1, launched in the graph's order: a Unit follows the first predecessor
    whose first successor it is, or else begins a stream."""
    stream: list[int] = []
    count = 0
    for position, before in enumerate(graph.predecessors):
        own = [stream[p] for p in before if graph.successors[p][0] == position]
        stream.append(own[0] if own else count)
        count += not own
    placements = zip(graph.units, stream, strict=True)
    return StreamSchedule("opara", tuple(Placement(unit.name, s) for unit, s in placements))


def row(label: str, real: float, simulated: float, unit: str = "ms") -> dict[str, Any]:
    print(f"  {label:44} {real:8.3f} {simulated:8.3f} {unit:3} {simulated / real - 1:+7.0%}")
    return {"what": label, "unit": unit, "published": real, "simulated": round(simulated, 4)}


def ios_schedules() -> list[dict[str, Any]]:
    rows = []
    device = SimDevice("v100", "streams")
    for name, published in IOS_SCHEDULES.items():
        graph = at_batch(name, 1)
        schedules = [
            scheduled(graph, device, SequentialScheduler()),
            scheduled(graph, device, GreedyScheduler()),
        ]
        if name not in LARGE:
            schedules.append(searched(name, 1, "v100"))
        found = [latency(graph, device, schedule) for schedule in schedules]
        for label, real, simulated in zip(
            ("sequential", "greedy", "IOS-Parallel"), published, found, strict=False
        ):
            rows.append(row(f"{name} {label}", real, simulated))
        for number, label in list(enumerate(("greedy", "IOS-Parallel"), 1))[: len(found) - 1]:
            real, simulated = published[0] / published[number], found[0] / found[number]
            rows.append(row(f"{name} gain of {label}", real, simulated, "x"))
    return rows


def ios_batches() -> list[dict[str, Any]]:
    rows = []
    device = SimDevice("v100", "streams")
    for batch, (sequential, ios) in IOS_BATCHES.items():
        graph = at_batch("inception_v3", batch)
        slow = latency(graph, device, scheduled(graph, device, SequentialScheduler()))
        fast = latency(graph, device, searched("inception_v3", batch, "v100"))
        rows.append(row(f"batch {batch} sequential", sequential, slow))
        rows.append(row(f"batch {batch} IOS", ios, fast))
        rows.append(row(f"batch {batch} gain", sequential / ios, slow / fast, "x"))
    return rows


def ios_devices() -> list[dict[str, Any]]:
    graph = at_batch("inception_v3", 1)
    device = {name: SimDevice(name, "streams") for name in ("v100", "k80")}
    found = {name: searched("inception_v3", 1, name) for name in device}
    return [
        row(f"run on {on}, scheduled for {of}", real, latency(graph, device[on], found[of]))
        for (on, of), real in IOS_DEVICES.items()
    ]


def timeline(graph: Graph, device: SimDevice, plan: Plan) -> Timeline:
    inputs = {name: torch.zeros(graph.values[name].shape) for name in graph.inputs}
    with device.prepare(graph, {}, plan) as executable:
        return executable.timeline(inputs)


def mean_warps(found: Timeline) -> float:
    steps = found.resident_warps
    total = sum(warps * (after - begin) for (begin, warps), (after, _) in pairwise(steps))
    return total / steps[-1][0]


def ios_sample() -> list[dict[str, Any]]:
    graph, device = at_batch("sample", 1), SimDevice("v100", "streams")
    sequential = scheduled(graph, device, SequentialScheduler())
    ios = scheduled(graph, device, IosScheduler())
    plans = [lower(each, graph, 1) for each in (sequential, ios)]
    found = [timeline(graph, device, plan) for plan in plans]
    # IOS numbers its operators 1, 2, 3, 4 and the concatenation 5.
    spans = {span.unit: span.end_ms - span.start_ms for span in found[0].spans}
    rows = [
        row(f"convolution or concatenation {number}", real, spans[unit.name])
        for number, (real, unit) in enumerate(
            zip(IOS_SAMPLE_STAGES, _sample_order(graph), strict=True), 1
        )
    ]
    rows.append(row("sequential", IOS_SAMPLE[0], device.latency_ms(graph, plans[0])))
    rows.append(row("IOS", IOS_SAMPLE[1], device.latency_ms(graph, plans[1])))
    warps = mean_warps(found[1]) / mean_warps(found[0])
    rows.append(row("resident warps, IOS / sequential", IOS_SAMPLE[2], warps, "x"))
    return rows


def _sample_order(graph: Graph) -> list[Any]:
    """Units in IOS's order: 375 filters (continued), 750, 375 (joined at once), 750, the join."""
    source = [unit for unit in graph.units if graph.inputs[0] in unit.inputs]
    join = graph.units[-1]
    wide = next(u for u in source if graph.values[u.outputs[0]].shape[1] == 750)
    narrow = [u for u in source if u is not wide]
    joined = next(u for u in narrow if u.outputs[0] in join.inputs)
    continued = next(u for u in narrow if u is not joined)
    last = next(u for u in graph.units if continued.outputs[0] in u.inputs)
    return [continued, wide, joined, last, join]


def opara_batches() -> list[dict[str, Any]]:
    rows = []
    device = SimDevice("rtx2080super")
    for batch, real in OPARA_BATCHES.items():
        graph = at_batch("inception_v3", batch)
        slow = latency(graph, device, scheduled(graph, device, SequentialScheduler()))
        fast = latency(graph, device, streams(graph))
        rows.append(row(f"Inception-v3 batch {batch} gain", real, slow / fast, "x"))
    return rows


def gains() -> dict[str, float]:
    """Gain of the greedy schedule for Inception-v3 at batch 1, by GPU: there is no measurement to
    compare with."""
    graph = at_batch("inception_v3", 1)
    found = {}
    for name in ("k80", "rtx2080super", "p100", "rtx2080ti", "v100", "a100", "h100", "h200"):
        device = SimDevice(name)
        slow = latency(graph, device, scheduled(graph, device, SequentialScheduler()))
        fast = latency(graph, device, scheduled(graph, device, GreedyScheduler()))
        sms = device.facts.gpu.sm_count if device.facts.gpu else 0
        print(f"  {name:14} {sms:4} SMs  {slow:7.3f} ms  {fast:7.3f} ms  {slow / fast:5.2f} x")
        found[name] = round(slow / fast, 3)
    return found


def median_seconds(action: Callable[[], object]) -> float:
    """CPU time, as the simulator waits for nothing and the machine may be busy."""
    taken = []
    for _ in range(REPEATS):
        started = time.process_time()
        action()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def speed() -> dict[str, Any]:
    found: dict[str, Any] = {}

    def limited(label: str, seconds: float, limit: float) -> None:
        met = "met" if seconds <= limit else "MISSED"
        print(f"  {label:44} {seconds:8.3f} s of {limit:g}   {met}")
        found[label] = {"cpu_seconds": round(seconds, 4), "target": limit}

    graph = at_batch("nasnet_a_large", 1)
    for label, schedule in (
        ("sequential", scheduled(graph, SimDevice("v100"), SequentialScheduler())),
        ("greedy", scheduled(graph, SimDevice("v100"), GreedyScheduler())),
        ("streams", streams(graph)),
    ):
        device, plan = SimDevice("v100"), lower(schedule, graph, 1)
        device.latency_ms(graph, plan)  # finds the kernels
        seconds = median_seconds(partial(device.latency_ms, graph, plan))
        limited(f"NASNet-A-Large, {label}", seconds, NASNET_SECONDS)
    for name, limit in (
        ("squeezenet", SQUEEZENET_SEARCH_SECONDS),
        ("inception_v3", INCEPTION_SEARCH_SECONDS),
    ):
        graph = at_batch(name, 1)
        oracle = StageOracle(SimDevice("v100"), graph)
        started = time.process_time()
        IosScheduler().schedule(graph, oracle)
        limited(f"IOS search of {name}", time.process_time() - started, limit)
        median = statistics.median(oracle.seconds) * 1e3
        print(f"    {len(oracle.seconds)} stages, median {median:.2f} ms")
        found[f"stages of {name}"] = {"count": len(oracle.seconds), "median_ms": round(median, 3)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    taken_on = machine()
    report: dict[str, Any] = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": taken_on,
        "simulator": SimDevice("v100").facts.versions["simulator"],
    }
    sections: dict[str, Callable[[], Any]] = {
        "IOS: its sample network, V100": ios_sample,
        "IOS: Inception-v3 by batch size, V100": ios_batches,
        "IOS: schedules for two GPUs": ios_devices,
        "Opara: streams against one, RTX 2080 SUPER": opara_batches,
        "gain by GPU": gains,
        "speed": speed,
        "IOS: schedules at batch 1, V100": ios_schedules,
    }
    for title, section in sections.items():
        print(f"{title}\n  {'':44} {'publ.':>8} {'simul.':>8}")
        report[title] = section()
    if options.output:
        options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
