"""What the papers report of real GPUs, on simulated ones: trends; docs/simulator.md has numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
import torch

from workers import zoo
from workers.devices.sim.device import SimDevice
from workers.graph.graph import Graph
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise
from workers.schedulers.base import Scheduler, StageLatency
from workers.schedulers.greedy import GreedyScheduler
from workers.schedulers.ios import IosScheduler
from workers.schedulers.sequential import SequentialScheduler
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage, StageSchedule

pytestmark = pytest.mark.timeout(240)


@cache
def model(name: str) -> Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        program = zoo.program(name, 1)
    return optimise(*import_program(program, 1), merge_common=False)[0]


@cache
def at_batch(name: str, batch: int) -> Graph:
    """The model with every value's first dimension ``batch``: kernels follow from shapes."""
    graph = model(name)
    weights = set(graph.weights)
    return replace(
        graph,
        values={
            value: spec if value in weights else replace(spec, shape=(batch, *spec.shape[1:]))
            for value, spec in graph.values.items()
        },
    )


class StageOracle:
    """Asks a simulated device for stages."""

    parallelism = 1

    def __init__(self, device: SimDevice, graph: Graph) -> None:
        self._device, self._graph = device, graph

    def stage_latencies(self, stages: Sequence[Stage]) -> list[StageLatency]:
        return [
            StageLatency(
                self._device.latency_ms(
                    self._graph, lower(StageSchedule("stage", (stage,)), self._graph, 1)
                )
            )
            for stage in stages
        ]

    def recheck(self, stages: Sequence[Stage]) -> list[StageLatency]:
        return self.stage_latencies(stages)


def latency(name: str, gpu: str, scheduler: Scheduler, batch: int = 1) -> float:
    graph, device = at_batch(name, batch), SimDevice(gpu)
    schedule = scheduler.schedule(graph, StageOracle(device, graph)).schedule
    return device.latency_ms(graph, lower(schedule, graph, 1))


@cache
def gain(name: str, gpu: str, scheduler: Scheduler, batch: int = 1) -> float:
    """How many times as fast as one Unit after the other."""
    return latency(name, gpu, SequentialScheduler(), batch) / latency(name, gpu, scheduler, batch)


def test_gain_falls_with_the_batch_size() -> None:
    """IOS, Figure 11 and its authors' numbers (1.57, 1.18, 1.13, 1.09, 1.06); Opara, Figure 9."""
    gains = [gain("inception_v3", "v100", GreedyScheduler(), batch) for batch in (1, 8, 32, 128)]
    assert gains[0] > 1.3
    assert gains[0] > gains[1] + 0.2
    assert all(1 <= found < 1.1 for found in gains[1:])


def test_more_sms_more_gain() -> None:
    """IOS, Section 1: a high-end GPU runs many operators side by side, a low-end one cannot."""
    gains = [
        gain("inception_v3", gpu, GreedyScheduler())
        for gpu in ("k80", "rtx2080super", "v100", "h100")
    ]
    assert gains == sorted(gains)
    assert gains[-1] > gains[0] + 0.3


def test_ios_beats_greedy_and_sequential_schedules() -> None:
    """IOS, Figure 6, on a network whose branches differ (Section 1: contention and low
    utilisation of greedy stages)."""
    for gpu in ("v100", "k80"):
        ios, greedy = (
            gain("squeezenet", gpu, scheduler)
            for scheduler in (IosScheduler(strategies="parallel"), GreedyScheduler())
        )
        assert ios >= greedy * 0.999
        assert ios > 1.05


def test_schedules_are_for_the_device_that_they_were_found_on() -> None:
    """IOS, Table 3: what was found for another batch size is slower."""
    found = {}
    for batch in (1, 32):
        graph, device = at_batch("squeezenet", batch), SimDevice("v100")
        found[batch] = (
            IosScheduler(strategies="parallel").schedule(graph, StageOracle(device, graph)).schedule
        )
    for batch, other in ((1, 32), (32, 1)):
        graph, device = at_batch("squeezenet", batch), SimDevice("v100")
        own, foreign = (
            device.latency_ms(graph, lower(found[each], graph, 1)) for each in (batch, other)
        )
        assert own <= foreign * 1.01


def test_more_warps_are_resident_side_by_side() -> None:
    """IOS, Figure 8: 58 % more active warps on average than one operator after the other."""
    graph = at_batch("inception_v3", 1)
    mean = {}
    for scheduler in (SequentialScheduler(), GreedyScheduler()):
        device = SimDevice("v100")
        schedule = scheduler.schedule(graph, StageOracle(device, graph)).schedule
        with device.prepare(graph, {}, lower(schedule, graph, 1)) as executable:
            image = torch.zeros(graph.values[graph.inputs[0]].shape)
            steps = executable.timeline({graph.inputs[0]: image}).resident_warps
        total = sum(warps * (after - begin) for (begin, warps), (after, _) in pairwise(steps))
        mean[scheduler.name] = total / steps[-1][0]
    assert mean["greedy"] > 1.3 * mean["sequential"]


def test_a_cuda_graph_helps_small_kernels_most() -> None:
    """Opara, Section 2.1: launching kernels one by one costs more than running them."""
    graph = at_batch("squeezenet", 1)
    plan = lower(
        SequentialScheduler().schedule(graph, StageOracle(SimDevice("h100"), graph)).schedule,
        graph,
        1,
    )
    captured, launched, eager = (
        SimDevice("h100", issue).latency_ms(graph, plan) for issue in ("graph", "streams", "eager")
    )
    assert captured < launched < eager
