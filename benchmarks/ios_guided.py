"""How close to the optimum the guided search of IOS comes, and how little it measures.

    .venv/bin/python benchmarks/ios_guided.py [--seeds 5] [--blocks NETWORK[:NUMBER[:SEEDS]] ...]
        [--enumerate-up-to 20000] [--cache FOLDER] [--output benchmarks/results/ios_guided.json]

The oracle is a simulated V100 of which every kernel takes 0.8 to 1.2 times as long as it should,
at random; the search knows nothing of that. All latencies are simulated. A block's optimum is that
of all of its stages, each simulated. Where a block has more than ``--enumerate-up-to``, it is what
an exact search ends with; such rows say "exact", and how many measured stages contradicted the
floors that make it exact: it is the optimum if the floors of what was not measured hold.

A stage takes about 3 ms of one core to simulate, or half a minute for a block of NASNet-A-Large and
three minutes for the exact search of RandWire's largest. ``--cache`` keeps what was simulated.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine
from networks import at_batch
from numpy.typing import NDArray

from workers.devices.sim.device import SimDevice
from workers.devices.sim.kernel import SimKernel
from workers.graph.graph import Graph
from workers.measure.subgraph import subgraph
from workers.schedulers.base import StageLatency, ignore_progress
from workers.schedulers.endings import Pruning
from workers.schedulers.ios.exact import Exact
from workers.schedulers.ios.guided import Guided
from workers.schedulers.ios.guides import Guide
from workers.schedulers.ios.parts import Division, Part, divide
from workers.schedulers.ios.paths import around_stages, costs, costs_to_go, solve
from workers.schedulers.ios.search import Search
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage, StageSchedule

NETWORKS = ("nasnet_a_large", "randwire")
SHARE, EXCESS = 0.02, 0.01
"""The target: at most this part of the distinct stages measured, within this of the optimum."""
BATCH, MOST_TRANSITIONS = 32, 4_000_000
MOST_KERNELS = 16
"""Of one Unit that are perturbed apart from each other; further ones as the first."""

Floats = NDArray[np.float64]


class PerturbedDevice(SimDevice):
    """A simulated GPU whose kernels, each by itself, take 0.8 to 1.2 times as long."""

    def __init__(self, name: str, graph: Graph, seed: int) -> None:
        super().__init__(name, "streams")
        factors = np.random.default_rng(seed).uniform(0.8, 1.2, (len(graph.units), MOST_KERNELS))
        self._factors = dict(zip((unit.name for unit in graph.units), factors, strict=True))
        self._perturbed: dict[str, tuple[SimKernel, ...]] = {}

    def _kernels_of(self, graph: Graph, position: int) -> tuple[SimKernel, ...]:
        name = graph.units[position].name
        if name not in self._perturbed:
            factors = np.resize(self._factors[name], 2 * MOST_KERNELS)
            kernels = super()._kernels_of(graph, position)
            self._perturbed[name] = tuple(
                _slower(kernel, float(factor))
                for kernel, factor in zip(kernels, factors)  # noqa: B905
            )
        return self._perturbed[name]


def _slower(kernel: SimKernel, factor: float) -> SimKernel:
    """The kernel with ``factor`` times the work of every kind."""
    work = kernel.work
    return replace(
        kernel,
        work=replace(
            work,
            compute_s=work.compute_s * factor,
            dram_bytes=work.dram_bytes * factor,
            reused_bytes=work.reused_bytes * factor,
            l2_bytes=work.l2_bytes * factor,
            latency_s=work.latency_s * factor,
        ),
    )


class BlockOracle:
    """Simulates the stages of one block, each once. ``latencies`` of its stages are NaN until they
    are known; ``kept`` is a file to begin with, if it is there."""

    parallelism = 1

    def __init__(self, graph: Graph, part: Part, seed: int, kept: Path | None) -> None:
        names = [graph.units[position].name for position in part.occurrences[0]]
        self._graph, self._part, self._kept = graph, part, kept
        self._bit = {name: 1 << unit for unit, name in enumerate(names)}
        self._index = {mask: index for index, mask in enumerate(part.space.stages.tolist())}
        self._device = PerturbedDevice("v100", graph, seed)
        self._block = subgraph(graph, names)
        self.latencies: Floats = np.full(len(self._index), math.nan)
        if kept is not None and kept.exists():
            self.latencies = np.load(kept)

    def keep(self) -> None:
        """Write to the file what is known."""
        if self._kept is not None:
            np.save(self._kept, self.latencies)

    def stage_latencies(self, stages: Sequence[Stage]) -> list[StageLatency]:
        return [StageLatency(self._latency(stage)) for stage in stages]

    def recheck(self, stages: Sequence[Stage]) -> list[StageLatency]:
        return self.stage_latencies(stages)

    def every_latency(self) -> Floats:
        """The latency of every stage of the block."""
        for mask in self._part.space.stages.tolist():
            self._latency(self._part.stage(self._graph, mask, self._part.occurrences[0]))
        return self.latencies

    def _latency(self, stage: Stage) -> float:
        index = self._index[sum(self._bit[name] for name in stage.units)]
        if math.isnan(self.latencies[index]):
            plan = lower(StageSchedule("stage", (stage,)), self._block, 1)
            self.latencies[index] = self._device.latency_ms(self._block, plan)
        return float(self.latencies[index])


def searched(
    graph: Graph, part: Part, oracle: BlockOracle, guide: Guide
) -> tuple[Search, float, float]:
    """The search of IOS-Parallel, once it has ended, its best latency in ms, and its CPU time in
    seconds, with that of simulating what was not known."""
    division = Division((Part(part.space, part.occurrences[:1]),), ((0, part.occurrences[0]),), ())
    search = Search(graph, division, oracle, strategies="parallel")
    started = time.process_time()
    search.run(guide, BATCH, None, ignore_progress)
    seconds = time.process_time() - started
    return search, search.parts[0].standing.best.latency_ms, seconds


def optimum(graph: Graph, part: Part, oracle: BlockOracle, enumerate_all: bool) -> dict[str, Any]:
    """What the search is compared with, and how that was found."""
    if enumerate_all:
        latency = solve(part.space, oracle.every_latency()).latency_ms
        return {"compared_with": "exhaustive", "reference_ms": round(latency, 8)}
    search, latency, _ = searched(graph, part, oracle, Exact())
    known = search.parts[0]
    return {
        "compared_with": "exact",
        "reference_ms": round(latency, 8),
        "reference_measured": int((~known.unmeasured()).sum()),
        "reference_bound_ms": round(known.standing.bound_ms, 5),
        "floors_contradicted": known.floors.violations,
    }


def errors(part: Part, expected: Floats, latencies: Floats) -> dict[str, float]:
    """Root mean square of the model's relative errors, over all stages and over those that may be
    part of a schedule within 2 % of the optimum."""
    space = part.space
    cost, to_go = costs(space, latencies), costs_to_go(space, latencies)
    good = around_stages(space, cost, to_go) + latencies <= 1.02 * cost[-1]
    off = expected / latencies - 1
    return {
        "error_all": round(float(np.sqrt(np.mean(off**2))), 4),
        "error_good": round(float(np.sqrt(np.mean(off[good] ** 2))), 4),
    }


def row(
    network: str, number: int, graph: Graph, part: Part, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """One block on one perturbed device."""
    stages = len(part.space.stages)
    kept = options.cache and options.cache / f"{network}_{number}_{seed}.npy"
    oracle = BlockOracle(graph, part, seed, kept)
    reference = optimum(graph, part, oracle, stages <= options.enumerate_up_to)
    oracle.keep()
    guide = Guided()
    search, best, seconds = searched(graph, part, oracle, guide)
    measured = int((~search.parts[0].unmeasured()).sum())
    exact = reference["reference_ms"]
    found: dict[str, Any] = {
        "network": network,
        "block": number,
        "units": part.space.units,
        "stages": stages,
        "seed": seed,
        "measured": measured,
        "share": round(measured / stages, 5),
        "simulated_ms": round(best, 5),
        **reference,
        "excess": round(best / exact - 1, 5),
        "within_target": bool(measured <= SHARE * stages and best <= (1 + EXCESS) * exact),
        "search_cpu_seconds": round(seconds, 2),
    }
    model = guide.model
    if model is not None and not np.isnan(oracle.latencies).any():
        found |= errors(part, model.expected(0), oracle.latencies)
    verdict = "met" if found["within_target"] else "MISSED"
    print(
        f"  {network:15} {number:3} {part.space.units:3} units {stages:7} stages  seed {seed}"
        f"  {measured:5} measured ({measured / stages:6.2%})  {best:8.4f} ms"
        f"  {found['excess']:+7.2%} of {found['compared_with']:10}  {verdict}",
        flush=True,
    )
    return found


def blocks(network: str) -> dict[int, Part]:
    """The blocks that occur, by number, largest search space first."""
    parts = divide(at_batch(network, 1), Pruning(3, 8), "paper", MOST_TRANSITIONS).parts
    order = sorted(range(len(parts)), key=lambda number: (-len(parts[number].space.stages), number))
    return {number: parts[number] for number in order if parts[number].space.units > 4}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--blocks", nargs="*", default=[], metavar="NETWORK[:NUMBER[:SEEDS]]")
    parser.add_argument("--enumerate-up-to", type=int, default=20_000, metavar="STAGES")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    taken_on = machine()
    rows = []
    print("all latencies are simulated")
    for chosen in options.blocks or NETWORKS:
        network, number, seeds = (*chosen.split(":"), "", "")[:3]
        graph, found = at_batch(network, 1), blocks(network)
        block = int(number or next(iter(found)))
        rows += [
            row(network, block, graph, found[block], seed, options)
            for seed in range(int(seeds or options.seeds))
        ]
    report = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": taken_on,
        "simulator": SimDevice("v100").facts.versions["simulator"],
        "target": {"share": SHARE, "excess": EXCESS},
        "rows": rows,
    }
    if options.output:
        options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
