"""The provider ``aten``: PyTorch's own kernels, fused where it has fused ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from workers.devices.providers.base import KernelProvider
from workers.devices.providers.convolutions import fused_convolutions
from workers.devices.providers.gpu_fusions import fused_on_gpu
from workers.devices.providers.linears import fused_linears
from workers.devices.providers.trial import tried
from workers.graph.fused import PLAIN, UnitKernels
from workers.graph.graph import Graph, Unit
from workers.graph.interpreter import CompiledUnit, compile_unit


class AtenProvider(KernelProvider):
    """One call of a PyTorch function for each operator of the Unit, or for what is fused."""

    name = "aten"

    def describe(self, graph: Graph, unit: Unit) -> UnitKernels:
        kind = torch.device(self.device).type
        if kind == "cuda":
            return tried(graph, unit, fused_on_gpu(graph, unit), self.device)
        if kind != "cpu" or not torch._C._has_mkldnn:
            return PLAIN
        found = fused_convolutions(graph, unit)
        return replace(found, calls=found.calls + fused_linears(graph, unit))

    def compile(
        self, graph: Graph, unit: Unit, weights: Mapping[str, Tensor], threads: int
    ) -> CompiledUnit:
        kernels = self.describe(graph, unit)
        return compile_unit(graph, unit, weights, kernels if _fit(graph, unit, weights) else PLAIN)


def _fit(graph: Graph, unit: Unit, weights: Mapping[str, Tensor]) -> bool:
    """Whether the Unit's weights are what the graph says: where not, the plain operators say what
    is wrong when they run."""
    return all(
        name in weights
        and tuple(weights[name].shape) == graph.values[name].shape
        and str(weights[name].dtype) == f"torch.{graph.values[name].dtype}"
        for name in unit.weights
    )
