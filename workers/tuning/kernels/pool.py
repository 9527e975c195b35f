"""The processes that build kernels, beside those that measure them.

Each builder is one process that stays, and is replaced when it takes too long, takes too much
memory or crashes. They can be paused together, so that a candidate that is measured in isolation
really is.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from workers.measure.measurement import Failure
from workers.measure.parallel.child import READY, STARTING_S, Child
from workers.tuning.kernels.build import BuildOrder
from workers.tuning.kernels.builder import DISK_FULL

_MODULE = "workers.tuning.kernels.builder"
_SETTINGS = {"OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
_LOOK_S = 0.05
"""How often a builder's time and memory are looked at."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TIRED_SHARE = 0.5
"""A builder that keeps so much of its memory after a build is replaced: TVM does not give all of
it back."""

TIMEOUT_S = 60.0
MEMORY_BYTES = 4 << 30


class BuildError(RuntimeError):
    """Nothing can be built any more: a full disk, or a builder that does not start."""


class DiskFullError(BuildError):
    """There is no room for what is built."""


@dataclass(frozen=True, slots=True)
class Built:
    """What became of an order: a ``library``, with the ``sources`` that were to be kept, or a
    ``failure`` with a reason (COMPILE, TIMEOUT, OUT_OF_MEMORY or CRASH).

    ``build_s`` is how long ``builder`` worked, pauses not counted; ``started_s`` and ``ended_s``
    are by ``time.monotonic``.
    """

    library: Path | None
    sources: tuple[Path, ...] = ()
    failure: Failure | None = None
    reason: str = ""
    build_s: float = 0.0
    builder: int = 0
    started_s: float = 0.0
    ended_s: float = 0.0


class BuildPool:
    """``cores`` builders, each started when first needed, with at most ``timeout_s`` and
    ``memory_bytes`` (resident, of the builder itself) for each kernel.

    ``build`` and ``paused`` are for one thread. ``close`` kills what is left, also what is paused.
    """

    def __init__(
        self, cores: int, timeout_s: float = TIMEOUT_S, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        if cores < 1:
            raise ValueError(f"kernels are built on {cores} cores, at least 1 is needed")
        self._timeout_s, self._memory_bytes = timeout_s, memory_bytes
        self._clock = _Clock()
        # A builder dies with the thread that started it, so each thread stays as long as the pool.
        self._threads = ThreadPoolExecutor(cores, "build")
        self._lock = threading.Lock()
        self._running: dict[int, Child] = {}
        self._free: SimpleQueue[tuple[int, Child | None]] = SimpleQueue()
        for number in range(cores):
            self._free.put((number, None))
        self._closed = False

    def build(self, orders: Sequence[BuildOrder]) -> list[Future[Built]]:
        """Begin with all of them in their order; each ends for itself, and several at once. A
        future raises BuildError where it is not the candidate's fault."""
        return [self._threads.submit(self._build, order) for order in orders]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is built meanwhile: the builders are stopped with all that they started, and go
        on afterwards. What is paused does not use up its time."""
        with self._lock:
            self._clock.stop()
            self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            with self._lock:
                self._signal(signal.SIGCONT)
                self._clock.go()

    def close(self) -> None:
        """Safe to call twice."""
        with self._lock:
            self._closed = True
            # Only its own thread reaps a builder, when it sees that it has ended.
            self._signal(signal.SIGKILL)
            self._clock.go()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for number, child in list(self._running.items()):
            self._forget(number, child)

    def _signal(self, number: signal.Signals) -> None:
        for child in self._running.values():
            with suppress(ProcessLookupError):
                os.killpg(child.pid, number)

    def _build(self, order: BuildOrder) -> Built:
        number, child = self._free.get()
        try:
            child = child or self._start(number)
            built = self._built(number, child, order)
            if child.alive and resident_bytes(child.pid) > _TIRED_SHARE * self._memory_bytes:
                self._forget(number, child)
        except BuildError:
            raise
        except BaseException:
            if child is not None:
                self._forget(number, child)
            raise
        finally:
            self._free.put((number, child if child is not None and child.alive else None))
        return built

    def _start(self, number: int) -> Child:
        while True:
            self._clock.wait()
            with self._lock:
                self._check_open()
                if self._clock.stopped:
                    continue
                child = self._running[number] = Child(_MODULE, settings=_SETTINGS)
            said = self._listen(child, STARTING_S)
            if said != READY:
                self._forget(number, child, by_itself=said is None)
                self._check_open()
                raise BuildError(
                    f"a building process was not ready within {STARTING_S:g} s"
                    if isinstance(said, Failure)
                    else f"a building process ended before it was ready ({child.end()})"
                )
            return child

    def _built(self, number: int, child: Child, order: BuildOrder) -> Built:
        began, worked = time.monotonic(), self._clock.now()
        # One that died while it was idle says so when its answer is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            child.connection.send(order)
        said = self._listen(child, self._timeout_s)
        failure, reason, sources = None, "", ()
        if said is None or isinstance(said, Failure):
            self._forget(number, child, by_itself=said is None)
            self._check_open()
            failure = said or Failure.CRASH
            reason = self._reason(failure, child)
        elif said[0] == DISK_FULL:
            raise DiskFullError(f"the disk is full, no kernel can be written: {said[1]}")
        elif isinstance(said[0], Failure):
            failure, reason = said
        else:
            (sources,) = said
        return Built(
            library=None if failure else order.library,
            sources=sources,
            failure=failure,
            reason=reason,
            build_s=self._clock.now() - worked,
            builder=number,
            started_s=began,
            ended_s=time.monotonic(),
        )

    def _listen(self, child: Child, limit_s: float) -> Any:
        """What it says; None if it ended instead, and TIMEOUT or OUT_OF_MEMORY if it must be."""
        began = self._clock.now()
        try:
            while not child.connection.poll(_LOOK_S):
                self._clock.wait()
                if self._clock.now() - began > limit_s:
                    return Failure.TIMEOUT
                if resident_bytes(child.pid) > self._memory_bytes:
                    return Failure.OUT_OF_MEMORY
            return child.connection.recv()
        except (EOFError, OSError):
            return None

    def _reason(self, failure: Failure, child: Child) -> str:
        if failure is Failure.TIMEOUT:
            return f"building it took more than {self._timeout_s:g} s"
        if failure is Failure.OUT_OF_MEMORY:
            return f"building it took more than {self._memory_bytes / 2**20:.0f} MiB"
        return f"while building it, {child.end()}"

    def _forget(self, number: int, child: Child, by_itself: bool = False) -> None:
        """Not signalled any more before it is reaped, as its number may then be another's."""
        with self._lock:
            self._running.pop(number, None)
        if by_itself:
            child.bury()
        child.kill()

    def _check_open(self) -> None:
        if self._closed:
            raise BuildError("the building processes were closed")


class _Clock:
    """Seconds that were not paused."""

    def __init__(self) -> None:
        self._going = threading.Event()
        self._going.set()
        self._paused_s = self._since = 0.0

    @property
    def stopped(self) -> bool:
        return not self._going.is_set()

    def now(self) -> float:
        return (self._since if self.stopped else time.monotonic()) - self._paused_s

    def stop(self) -> None:
        self._since = time.monotonic()
        self._going.clear()

    def go(self) -> None:
        if self.stopped:
            self._paused_s += time.monotonic() - self._since
            self._going.set()

    def wait(self) -> None:
        self._going.wait()


def resident_bytes(pid: int) -> int:
    """How much memory a process has, 0 if it has ended. Linux alone tells."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0
