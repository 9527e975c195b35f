"""A device whose latencies are made up, for what measures and compares. It runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from workers.devices.base import (
    Device,
    DeviceError,
    DeviceFacts,
    Executable,
    MemoryUse,
    Timeline,
)
from workers.graph.graph import Graph
from workers.hardware.kernel import Kernel
from workers.schedules.plan import Plan


class ScriptedExecutable(Executable):
    """Each run takes what ``latency`` says for its number, counted from 0."""

    def __init__(self, latency: Callable[[int], float]) -> None:
        self._latency = latency
        self.runs = 0
        self.closed = False

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        raise DeviceError("it only keeps time")

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        self.runs += repeats
        return [self._latency(number) for number in range(self.runs - repeats, self.runs)]

    def values(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        raise DeviceError("it only keeps time")

    def timeline(self, inputs: Mapping[str, Tensor]) -> Timeline:
        return Timeline(())

    def profile(self, inputs: Mapping[str, Tensor]) -> tuple[Kernel, ...]:
        return ()

    def memory(self, inputs: Mapping[str, Tensor]) -> MemoryUse:
        return MemoryUse(0, 0)

    def cancel(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        self.closed = True


class ScriptedDevice(Device):
    """Prepares a ScriptedExecutable for each Plan; ``latency`` may raise DeviceError."""

    def __init__(self, latency: Callable[[Graph, Plan], float]) -> None:
        self._latency = latency
        self.prepared: list[ScriptedExecutable] = []

    @property
    def facts(self) -> DeviceFacts:
        return DeviceFacts("sim:test", "sim", "scripted", "sim-1", 2, 1, {}, simulated=True)

    def prepare(
        self,
        graph: Graph,
        weights: Mapping[str, Tensor],
        plan: Plan,
        provider: str = "aten",
    ) -> Executable:
        self.prepared.append(ScriptedExecutable(lambda _: self._latency(graph, plan)))
        return self.prepared[-1]

    def close(self) -> None:
        """There is nothing to free."""
