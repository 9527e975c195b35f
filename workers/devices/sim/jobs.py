"""What the engine runs and what it says of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.devices.sim.kernel import SimKernel
from workers.schedules.plan import Launch


@dataclass(frozen=True, slots=True)
class Job:
    """One launch of the Plan: the Unit's kernels one after the other on ``stream``, after the jobs
    ``after``, whose events it waits for. A Unit may have no kernel."""

    unit: str
    stream: int
    kernels: tuple[SimKernel, ...]
    after: tuple[int, ...] = ()
    records: bool = False


@dataclass(frozen=True, slots=True)
class JobRun:
    """When a job ran, in seconds from the start of the Plan, with (reason, seconds) of what it
    waited for since its stream was free, at ``free_s``. ``kernels`` are (start, end)."""

    start_s: float
    end_s: float
    free_s: float
    waited: tuple[tuple[str, float], ...]
    kernels: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class SimRun:
    """A simulated run: jobs in the Plan's order, latency, and steps (seconds, resident warps)."""

    jobs: tuple[JobRun, ...]
    latency_s: float
    warps: tuple[tuple[float, float], ...]


def jobs_of(launches: Sequence[Launch], kernels: Sequence[tuple[SimKernel, ...]]) -> list[Job]:
    """The jobs of a Plan's launches, each with its ``kernels``."""
    recorder = {
        launch.records: number
        for number, launch in enumerate(launches)
        if launch.records is not None
    }
    return [
        Job(
            unit=launch.unit,
            stream=launch.stream,
            kernels=found,
            after=tuple(recorder[event] for event in launch.waits),
            records=launch.records is not None,
        )
        for launch, found in zip(launches, kernels, strict=True)
    ]
