"""The Device interface: what runs and times Plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from workers.graph.graph import Graph
from workers.schedules.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor


class DeviceError(RuntimeError):
    """A Plan that the device could not run; names the Unit and the reason."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a device is. ``fingerprint`` keys every measurement: two devices that may time
    differently have different fingerprints. ``simulated`` marks every figure taken on it."""

    name: str
    kind: str
    description: str
    fingerprint: str
    parallelism: int
    memory_bytes: int
    versions: Mapping[str, str]
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """One Unit's run on one stream; times in ms from the start of the Plan."""

    unit: str
    kind: str
    stream: int
    start_ms: float
    end_ms: float


class Executable(ABC):
    """A Plan made ready on a device: weights loaded, streams up. Close it to free them."""

    @abstractmethod
    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run once and return the graph's outputs by name. Raises DeviceError."""

    @abstractmethod
    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        """Run ``repeats`` times back to back; the latency of each run in ms. No warm-up."""

    @abstractmethod
    def timeline(self, inputs: Mapping[str, Tensor]) -> tuple[Span, ...]:
        """Run once and return when each Unit ran on which stream."""

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

    @abstractmethod
    def prepare(self, graph: Graph, weights: Mapping[str, Tensor], plan: Plan) -> Executable:
        """Validate the Plan against the Graph and make it ready to run."""

    @abstractmethod
    def close(self) -> None:
        """Free what outlives Executables (streams, pools). Safe to call twice."""
