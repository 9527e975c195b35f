"""A Plan made ready on a simulated GPU: its time is simulated, its values are computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from threading import Event, Lock
from typing import TYPE_CHECKING

from workers.devices.base import (
    CancelledError,
    DeviceError,
    Executable,
    MemoryUse,
    Span,
    Timeline,
    Waited,
)
from workers.devices.checks import check_inputs
from workers.devices.sim.engine import SimRun
from workers.devices.sim.kernel import SimKernel
from workers.devices.sim.values import PlanRunner, check_weights, peak_bytes
from workers.graph.graph import Graph
from workers.hardware.kernel import Kernel
from workers.schedules.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class SimExecutable(Executable):
    """``simulate`` runs the simulation, which is done once, when it is first asked for; ``kernels``
    are those of each launch. ``closed`` says whether the device is.

    Times need no tensors: a Plan can be timed without weights, ``run`` and ``values`` need them.
    """

    def __init__(
        self,
        graph: Graph,
        weights: Mapping[str, Tensor],
        plan: Plan,
        kernels: Sequence[tuple[SimKernel, ...]],
        simulate: Callable[[], SimRun],
        closed: Callable[[], bool],
    ) -> None:
        self._graph, self._plan, self._kernels = graph, plan, kernels
        self._weights: Mapping[str, Tensor] = weights
        self._simulate, self._device_closed = simulate, closed
        self._lock = Lock()
        self._cancelled = Event()
        self._running = False
        self._closed = False

    @cached_property
    def _simulated(self) -> SimRun:
        return self._simulate()

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return self._compute(inputs, keep=False, names=self._graph.outputs)

    def values(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        names = tuple(name for unit in self._graph.units for name in unit.outputs)
        return self._compute(inputs, keep=True, names=names)

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        self._check(inputs)
        return [self._simulated.latency_s * 1e3] * repeats

    def timeline(self, inputs: Mapping[str, Tensor]) -> Timeline:
        self._check(inputs)
        run = self._simulated
        # As on other devices, time starts with the first Unit, not with the call that launches it.
        origin = min((job.start_s for job in run.jobs), default=0.0)
        spans = [
            Span(
                unit=launch.unit,
                kind=self._graph.unit(launch.unit).kind,
                stream=launch.stream,
                start_ms=(job.start_s - origin) * 1e3,
                end_ms=(job.end_s - origin) * 1e3,
                waited=tuple(Waited(reason, seconds * 1e3) for reason, seconds in job.waited),
            )
            for launch, job in zip(self._plan.launches, run.jobs, strict=True)
        ]
        return Timeline(
            tuple(sorted(spans, key=lambda span: span.start_ms)),
            tuple(((time - origin) * 1e3, warps) for time, warps in run.warps if time >= origin),
        )

    def profile(self, inputs: Mapping[str, Tensor]) -> tuple[Kernel, ...]:
        self._check(inputs)
        found: list[tuple[float, int, Kernel]] = []
        for launch, kernels, job in zip(
            self._plan.launches, self._kernels, self._simulated.jobs, strict=True
        ):
            for kernel, (start, end) in zip(kernels, job.kernels, strict=False):
                grid, block = kernel.shape or ((kernel.grid, 1, 1), (kernel.block.threads, 1, 1))
                made = Kernel(
                    unit=launch.unit,
                    name=kernel.name,
                    duration_ms=(end - start) * 1e3,
                    grid=grid,
                    block=block,
                    registers_per_thread=kernel.block.registers_per_thread,
                    shared_memory_bytes=kernel.block.shared_memory_bytes,
                )
                found.append((start, len(found), made))
        return tuple(kernel for _, _, kernel in sorted(found, key=lambda item: item[:2]))

    def memory(self, inputs: Mapping[str, Tensor]) -> MemoryUse:
        self._check(inputs)
        weights = sum(self._graph.values[name].nbytes for name in self._graph.weights)
        spans = [(job.start_s, job.end_s) for job in self._simulated.jobs]
        return MemoryUse(weights, peak_bytes(self._plan, self._graph, spans))

    def cancel(self) -> None:
        if self._running:
            self._cancelled.set()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._weights = {}

    def _compute(
        self, inputs: Mapping[str, Tensor], keep: bool, names: Sequence[str]
    ) -> dict[str, Tensor]:
        with self._lock:
            self._check(inputs)
            missing = [name for name in self._graph.weights if name not in self._weights]
            if missing:
                raise DeviceError(
                    f"graph {self._graph.name!r} needs weight {missing[0]!r}, which is missing"
                )
            jobs = self._simulated.jobs
            order = sorted(range(len(jobs)), key=lambda number: (jobs[number].start_s, number))
            units = [self._plan.launches[number].unit for number in order]
            self._running = True
            try:
                return self._runner.run(inputs, units, names, keep, self._stop)
            finally:
                self._running = False
                self._cancelled.clear()

    @cached_property
    def _runner(self) -> PlanRunner:
        return PlanRunner(self._graph, self._weights)

    def _stop(self) -> None:
        if self._cancelled.is_set():
            raise CancelledError(f"the run of graph {self._graph.name!r} was cancelled")

    def _check(self, inputs: Mapping[str, Tensor]) -> None:
        if self._closed or self._device_closed():
            raise DeviceError(f"the executable of graph {self._graph.name!r} is closed")
        check_inputs(self._graph, inputs)
        check_weights(self._graph, self._weights)
