"""The provider ``aten``: PyTorch's own kernels, fused where it has fused ones."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from workers.devices.providers.base import KernelProvider
from workers.devices.providers.convolutions import fused_convolutions
from workers.devices.providers.linears import fused_linears
from workers.graph.graph import Graph, Unit
from workers.graph.interpreter import CompiledUnit, compile_unit


class AtenProvider(KernelProvider):
    """One call of a PyTorch function for each operator of the Unit, or for what is fused."""

    name = "aten"

    def compile(
        self, graph: Graph, unit: Unit, weights: Mapping[str, Tensor], threads: int
    ) -> CompiledUnit:
        if torch.device(self.device).type != "cpu":
            return compile_unit(graph, unit, weights)
        laid_out, fused = fused_convolutions(graph, unit, weights)
        fused += fused_linears(graph, unit, weights)
        return compile_unit(graph, unit, laid_out, fused)
