"""Candidates of the schedulers, stages and whole Plans, for the measuring processes: so that every
oracle may be served by DOPpler."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from workers.devices import open_device
from workers.devices.base import Device, DeviceError, Executable, Surroundings
from workers.graph.graph import Graph
from workers.measure.effort import never
from workers.measure.layouts import Layout
from workers.measure.measurement import Failure, Measurement, Round
from workers.measure.parallel.rounds import ParallelRound, SubjectMeasurer, device_latency
from workers.measure.parallel.subject import Bench, Reading, Run, SubjectError
from workers.measure.serial import Batch, Candidate, Taken, failure_of, ignore_measurement
from workers.schedules.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor


def load() -> None:
    """Load PyTorch, for processes that will measure Plans."""
    import torch  # noqa: F401, PLC0415  # takes seconds


@dataclass(frozen=True)
class PlanSubject:
    """A ``serial.Candidate`` that can be sent to another process: its weights are files, which are
    mapped into memory there, and not copied. ``seed`` is that of its random inputs."""

    graph: Graph
    weights: Mapping[str, Path]
    plan: Plan
    provider: str
    layouts: Mapping[str, Layout]
    surroundings: Surroundings | None
    seed: int

    @contextmanager
    def open(self, device: str) -> Iterator[Bench]:
        candidate = Candidate(
            self.graph,
            {name: _tensor(path) for name, path in self.weights.items()},
            self.plan,
            self.provider,
            self.layouts,
            self.surroundings,
        )
        opened = _device(device)
        try:
            with opened.prepare(
                candidate.graph, candidate.weights, candidate.plan, candidate.provider
            ) as executable:
                yield PlanBench(executable, candidate.inputs(self.seed), self.surroundings)
        except DeviceError as error:
            raise SubjectError(failure_of(error), str(error)) from error


class PlanBench:
    """A Plan that is ready on its device. Outputs are not checked: every schedule that is delivered
    is held against the original model (``workers.measure.verify``)."""

    def __init__(
        self,
        executable: Executable,
        inputs: Mapping[str, Tensor],
        surroundings: Surroundings | None,
    ) -> None:
        self._executable, self._inputs, self._surroundings = executable, inputs, surroundings
        self._share = 1.0

    def check(self) -> None:
        """Find out what part of a run is timed, where something runs before it."""
        if self._surroundings is None:
            self._executable.time(self._inputs, 1)
            return
        start = time.perf_counter()
        (timed_ms,) = self._executable.time_within(self._inputs, 1, self._surroundings)
        self._share = timed_ms / max((time.perf_counter() - start) * 1e3, timed_ms)

    def time(self, repeats: int) -> list[Run]:
        """By one clock: a device that runs Plans has none that leaves out what others did, which
        the Calibrator finds. What is timed as a part of a whole runs less often, but at least
        twice, so that all of it takes no longer."""
        if self._surroundings is None:
            latencies = self._executable.time(self._inputs, repeats)
        else:
            fewer = min(repeats, max(2, math.ceil(repeats * self._share)))
            latencies = self._executable.time_within(self._inputs, fewer, self._surroundings)
        return [Run(latency, latency) for latency in latencies]


@dataclass
class ParallelPlanMeasurer:
    """A ``serial.Measurer`` for candidates of one device by the processes of ``measurer``. Weights
    are written into ``folder``, each once. Not for simulated devices, which compute."""

    measurer: SubjectMeasurer
    folder: Path
    seed: int = 0
    _written: dict[int, tuple[Tensor, Path]] = field(default_factory=dict, init=False)

    def measure(
        self,
        candidates: Sequence[Candidate],
        expired: Callable[[], bool] = never,
        taken: Taken = ignore_measurement,
    ) -> Batch:
        subjects = [self._subject(candidate) for candidate in candidates]
        measurements: list[Measurement] = []
        rounds: list[Round] = []

        def told(found: ParallelRound) -> None:
            rounds.append(_round(found))
            for measurement in _measurements(found):
                measurements.append(measurement)
                taken(len(measurements) - 1, measurement)

        self.measurer.measure(subjects, told, expired)
        left = len(candidates) - len(measurements)
        measurements += [Measurement.failed(Failure.BUDGET, "budget")] * left
        return Batch(tuple(measurements), tuple(rounds))

    def _subject(self, candidate: Candidate) -> PlanSubject:
        needed = [name for name in candidate.graph.weights if name in candidate.weights]
        return PlanSubject(
            candidate.graph,
            {name: self._file(candidate.weights[name]) for name in needed},
            candidate.plan,
            candidate.provider,
            dict(candidate.layouts),
            candidate.surroundings,
            self.seed,
        )

    def _file(self, tensor: Tensor) -> Path:
        from safetensors.torch import save_file  # noqa: PLC0415  # torch only where it is used

        # The tensor is kept, so that its identity is not another's later on.
        if id(tensor) not in self._written:
            path = self.folder / f"weight_{len(self._written)}.safetensors"
            save_file({"weight": tensor.detach().contiguous()}, path)
            self._written[id(tensor)] = tensor, path
        return self._written[id(tensor)][1]


def _measurements(found: ParallelRound) -> list[Measurement]:
    """With intervals from the runs behind each: those in isolation, or else those beside others,
    scaled as the Calibrator did."""
    readings: dict[int, Reading] = {}
    for outcome in found.outcomes:
        if outcome.reading is not None:
            readings[outcome.position] = outcome.reading
    measurements = []
    for place, one in enumerate(found.taken):
        if one.failure is not None:
            measurements.append(Measurement.failed(one.failure, one.reason))
            continue
        reading = readings[place]
        scale = one.latency_ms / device_latency(reading)
        latencies = [run.device_ms * scale for run in reading.runs]
        measurements.append(Measurement.of(latencies, simulated=False))
    return measurements


def _round(found: ParallelRound) -> Round:
    timeouts = sum(outcome.failure is Failure.TIMEOUT for outcome in found.outcomes)
    return Round(
        number=found.number,
        degree_of_parallelism=found.degree_of_parallelism,
        candidates=len(found.taken),
        timeout_s=found.timeout_s,
        failures=sum(one.failure is not None for one in found.taken),
        timeouts=timeouts,
        outliers=found.outliers,
        remeasured=found.remeasured,
        mean_deviation=0.0 if math.isnan(found.delta_mean) else found.delta_mean,
        duration_s=found.duration_s,
    )


@cache
def _device(name: str) -> Device:
    """Opened once in a process, which ends with it."""
    return open_device(name)


@cache
def _tensor(path: Path) -> Tensor:
    from safetensors.torch import load_file  # noqa: PLC0415  # torch only where it is used

    return load_file(path)["weight"]
