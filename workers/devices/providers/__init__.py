"""Who implements the operators of a Unit. A scheduler sees only Units; the job chooses."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from workers.devices.base import PROVIDERS, DeviceError, DeviceFacts
from workers.devices.providers.base import KernelProvider
from workers.graph.fused_json import kernels_to_json
from workers.graph.graph import Graph


def create(name: str, device: str = "cpu") -> KernelProvider:
    """The provider of that name for a device as torch calls it (``cpu``, ``cuda:0``), on which
    weights and inputs must lie. Raises DeviceError for an unknown name."""
    if name == "aten":
        from workers.devices.providers.aten import AtenProvider  # noqa: PLC0415  # torch when used

        return AtenProvider(device)
    if name == "inductor":
        from workers.devices.providers.inductor import InductorProvider  # noqa: PLC0415  # the same

        return InductorProvider(device)
    if name == "onnxruntime":
        from workers.devices.providers.onnx_runtime import (  # noqa: PLC0415  # the same
            OnnxRuntimeProvider,
        )

        return OnnxRuntimeProvider(device)
    raise DeviceError(f"no kernel provider {name!r}; known: {', '.join(PROVIDERS)}")


def kernels_of(graph: Graph, providers: Mapping[str, str], facts: DeviceFacts) -> dict[str, Any]:
    """What the provider of each Unit calls on the device in place of its operators, or the ONNX
    model that it runs, for an artifact; nothing for a simulated one. On a GPU, calls are tried
    there first, if they were not."""
    if facts.simulated:
        return kernels_to_json("cpu", {})
    made = {name: create(name, facts.name) for name in set(providers.values())}
    by = {unit.name: made[providers[unit.name]] for unit in graph.units}
    calls = {unit.name: by[unit.name].describe(graph, unit) for unit in graph.units}
    models = {unit.name: by[unit.name].onnx(graph, unit) for unit in graph.units}
    found = kernels_to_json(facts.kind, calls)
    if onnx := {name: model for name, model in models.items() if model is not None}:
        found["onnx"] = {
            name: {
                "model": b64encode(model.model).decode(),
                "inputs": list(model.inputs),
                "weights": list(model.weights),
                "outputs": list(model.outputs),
            }
            for name, model in onnx.items()
        }
    return found
