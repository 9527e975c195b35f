"""The simulated GPUs beside what the papers measured on real ones, and how fast simulating is.

    .venv/bin/python benchmarks/simulator.py [--output benchmarks/results/simulator.json]

Schedules that need no search only; those that IOS finds are in ``benchmarks/ios_figures``. What IOS
published is in ``ios_published.py``; Opara's numbers are in the text of its Section 5.2. No GPU is
asked here: what is printed as simulated was computed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import ios_published
import torch
from machine import machine
from networks import SAMPLE, at_batch, sample_order

from workers.devices.base import Timeline
from workers.devices.sim.device import SimDevice
from workers.graph.graph import Graph
from workers.schedulers.base import Scheduler, StageLatency
from workers.schedulers.greedy import GreedyScheduler
from workers.schedulers.ios import IosScheduler
from workers.schedulers.opara.allocation import allocate
from workers.schedulers.sequential import SequentialScheduler
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import Placement, Schedule, Stage, StageSchedule, StreamSchedule

# Opara against a sequential CUDA Graph, Inception-v3 on the RTX 2080 SUPER (Section 5.2).
OPARA_BATCHES = {1: 1.41, 32: 1.09}

NASNET_SECONDS, SQUEEZENET_SEARCH_SECONDS, INCEPTION_SEARCH_SECONDS = 0.5, 2.0, 10.0
REPEATS = 5


class StageOracle:
    """Asks a simulated device for stages, and counts them."""

    parallelism = 1

    def __init__(self, device: SimDevice, graph: Graph) -> None:
        self._device, self._graph = device, graph
        self.seconds: list[float] = []

    def stage_latencies(self, stages: Sequence[Stage]) -> list[StageLatency]:
        return [StageLatency(self._latency(stage)) for stage in stages]

    def recheck(self, stages: Sequence[Stage]) -> list[StageLatency]:
        return self.stage_latencies(stages)

    def _latency(self, stage: Stage) -> float:
        plan = lower(StageSchedule("stage", (stage,)), self._graph, 1)
        started = time.perf_counter()
        latency = self._device.latency_ms(self._graph, plan)
        self.seconds.append(time.perf_counter() - started)
        return latency


def scheduled(graph: Graph, device: SimDevice, scheduler: Scheduler) -> Schedule:
    return scheduler.schedule(graph, StageOracle(device, graph)).schedule


def latency(graph: Graph, device: SimDevice, schedule: Schedule) -> float:
    return device.latency_ms(graph, lower(schedule, graph, 1))


def streams(graph: Graph) -> StreamSchedule:
    """Opara's Algorithm 1, launched in the graph's order."""
    placements = zip(graph.units, allocate(graph.successors), strict=True)
    return StreamSchedule("opara", tuple(Placement(unit.name, s) for unit, s in placements))


def row(label: str, real: float, simulated: float, unit: str = "ms") -> dict[str, Any]:
    print(f"  {label:44} {real:8.3f} {simulated:8.3f} {unit:3} {simulated / real - 1:+7.0%}")
    return {"what": label, "unit": unit, "published": real, "simulated": round(simulated, 4)}


def ios_networks() -> list[dict[str, Any]]:
    rows = []
    device = SimDevice("v100", "streams")
    for name, published in ios_published.LATENCIES.items():
        graph = at_batch(name, 1)
        found = [
            latency(graph, device, scheduled(graph, device, scheduler))
            for scheduler in (SequentialScheduler(), GreedyScheduler())
        ]
        for label, real, simulated in zip(("sequential", "greedy"), published, found, strict=False):
            rows.append(row(f"{name} {label}", real, simulated))
        rows.append(
            row(f"{name} gain of greedy", published[0] / published[1], found[0] / found[1], "x")
        )
    return rows


def ios_batches() -> list[dict[str, Any]]:
    device = SimDevice("v100", "streams")
    graphs = {batch: at_batch("inception_v3", batch) for batch in ios_published.BATCHES}
    return [
        row(
            f"batch {batch} sequential",
            ios_published.BATCH_LATENCIES[batch][0],
            latency(graph, device, scheduled(graph, device, SequentialScheduler())),
        )
        for batch, graph in graphs.items()
    ]


def timeline(graph: Graph, device: SimDevice, plan: Plan) -> Timeline:
    inputs = {name: torch.zeros(graph.values[name].shape) for name in graph.inputs}
    with device.prepare(graph, {}, plan) as executable:
        return executable.timeline(inputs)


def ios_sample() -> list[dict[str, Any]]:
    graph, device = at_batch(SAMPLE, 1), SimDevice("v100", "streams")
    plan = lower(scheduled(graph, device, SequentialScheduler()), graph, 1)
    found = timeline(graph, device, plan)
    # IOS numbers its operators 1, 2, 3, 4 and the concatenation 5.
    spans = {span.unit: span.end_ms - span.start_ms for span in found.spans}
    rows = [
        row(f"convolution or concatenation {number}", real, spans[unit.name])
        for number, (real, unit) in enumerate(
            zip(ios_published.SAMPLE_STAGES, sample_order(graph), strict=True), 1
        )
    ]
    sequential = ios_published.SAMPLE_LATENCIES[0]
    rows.append(row("sequential", sequential, device.latency_ms(graph, plan)))
    return rows


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
        IosScheduler(strategies="parallel").schedule(graph, oracle)
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
        "IOS: networks at batch 1, V100": ios_networks,
        "Opara: streams against one, RTX 2080 SUPER": opara_batches,
        "gain by GPU": gains,
        "speed": speed,
    }
    for title, section in sections.items():
        print(f"{title}\n  {'':44} {'publ.':>8} {'simul.':>8}")
        report[title] = section()
    if options.output:
        options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
