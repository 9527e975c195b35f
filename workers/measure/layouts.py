"""How values lie in memory where a stage really runs.

A stage is measured alone, on random inputs, and how quick it is depends on how these lie: kernels
that keep values channels last make the next one quick, and must rearrange what is channels first.
So the inputs are laid out as the whole model leaves them when it runs with the same kernels.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from workers.devices.base import Device, DeviceError
from workers.graph.graph import Graph
from workers.graph.random_inputs import random_inputs
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage, StageSchedule

Layout = tuple[int, ...]
"""A tensor's dimensions in the order in which they lie in memory, the outermost first."""


def layout_of(tensor: Tensor) -> Layout | None:
    """The layout of a tensor that is dense, but not contiguous; None for any other."""
    if tensor.is_contiguous():
        return None
    strides = tensor.stride()
    order = tuple(sorted(range(tensor.dim()), key=lambda d: (-strides[d], -tensor.shape[d], d)))
    return order if tensor.permute(order).is_contiguous() else None


def laid_out(tensor: Tensor, layout: Layout) -> Tensor:
    """A copy of ``tensor`` with that layout and the same shape."""
    back = [0] * len(layout)
    for place, dimension in enumerate(layout):
        back[dimension] = place
    return tensor.permute(layout).contiguous().permute(back)


def read_layouts(
    device: Device, graph: Graph, weights: Mapping[str, Tensor], provider: str
) -> dict[str, Layout]:
    """The layouts of all values that are not simply contiguous, from one sequential run of the
    whole graph. None are known where time is simulated, or the graph cannot run as a whole."""
    if device.facts.simulated:
        return {}
    one_by_one = StageSchedule("layouts", tuple(Stage(((unit.name,),)) for unit in graph.units))
    try:
        plan = lower(one_by_one, graph, device.facts.parallelism)
        with device.prepare(graph, weights, plan, provider) as executable:
            made = executable.values(random_inputs(graph, 0))
    except DeviceError:
        return {}
    found = {name: layout_of(tensor) for name, tensor in made.items()}
    return {name: layout for name, layout in found.items() if layout is not None}
