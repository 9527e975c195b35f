"""A device that counts as real, and on which how a stage is prepared decides how fast it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from support.fake_device import ScriptedDevice
from torch import Tensor

from workers.devices.base import DeviceError, DeviceFacts, Executable
from workers.graph.graph import Graph
from workers.schedules.plan import Plan


class NoisyDevice(ScriptedDevice):
    """Takes a Plan's number of launches in ms, times what ``luck`` draws when it is prepared: the
    standard deviation of a logarithm. ``order`` has the Units of every stage that was prepared;
    whole models are run once, too, for the layouts of their values. From the stage after
    ``break_after`` on it is out of memory."""

    def __init__(self, luck: float = 0.0, seed: int = 0) -> None:
        super().__init__(self._drawn)
        self._luck, self._random = luck, np.random.default_rng(seed)
        self.order: list[tuple[str, ...]] = []
        self.break_after = math.inf
        self.factors: list[float] = []

    @property
    def facts(self) -> DeviceFacts:
        return replace(super().facts, simulated=False)

    def prepare(
        self,
        graph: Graph,
        weights: Mapping[str, Tensor],
        plan: Plan,
        provider: str = "aten",
    ) -> Executable:
        if "[" in graph.name:  # a part of a model (``subgraph``)
            self.order.append(tuple(launch.unit for launch in plan.launches))
            if len(self.order) > self.break_after:
                raise DeviceError("unit 'u0' failed") from MemoryError()
        self.factors.append(math.exp(self._luck * self._random.standard_normal()))
        return super().prepare(graph, weights, plan, provider)

    def _drawn(self, graph: Graph, plan: Plan) -> float:
        return len(plan.launches) * self.factors[-1]
