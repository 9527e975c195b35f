"""Schedules on simulated GPUs, each found once, and how long a network takes with them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from networks import at_batch
from torch import Tensor

from workers.devices.sim.device import SimDevice
from workers.devices.sim.launch_path import Issue
from workers.graph.blocks import blocks
from workers.graph.graph import Graph
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.schedulers.base import Scheduler
from workers.schedulers.greedy import GreedyScheduler
from workers.schedulers.ios import IosScheduler
from workers.schedulers.ios.options import Strategies
from workers.schedulers.ios.scheduler import Mode
from workers.schedulers.sequential import SequentialScheduler
from workers.schedules.lower import lower
from workers.schedules.merge import merge_graph
from workers.schedules.mergeable import families
from workers.schedules.schedule import StageSchedule

MODES: dict[str, Mode] = {"nasnet_a_large": "exact", "randwire": "guided"}
"""How networks are searched that are too large to measure all of their stages: that takes IOS an
hour, and a simulator not much less. All others exhaustively, as IOS does."""

STRATEGIES: dict[str, Strategies] = {
    "IOS-Merge": "merge",
    "IOS-Parallel": "parallel",
    "IOS-Both": "both",
}


@dataclass(frozen=True)
class Wanted:
    """One search: ``kind`` of ``ios_published.SCHEDULES``, ``r`` and ``s`` of P(r, s)."""

    network: str
    batch: int = 1
    gpu: str = "v100"
    kind: str = "IOS-Both"
    r: int = 3
    s: int = 8
    issue: Issue = "streams"


@dataclass(frozen=True)
class Found:
    """A schedule and what finding it took. ``bound_ms``: no schedule is faster, stage by stage."""

    schedule: StageSchedule
    mode: Mode
    predicted_ms: float | None
    bound_ms: float | None
    stages_measured: int
    stages_total: int
    cpu_seconds: float

    def facts(self) -> dict[str, Any]:
        """How many stages the schedule has, by kind, and what the search asked for."""
        stages = self.schedule.stages
        return {
            "stages": len(stages),
            "stages_of_several_groups": sum(
                len(stage.groups) > 1 and stage.strategy == "concurrent" for stage in stages
            ),
            "stages_merged": sum(stage.strategy == "merge" for stage in stages),
            "mode": self.mode,
            "predicted_ms": self.predicted_ms,
            "bound_ms": self.bound_ms,
            "stages_measured": self.stages_measured,
            "stages_distinct": self.stages_total,
            "cpu_seconds": round(self.cpu_seconds, 2),
        }


class Searches:
    """Remembers schedules and, as a job does, every stage that was simulated. ``large`` is how
    large networks are searched instead of as in MODES."""

    def __init__(self, large: Mode | None = None) -> None:
        self.large = large
        self._index = MemoryIndex()
        self._devices: dict[tuple[str, Issue], SimDevice] = {}
        self._found: dict[Wanted, Found] = {}

    def found(self, wanted: Wanted) -> Found:
        if wanted not in self._found:
            self._found[wanted] = self._search(wanted)
        return self._found[wanted]

    def schedule(self, wanted: Wanted) -> StageSchedule:
        return self.found(wanted).schedule

    def latency(
        self,
        graph: Graph,
        schedule: StageSchedule,
        gpu: str = "v100",
        issue: Issue = "streams",
        barriers: bool = True,
    ) -> float:
        """Simulated ms of the schedule as one Plan; it may cover a part of the graph."""
        merged = merge_graph(replace(schedule, barriers=barriers), graph)
        device = self.device(gpu, issue)
        plan = lower(merged.schedule, merged.graph, device.facts.parallelism)
        return device.latency_ms(merged.graph, plan)

    def latency_of(self, wanted: Wanted, barriers: bool = True) -> float:
        return self.latency(
            at_batch(wanted.network, wanted.batch),
            self.schedule(wanted),
            wanted.gpu,
            wanted.issue,
            barriers,
        )

    def synchronised(self, graph: Graph, schedule: StageSchedule, gpu: str = "v100") -> float:
        """Simulated ms if the CPU waits for the whole GPU wherever IOS's engine does: between two
        stages of which one has several groups (``Graph::forward`` in its ``ios_runtime.cu``)."""
        groups = [
            1 if stage.strategy == "merge" else len(stage.groups) for stage in schedule.stages
        ]
        total, start = 0.0, 0
        for end in range(1, len(groups) + 1):
            if end == len(groups) or max(groups[end - 1 : end + 1]) > 1:
                part = replace(schedule, stages=schedule.stages[start:end])
                total += self.latency(graph, part, gpu)
                start = end
        return total

    def synchronised_of(self, wanted: Wanted) -> float:
        graph = at_batch(wanted.network, wanted.batch)
        return self.synchronised(graph, self.schedule(wanted), wanted.gpu)

    def device(self, gpu: str, issue: Issue) -> SimDevice:
        if (gpu, issue) not in self._devices:
            self._devices[gpu, issue] = SimDevice(gpu, issue)
        return self._devices[gpu, issue]

    def _search(self, wanted: Wanted) -> Found:
        graph = at_batch(wanted.network, wanted.batch)
        if wanted.kind == "IOS-Both" and not _merges(graph):
            return self.found(replace(wanted, kind="IOS-Parallel"))
        device = self.device(wanted.gpu, wanted.issue)
        oracle = MeasuringOracle(graph, _weights(graph), device, self._index)
        started = time.process_time()
        result = self._scheduler(wanted).schedule(graph, oracle)
        seconds = time.process_time() - started
        if not isinstance(result.schedule, StageSchedule):
            raise TypeError(f"{wanted.kind} has no stages")
        return Found(
            result.schedule,
            self._mode(wanted),
            result.predicted_ms,
            result.bound_ms,
            result.stages_measured,
            result.stages_total,
            seconds,
        )

    def _mode(self, wanted: Wanted) -> Mode:
        mode = MODES.get(wanted.network)
        return "exhaustive" if mode is None else self.large or mode

    def _scheduler(self, wanted: Wanted) -> Scheduler:
        if wanted.kind == "sequential":
            return SequentialScheduler()
        if wanted.kind == "greedy":
            return GreedyScheduler()
        return IosScheduler(
            max_units_per_group=wanted.r,
            max_groups_per_stage=wanted.s,
            strategies=STRATEGIES[wanted.kind],
            mode=self._mode(wanted),
        )


def _merges(graph: Graph) -> bool:
    """Whether two Units of a block may be merged; if not, IOS-Both searches what IOS-Parallel
    does."""
    return any(
        families(graph, [graph.units[position].name for position in block.positions])
        for block in blocks(graph)
    )


def _weights(graph: Graph) -> dict[str, Tensor]:
    """Weights without values: a simulator reads none, but merging makes new ones of them."""
    return {
        name: torch.empty(
            graph.values[name].shape,
            dtype=getattr(torch, graph.values[name].dtype),
            device="meta",
        )
        for name in graph.weights
    }
