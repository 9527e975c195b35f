"""The provider ``aten``: PyTorch's own kernels."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from workers.devices.providers.base import KernelProvider
from workers.graph.graph import Graph, Unit
from workers.graph.interpreter import CompiledUnit, compile_unit


class AtenProvider(KernelProvider):
    """One call of a PyTorch function for each operator of the Unit."""

    name = "aten"

    def compile(
        self, graph: Graph, unit: Unit, weights: Mapping[str, Tensor], threads: int
    ) -> CompiledUnit:
        return compile_unit(graph, unit, weights)
