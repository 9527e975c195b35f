"""A simulated GPU as a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workers.devices.base import Device, DeviceError, DeviceFacts, Executable
from workers.devices.checks import check_providers
from workers.devices.recorded import unit_signature
from workers.devices.sim.arithmetic import memory_of
from workers.devices.sim.engine import Job, SimRun, simulate
from workers.devices.sim.executable import SimExecutable
from workers.devices.sim.facts import PREFIX, facts_of, recorded_profiles, spec_of
from workers.devices.sim.jobs import jobs_of
from workers.devices.sim.kernel import SimKernel
from workers.devices.sim.latencies import Latencies
from workers.devices.sim.launch_path import PATHS, Issue
from workers.devices.sim.recorded_kernels import recorded_kernels
from workers.devices.sim.units import kernels_of
from workers.graph.graph import Graph, TensorSpec, Unit
from workers.schedules.plan import Launch, Plan
from workers.schedules.validate import validate

if TYPE_CHECKING:
    from torch import Tensor

_MOST_CACHED = 100_000
"""Units whose kernels are kept, and Plans whose latency is; a search asks for the same ones again
and again."""


class SimDevice(Device):
    """``sim:NAME``: times are simulated, values computed on the CPU. ``issue`` says how launches
    reach the GPU: as one CUDA Graph, as the real device's, or one by one over streams."""

    def __init__(self, name: str, issue: Issue = "graph") -> None:
        short = name.removeprefix(PREFIX)
        spec = spec_of(short)
        self._facts = facts_of(short, issue)
        self._gpu, self._memory, self._path = spec.gpu, memory_of(spec.gpu), PATHS[issue]
        self._engine = Latencies(self._gpu, self._memory, self._path)
        # Those of the Units, by name, of the graph that was last asked many Plans of.
        self._of_graph: tuple[Graph, dict[str, tuple[SimKernel, ...]]] | None = None
        self._recorded = recorded_profiles(spec)
        self._kernels: dict[int, tuple[Unit, tuple[TensorSpec, ...], tuple[SimKernel, ...]]] = {}
        # Equal kernels have the same number: a Plan takes as long with those of another Unit.
        self._numbers: dict[int, tuple[tuple[SimKernel, ...], int]] = {}
        self._alike: dict[tuple[SimKernel, ...], int] = {}
        self._latencies: dict[tuple[object, ...], float] = {}
        self._closed = False

    @property
    def facts(self) -> DeviceFacts:
        return self._facts

    def prepare(
        self,
        graph: Graph,
        weights: Mapping[str, Tensor],
        plan: Plan,
        provider: str = "aten",
    ) -> Executable:
        if self._closed:
            raise DeviceError(f"device {self._facts.name!r} is closed; open it again")
        check_providers(self._facts, plan, provider)
        validate(plan, graph)
        kernels = self._kernels_of_all(graph, plan.launches)

        def run() -> SimRun:
            return self._simulate(plan, kernels)

        return SimExecutable(graph, weights, plan, kernels, run, lambda: self._closed)

    def latency_ms(self, graph: Graph, plan: Plan) -> float:
        return self._latencies_of(graph, [plan.launches])[0]

    def latencies_ms(self, graph: Graph, plans: Sequence[Plan]) -> Sequence[float]:
        if plans and (self._of_graph is None or self._of_graph[0] is not graph):
            self._of_graph = graph, {}
        return self._latencies_of(graph, [plan.launches for plan in plans])

    def _latencies_of(self, graph: Graph, plans: Sequence[Sequence[Launch]]) -> list[float]:
        """The latency in ms of each list of launches; equal ones are simulated once."""
        if self._closed:
            raise DeviceError(f"device {self._facts.name!r} is closed; open it again")
        if len(self._latencies) >= _MOST_CACHED:
            self._latencies.clear()
        keys = []
        fresh: dict[tuple[object, ...], list[Job]] = {}
        for launches in plans:
            kernels = self._kernels_of_all(graph, launches)
            key: tuple[object, ...] = tuple(
                [
                    (launch.stream, launch.waits, launch.records, self._number_of(found))
                    for launch, found in zip(launches, kernels, strict=True)
                ]
            )
            keys.append(key)
            if key not in self._latencies and key not in fresh:
                fresh[key] = jobs_of(launches, kernels)
        for key, latency_s in zip(fresh, self._engine.of([*fresh.values()]), strict=True):
            self._latencies[key] = latency_s * 1e3
        return [self._latencies[key] for key in keys]

    def close(self) -> None:
        self._closed = True
        self._kernels.clear()
        self._latencies.clear()
        self._of_graph = None

    def _simulate(self, plan: Plan, kernels: list[tuple[SimKernel, ...]]) -> SimRun:
        return simulate(self._gpu, self._memory, self._path, jobs_of(plan.launches, kernels))

    def _number_of(self, kernels: tuple[SimKernel, ...]) -> int:
        known = self._numbers.get(id(kernels))
        if known is None or known[0] is not kernels:
            if len(self._numbers) >= _MOST_CACHED:
                self._numbers.clear()
            known = kernels, self._alike.setdefault(kernels, len(self._alike))
            self._numbers[id(kernels)] = known
        return known[1]

    def _kernels_of_all(
        self, graph: Graph, launches: Sequence[Launch]
    ) -> list[tuple[SimKernel, ...]]:
        known: dict[str, tuple[SimKernel, ...]] = {}
        if self._of_graph is not None and self._of_graph[0] is graph:
            known = self._of_graph[1]
        for launch in launches:
            if launch.unit not in known:
                known[launch.unit] = self._kernels_of(graph, graph.index[launch.unit])
        return [known[launch.unit] for launch in launches]

    def _kernels_of(self, graph: Graph, position: int) -> tuple[SimKernel, ...]:
        """The Unit's kernels, found once for the same Unit with values of the same shapes."""
        unit = graph.units[position]
        specs = graph.specs((*unit.inputs, *unit.outputs))
        known = self._kernels.get(id(unit))
        if known is not None and known[0] is unit and known[1] == specs:
            return known[2]
        recorded = None
        if self._recorded.kernels:
            recorded = self._recorded.of(unit_signature(graph, position), unit.name)
        if recorded is not None:
            try:
                kernels = recorded_kernels(self._gpu, unit, recorded)
            except ValueError as error:
                raise DeviceError(
                    f"the recorded profile of unit {unit.name!r} is wrong: {error}; record it again"
                ) from error
        else:
            kernels = kernels_of(self._gpu, graph, unit)
        if len(self._kernels) >= _MOST_CACHED:
            self._kernels.clear()
        self._kernels[id(unit)] = (unit, specs, kernels)
        return kernels
