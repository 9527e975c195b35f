"""What the CUDA device needs of a CUDA runtime: the seam between how Plans run and what runs them.

``TorchDriver`` is the real one. The tests have an emulation that runs streams in any order that
CUDA allows, so that everything above this seam is exercised without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class Stream(Protocol):
    """A queue of work on the GPU. Only its driver looks inside."""


class Event(Protocol):
    """A CUDA event: the work that a stream was given up to where it was last recorded."""

    def record(self, stream: Any, /) -> None:
        """From now on, mean what ``stream`` was given so far."""
        ...

    def wait(self, stream: Any, /) -> None:
        """Hold what ``stream`` is given from now on until the event, as it was last recorded,
        has completed. Does not hold the caller."""
        ...

    def elapsed_time(self, end: Any, /) -> float:
        """Milliseconds from this event to ``end``; both are timed and have completed."""
        ...


class CapturedGraph(Protocol):
    """A CUDA Graph with the memory that its kernels use, which it keeps until it is reset."""

    def replay(self) -> None:
        """Give the whole graph to the current stream."""
        ...

    def reset(self) -> None:
        """Free the graph and its memory. Nothing of it may be running."""
        ...


class Driver(Protocol):
    """One GPU. All but ``session`` and ``close`` are called inside a session, from its thread."""

    def session(self) -> AbstractContextManager[None]:
        """Make this GPU the calling thread's own, in inference mode, and put back what was."""
        ...

    def stream(self) -> Stream:
        """A new stream, however many there are already. It lives until the driver is closed."""
        ...

    def use(self, stream: Any, /) -> None:
        """Give ``stream`` the calling thread's operators and allocations from now on."""
        ...

    def event(self, timed: bool = False) -> Event: ...

    def upload(self, tensor: Tensor) -> Tensor:
        """A copy on the GPU; complete when it returns."""
        ...

    def overwrite(self, target: Tensor, source: Tensor) -> None:
        """Put the values of a CPU tensor into one of the GPU, on the current stream."""
        ...

    def download(self, tensor: Tensor) -> Tensor:
        """A copy on the CPU of what the current stream will have made of it."""
        ...

    def begin_capture(self) -> None:
        """Record what the current stream is given, and streams that come to depend on it, instead
        of running it. Their memory comes from a pool of the graph's own."""
        ...

    def end_capture(self) -> CapturedGraph:
        """End the capture on the current stream, where it began. Raises if it was broken; whatever
        comes of it, nothing is captured any longer."""
        ...

    def synchronize(self) -> None:
        """Wait until everything has completed; raises what went wrong meanwhile."""
        ...

    def allocated_bytes(self) -> int: ...

    def peak_bytes(self) -> int:
        """The most that was allocated at once since ``reset_peak``."""
        ...

    def reset_peak(self) -> None: ...

    def busy(self, milliseconds: float) -> None:
        """Keep the whole GPU computing for about that long, and return when it has."""
        ...

    def hold(self, milliseconds: float) -> None:
        """Let the current stream do nothing for about that long, while the caller goes on."""
        ...

    def flush_l2(self) -> None:
        """Let the current stream evict what is in the L2 cache."""
        ...

    def annotate(self, name: str) -> AbstractContextManager[None]:
        """Mark in a trace what is launched inside."""
        ...

    def traced(self, body: Callable[[], None]) -> dict[str, Any]:
        """Call ``body``, perhaps twice, and wait for its work; a Chrome trace of one call, as
        torch.profiler writes."""
        ...

    def close(self) -> None:
        """Free the streams. Nothing may be running. Safe to call twice."""
        ...
