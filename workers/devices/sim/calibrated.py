"""A real GPU's whole Plans, estimated from kernels that were profiled on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workers.devices.base import DeviceError
from workers.devices.sim.arithmetic import memory_of
from workers.devices.sim.jobs import jobs_of
from workers.devices.sim.latencies import Latencies
from workers.devices.sim.launch_path import PATHS
from workers.devices.sim.recorded_kernels import recorded_kernels
from workers.graph.graph import Graph
from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel
from workers.schedules.plan import Plan

Profiles = Mapping[str, tuple[Kernel, ...]]
"""The kernels of every Unit by its name."""


class CalibratedGpu:
    """Simulates Plans of one graph on ``gpu`` as CUDA Graphs, with each Unit's kernels as they were
    profiled, for each provider that Plans may name: alone they take their profiled time, side by
    side what the simulator makes of their footprint. An *estimate*, for searches.

    Raises DeviceError for a GPU of a generation that the simulator has no numbers of, and for
    profiles that cannot be simulated.
    """

    def __init__(
        self, gpu: GpuFacts, graph: Graph, profiles: Mapping[str | None, Profiles]
    ) -> None:
        try:
            self._engine = Latencies(gpu, memory_of(gpu), PATHS["graph"])
        except KeyError as error:
            major = gpu.compute_capability[0]
            raise DeviceError(
                f"the simulator knows no GPU of compute capability {major}.x, such as {gpu.name}"
            ) from error
        try:
            self._kernels = {
                (unit.name, provider): recorded_kernels(gpu, unit, found[unit.name])
                for provider, found in profiles.items()
                for unit in graph.units
            }
        except ValueError as error:
            raise DeviceError(f"a profile cannot be simulated: {error}") from error

    def latencies_ms(self, plans: Sequence[Plan]) -> list[float]:
        """What each Plan is expected to take."""
        jobs = [
            jobs_of(
                plan.launches,
                [self._kernels[launch.unit, launch.provider] for launch in plan.launches],
            )
            for plan in plans
        ]
        return [seconds * 1e3 for seconds in self._engine.of(jobs)]
