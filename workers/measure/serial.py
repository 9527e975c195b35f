"""The serial measurer: one candidate at a time, alone on the device."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

import torch
from torch import Tensor

from workers.devices.base import Device, DeviceError, Executable, Surroundings
from workers.graph.graph import Graph
from workers.graph.random_inputs import random_inputs
from workers.measure.effort import USUAL, Effort, never
from workers.measure.layouts import Layout, laid_out
from workers.measure.measurement import Failure, Measurement, Round
from workers.measure.statistics import median
from workers.schedules.plan import Plan


@dataclass(frozen=True)
class Candidate:
    """What to measure: a Plan of a Graph with its weights, run with the kernels of ``provider`` on
    inputs of which those named in ``layouts`` are not contiguous (``workers.measure.layouts``).
    With ``surroundings`` it is a part of a model and timed as within the whole
    (``workers.measure.surroundings``)."""

    graph: Graph
    weights: Mapping[str, Tensor]
    plan: Plan
    provider: str = "aten"
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    surroundings: Surroundings | None = None

    def inputs(self, seed: int) -> dict[str, Tensor]:
        """Random inputs, each with its layout."""
        return {
            name: laid_out(tensor, self.layouts[name]) if name in self.layouts else tensor
            for name, tensor in random_inputs(self.graph, seed).items()
        }


@dataclass(frozen=True, slots=True)
class Batch:
    """Measurements in the order of their candidates, and the rounds that took them."""

    measurements: tuple[Measurement, ...]
    rounds: tuple[Round, ...]


Taken = Callable[[int, Measurement], None]


class Timed(Protocol):
    """What can be timed: an Executable, or a program of somebody else's."""

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        """Run ``repeats`` times back to back; the latency of each run in ms. No warm-up."""
        ...


class Measurer(Protocol):
    """Takes a batch of candidates and gives their latencies back."""

    def measure(
        self,
        candidates: Sequence[Candidate],
        expired: Callable[[], bool] = ...,
        taken: Taken = ...,
    ) -> Batch:
        """Measure each candidate; those left when ``expired`` turns true fail with BUDGET.

        ``taken`` is told of every other measurement at once, by the candidate's position, so that
        a process that dies in the middle of a batch loses none that it has finished.
        """
        ...


def ignore_measurement(position: int, measurement: Measurement) -> None:
    """Told of measurements, does nothing with them."""


AT_ONCE = 64
"""So many computed latencies are asked for together, and between two looks at the clock."""


@dataclass
class SerialMeasurer:
    """Measures on ``device``, with random inputs from ``seed``. Failures are measurements."""

    device: Device
    effort: Effort = USUAL
    seed: int = 0
    _rounds: int = field(default=0, init=False)

    def measure(
        self,
        candidates: Sequence[Candidate],
        expired: Callable[[], bool] = never,
        taken: Taken = ignore_measurement,
    ) -> Batch:
        start = time.perf_counter()
        measurements: list[Measurement] = []
        while len(measurements) < len(candidates):
            if expired():
                measurements.append(Measurement.failed(Failure.BUDGET, "budget"))
                continue
            for found in self._next(candidates[len(measurements) :][:AT_ONCE]):
                measurements.append(found)
                taken(len(measurements) - 1, found)
        self._rounds += 1
        taken_by = Round(
            number=self._rounds,
            degree_of_parallelism=1,
            candidates=sum(m.failure is not Failure.BUDGET for m in measurements),
            timeout_s=0.0,
            failures=sum(m.failure not in (None, Failure.BUDGET) for m in measurements),
            timeouts=0,
            outliers=0,  # nothing ran beside a candidate that could have disturbed it
            remeasured=0,
            mean_deviation=0.0,
            duration_s=time.perf_counter() - start,
        )
        return Batch(tuple(measurements), (taken_by,))

    def _next(self, candidates: Sequence[Candidate]) -> Sequence[Measurement]:
        """Of the first; where latencies are computed, of all up to one of another graph."""
        graph = candidates[0].graph
        plans = [found.plan for found in takewhile(lambda one: one.graph is graph, candidates)]
        try:
            computed = self.device.latencies_ms(graph, plans)
        except DeviceError:
            computed = None  # the first may not be the one that has no latency
        if computed is None:
            return [self._measure(candidates[0])]
        return [_computed(latency) for latency in computed]

    def _measure(self, candidate: Candidate) -> Measurement:
        try:
            computed = self.device.latency_ms(candidate.graph, candidate.plan)
            if computed is not None:
                return _computed(computed)
            with self.device.prepare(
                candidate.graph, candidate.weights, candidate.plan, candidate.provider
            ) as executable:
                latencies = self._time(executable, candidate)
        except DeviceError as error:
            return Measurement.failed(failure_of(error), str(error))
        return Measurement.of(latencies, simulated=self.device.facts.simulated)

    def _time(self, executable: Executable, candidate: Candidate) -> list[float]:
        inputs = candidate.inputs(self.seed)
        latency = warm_up(executable, inputs, self.effort.warm_up_ms)
        if candidate.surroundings is None:
            return executable.time(inputs, self.effort.repeats(latency))
        start = time.perf_counter()
        executable.time_within(inputs, 1, candidate.surroundings)
        taken = (time.perf_counter() - start) * 1e3
        return executable.time_within(inputs, self.effort.repeats(taken), candidate.surroundings)


def _computed(latency_ms: float) -> Measurement:
    return Measurement(latency_ms, latency_ms, latency_ms, samples=1, simulated=True)


def warm_up(executable: Timed, inputs: Mapping[str, Tensor], limit_ms: float) -> float:
    """Run until the latency no longer falls: the median of the last three runs is not 3 % below
    that of the three before them, so that one quick or slow run decides nothing. Ends in any case
    when the runs took ``limit_ms`` together. Returns the median of the last three in ms."""
    latencies: list[float] = []
    while math.fsum(latencies) < limit_ms:
        latencies += executable.time(inputs, 1)
        if len(latencies) >= 6 and median(latencies[-3:]) >= 0.97 * median(latencies[-6:-3]):
            break
    return median(latencies[-3:])


def failure_of(error: DeviceError) -> Failure:
    """Out of memory has its own kind; ATen's CPU allocator reports it as a plain RuntimeError."""
    cause = error.__cause__
    if isinstance(cause, (MemoryError, torch.OutOfMemoryError)):
        return Failure.OUT_OF_MEMORY
    if isinstance(cause, RuntimeError) and "can't allocate memory" in str(cause):
        return Failure.OUT_OF_MEMORY
    return Failure.LAUNCH
