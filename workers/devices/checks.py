"""What every device refuses, in the same words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workers.devices.base import DeviceError, DeviceFacts
from workers.graph.graph import Graph
from workers.schedules.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor


def check_providers(facts: DeviceFacts, plan: Plan, default: str) -> None:
    """Raises DeviceError for a provider, ``default`` or one that the Plan names, whose kernels the
    device does not have."""
    for provider in {default, *plan.providers(default).values()}:
        if provider not in facts.providers:
            raise DeviceError(
                f"{facts.name} has no kernels of provider {provider!r}; known:"
                f" {', '.join(facts.providers)}"
            )


def check_inputs(graph: Graph, inputs: Mapping[str, Tensor]) -> None:
    """Raises DeviceError naming an input that is missing or of another shape or type."""
    for name in graph.inputs:
        if name not in inputs:
            raise DeviceError(f"input {name!r} of graph {graph.name!r} is missing")
        spec, given = graph.values[name], inputs[name]
        if tuple(given.shape) != spec.shape or str(given.dtype) != f"torch.{spec.dtype}":
            raise DeviceError(
                f"input {name!r} is {given.dtype} {tuple(given.shape)};"
                f" graph {graph.name!r} takes torch.{spec.dtype} {spec.shape}"
            )
