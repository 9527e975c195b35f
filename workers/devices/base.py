"""The Device interface: what runs and times Plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from workers.graph.graph import Graph
from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel
from workers.schedules.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor


PROVIDERS = ("aten", "inductor", "onnxruntime")
"""Who implements a Unit's operators: PyTorch's own kernels, code that TorchInductor makes, or, on a
CPU, ONNX Runtime."""


class DeviceError(RuntimeError):
    """A Plan that the device could not run; names the Unit and the reason."""


class CancelledError(DeviceError):
    """A run that was cancelled from another thread."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a device is. ``fingerprint`` keys every measurement: two devices that may time
    differently have different fingerprints. ``simulated`` marks every figure taken on it.

    ``parallelism`` is how many intra-operator threads a Plan may use at once: the cores of a CPU,
    1 where streams are not threads. ``gpu`` says what a GPU, real or simulated, is made of.
    """

    name: str
    kind: str
    description: str
    fingerprint: str
    parallelism: int
    memory_bytes: int
    versions: Mapping[str, str]
    simulated: bool = False
    providers: tuple[str, ...] = ("aten",)
    gpu: GpuFacts | None = None


@dataclass(frozen=True, slots=True)
class Waited:
    """A Unit that could have run did not for ``ms``; ``reason`` names the resource or the event
    that it waited for (``launch``, ``threads``, ``registers``, ``event of unit 'conv1'`` ...)."""

    reason: str
    ms: float


@dataclass(frozen=True, slots=True)
class Span:
    """One Unit's run on one stream; times in ms from the start of the Plan. ``waited`` says what
    held it up since its stream was free, where the device knows, the longest wait first."""

    unit: str
    kind: str
    stream: int
    start_ms: float
    end_ms: float
    waited: tuple[Waited, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """One run of a Plan. ``resident_warps`` are steps (ms, warps on the whole device from then
    on), estimated from the kernels' occupancy: IOS, Figure 8. Empty where there are no warps."""

    spans: tuple[Span, ...]
    resident_warps: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of the weights, and the most that inputs and computed values took at one moment."""

    weights_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """How a part of a model is run so that it finds the caches as it does in the whole. The first
    ``lead_in`` launches of its Plan, one after the other, are Units from before the part that make
    what it reads: they run first and are not timed. Before them, as many bytes are read as the
    other Units have weights, and as many are written as the others' values take at a time."""

    lead_in: int
    weights_bytes: int
    values_bytes: int


class Executable(ABC):
    """A Plan made ready on a device: weights loaded, streams up. Close it to free them."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of this executable's figures should know: that a GPU could not capture the
        Plan, say, and why."""
        return ()

    @abstractmethod
    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run once and return the graph's outputs by name. Raises DeviceError."""

    @abstractmethod
    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        """Run ``repeats`` times back to back; the latency of each run in ms. No warm-up."""

    def time_within(
        self, inputs: Mapping[str, Tensor], repeats: int, surroundings: Surroundings
    ) -> list[float]:
        """As ``time``, but for a part of a model as it runs within the whole: the latency of each
        run from the end of its last launch that leads in, or from its start if there is none. Only
        for devices with ``cache_bytes``; raises DeviceError on others."""
        raise DeviceError("this device does not time parts of a model within the whole")

    @abstractmethod
    def values(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run once and return what every Unit computed, by the values' names."""

    @abstractmethod
    def timeline(self, inputs: Mapping[str, Tensor]) -> Timeline:
        """Run once and return when each Unit ran on which stream."""

    @abstractmethod
    def profile(self, inputs: Mapping[str, Tensor]) -> tuple[Kernel, ...]:
        """Run once and return the kernels of every Unit, in the order in which they began."""

    @abstractmethod
    def memory(self, inputs: Mapping[str, Tensor]) -> MemoryUse:
        """Run once and return what it took."""

    @abstractmethod
    def cancel(self) -> None:
        """From another thread: end the run in progress soon. It raises CancelledError; the next
        run works as usual. Does nothing when none is in progress."""

    @abstractmethod
    def close(self) -> None:
        """Stop the streams and drop the weights. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Device(ABC):
    """Runs and times Plans. One conformance suite holds for every implementation."""

    @property
    @abstractmethod
    def facts(self) -> DeviceFacts: ...

    @property
    def cache_bytes(self) -> int:
        """How much the largest caches hold of what a run may find there; 0 where it makes no
        difference, or where executables cannot ``time_within``."""
        return 0

    @abstractmethod
    def prepare(
        self,
        graph: Graph,
        weights: Mapping[str, Tensor],
        plan: Plan,
        provider: str = "aten",
    ) -> Executable:
        """Validate the Plan against the Graph and make it ready to run with the kernels of
        ``provider``, one of the facts' ``providers``, where the Plan names no other. Raises
        PlanError and DeviceError."""

    def latency_ms(self, graph: Graph, plan: Plan) -> float | None:
        """What ``time`` of an executable would say, where the device computes its latencies and
        need not run anything for them; None where it measures.

        ``plan`` may launch a part of the graph, such as a stage, and is taken to be right: for
        searches that ask for many thousands. Raises DeviceError if the device is closed.
        """
        return None

    def latencies_ms(self, graph: Graph, plans: Sequence[Plan]) -> Sequence[float] | None:
        """What ``latency_ms`` says of each Plan, in less time together; None where it measures."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Free what outlives Executables (streams, pools). Safe to call twice."""
