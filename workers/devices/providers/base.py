"""The KernelProvider interface: what makes a Unit into a function that a device calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from workers.graph.fused import PLAIN, UnitKernels
from workers.graph.graph import Graph, Unit

if TYPE_CHECKING:
    from torch import Tensor

    from workers.graph.exporters.onnx import OnnxUnit
    from workers.graph.interpreter import CompiledUnit


class KernelProvider(ABC):
    """Compiles Units for ``device``, named as torch does. One conformance suite holds for every
    implementation."""

    name: ClassVar[str]

    def __init__(self, device: str) -> None:
        self.device = device

    def describe(self, graph: Graph, unit: Unit) -> UnitKernels:
        """What ``compile`` calls in place of the Unit's operators, as data for an artifact; nothing
        for a provider that makes a function of its own."""
        return PLAIN

    def onnx(self, graph: Graph, unit: Unit) -> OnnxUnit | None:
        """The model that ``compile`` runs in place of the Unit's operators, for an artifact; None
        for a provider of kernels. Raises DeviceError if there is none for this Unit."""
        return None

    @abstractmethod
    def compile(
        self, graph: Graph, unit: Unit, weights: Mapping[str, Tensor], threads: int
    ) -> CompiledUnit:
        """The function that computes ``unit`` of ``graph`` with its weights bound.

        The weights lie on the provider's device, and so will the inputs. ``threads`` is how many
        intra-operator threads a CPU stream has for the Unit, 1 elsewhere. The function is called
        under ``torch.inference_mode``, from any thread, but from one at a time; it changes neither
        its arguments nor the weights. Raises DeviceError naming the Unit and the reason.
        """
