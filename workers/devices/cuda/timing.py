"""How a run of a Plan is timed on a GPU: with events, and without waiting inside what is timed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workers.devices.cuda.driver import Driver

SHORTEST_MS = 0.05
"""What is shorter is repeated between two events: an event's own time, 0.5 µs or so (CUDA Runtime
API, ``cudaEventElapsedTime``), is then under one per cent of what it measures."""

MOST_REPLAYS = 20

_CHUNK = 600
"""Graphs and events given to the GPU before the events are read: a stream queues about a thousand
before it holds the caller."""

_CHUNK_MS = 200.0
"""The longest chunk, so that a cancelled run ends soon."""

_LEAST_HOLD_MS = 2.0
_HOLD_TIMES = 1.5
"""A stream is held for this many times what the caller needs to give it a chunk, and that much
longer, so that nothing waits for the caller while it is timed. Giving a graph takes the caller a
few µs, or a millisecond for one of a thousand kernels on many streams."""

IDLE_SECONDS = 0.2
WARM_MS = 40.0
"""A GPU that had nothing to do lowers its clocks, and takes tens of milliseconds to raise them."""


@dataclass(slots=True)
class Clocks:
    """Whether the GPU has had something to do lately."""

    last_used: float = -math.inf

    def warm(self, driver: Driver) -> None:
        """Let the clocks rise if they may have fallen."""
        if time.monotonic() - self.last_used > IDLE_SECONDS:
            driver.busy(WARM_MS)
        self.touch()

    def touch(self) -> None:
        self.last_used = time.monotonic()


@dataclass(slots=True)
class Caller:
    """How many ms the caller needed lately to give a stream one run."""

    ms: float = 0.02


@dataclass(frozen=True, slots=True)
class Timed:
    """How runs are timed. ``launch`` gives one run to ``stream``. ``held`` lets the stream start
    when all of a chunk is queued, for runs that the caller gives quickly; without it the caller's
    own time counts, as it does for whoever launches kernel by kernel. ``cold`` evicts the L2 cache
    before each run, outside of what is timed."""

    driver: Driver
    stream: Any
    launch: Callable[[], None]
    held: bool
    cold: bool = False
    caller: Caller = field(default_factory=Caller)

    def latencies(self, repeats: int, per_sample: int = 1) -> list[float]:
        """The latency in ms of each of ``repeats`` samples, each the mean of ``per_sample`` runs
        back to back."""
        found: list[float] = []
        most, samples = max(1, _CHUNK // (per_sample + 2)), 1
        while len(found) < repeats:
            found += self._chunk(min(samples, repeats - len(found)), per_sample)
            fitting = _CHUNK_MS / max(found[-1] * per_sample, 1e-6)
            samples = max(1, min(most, int(fitting)))
        return found

    def replays_per_sample(self) -> int:
        """How many runs one sample needs to be long enough for its events."""
        if self.cold:
            return 1
        (probed,) = self._chunk(1, 1)
        if probed >= SHORTEST_MS:
            return 1
        return min(MOST_REPLAYS, math.ceil(SHORTEST_MS / max(probed, 1e-6)))

    def _chunk(self, samples: int, per_sample: int) -> list[float]:
        driver = self.driver
        marks = [(driver.event(timed=True), driver.event(timed=True)) for _ in range(samples)]
        driver.use(self.stream)
        if self.held:
            needed = self.caller.ms * samples * per_sample
            driver.hold(min(_LEAST_HOLD_MS + _HOLD_TIMES * needed, _CHUNK_MS))
        begun = time.perf_counter()
        for start, end in marks:
            if self.cold:
                driver.use(self.stream)
                driver.flush_l2()
            start.record(self.stream)
            for _ in range(per_sample):
                self.launch()
            end.record(self.stream)
        self.caller.ms = (time.perf_counter() - begun) * 1e3 / (samples * per_sample)
        driver.synchronize()
        return [start.elapsed_time(end) / per_sample for start, end in marks]
