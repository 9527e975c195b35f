"""Stands in for ``torch.cuda`` where only the order of what is given to streams is looked at.

It keeps a vector clock for each stream, as CUDA orders work: what is given to a stream comes after
all that was given to it before, an event stands for all that came before it was recorded, and a
stream that waits for it comes after that. Tensors stay on the CPU and are computed at once; nothing
here tells whether a GPU would compute them, only whether it would be free to do so too early.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class FakeCuda:
    def __init__(self, capture_fails: bool = False) -> None:
        self.capture_fails = capture_fails
        self.given: list[tuple[int, str, frozenset[int]]] = []
        """Each unit that was given to a stream: the stream, its name, and what comes before it."""
        self.replays = 0
        self.capturing = False
        self._streams = 0
        self._current: FakeStream = self.Stream()

    def Stream(self) -> FakeStream:  # noqa: N802  # as torch.cuda has it
        self._streams += 1
        return FakeStream(self, self._streams - 1)

    def Event(self, enable_timing: bool = False) -> FakeEvent:  # noqa: N802
        return FakeEvent(self, enable_timing)

    def CUDAGraph(self) -> FakeGraph:  # noqa: N802
        return FakeGraph(self)

    def current_stream(self) -> FakeStream:
        return self._current

    @contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before, self._current = self._current, stream
        try:
            yield
        finally:
            self._current = before

    @contextmanager
    def device(self, device: Any) -> Iterator[None]:
        yield

    @contextmanager
    def graph(self, graph: FakeGraph) -> Iterator[None]:
        if self.capture_fails:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        home = self.Stream()
        self.capturing = True
        with self.stream(home):
            yield
        self.capturing = False
        graph.units = [name for _, name, _ in self.given]
        left = {number for number, _ in enumerate(self.given)} - home.before
        assert not left, "a capture must join every stream that it forked"

    def synchronize(self) -> None:
        for stream in (self._current,):
            stream.before |= set(range(len(self.given)))

    def give(self, name: str) -> None:
        """A unit was launched on the current stream."""
        self.given.append((self._current.number, name, frozenset(self._current.before)))
        self._current.before.add(len(self.given) - 1)


class FakeStream:
    def __init__(self, cuda: FakeCuda, number: int) -> None:
        self.cuda, self.number = cuda, number
        self.before: set[int] = set()

    def wait_event(self, event: FakeEvent) -> None:
        assert event.before is not None, "an event was waited for before it was recorded"
        self.before |= event.before

    def wait_stream(self, stream: FakeStream) -> None:
        self.before |= stream.before


class FakeEvent:
    def __init__(self, cuda: FakeCuda, timed: bool) -> None:
        self._cuda, self._timed = cuda, timed
        self.before: frozenset[int] | None = None

    def record(self, stream: FakeStream | None = None) -> None:
        self.before = frozenset((stream or self._cuda.current_stream()).before)

    def elapsed_time(self, end: FakeEvent) -> float:
        assert self._timed
        assert self.before is not None
        assert end.before is not None
        return float(len(end.before - self.before))


class FakeGraph:
    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda = cuda
        self.units: list[str] = []

    def replay(self) -> None:
        assert self.units
        self._cuda.replays += 1
