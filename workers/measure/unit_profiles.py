"""What kernels each Unit launches, from one profiled inference (Opara, Section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workers.devices.base import Device
from workers.graph.graph import Graph
from workers.graph.random_inputs import random_inputs
from workers.hardware.kernel import Kernel
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage, StageSchedule

if TYPE_CHECKING:
    from torch import Tensor

WARM_UP = 2
"""Inferences before the one that is profiled: the first ones load code and choose algorithms."""


def profile_units(
    device: Device, graph: Graph, weights: Mapping[str, Tensor], provider: str, seed: int = 0
) -> dict[str, tuple[Kernel, ...]]:
    """The kernels of every Unit of ``graph`` by the Unit's name, run one after the other.

    Raises DeviceError if the device cannot run the graph.
    """
    one_by_one = StageSchedule("profile", tuple(Stage(((unit.name,),)) for unit in graph.units))
    plan = lower(one_by_one, graph, device.facts.parallelism)
    found: dict[str, list[Kernel]] = {unit.name: [] for unit in graph.units}
    inputs = random_inputs(graph, seed)
    with device.prepare(graph, weights, plan, provider) as executable:
        if not device.facts.simulated:
            executable.time(inputs, WARM_UP)
        for kernel in executable.profile(inputs):
            found[kernel.unit].append(kernel)
    return {unit: tuple(kernels) for unit, kernels in found.items()}
