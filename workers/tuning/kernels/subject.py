"""A built kernel as a candidate for the measuring processes."""

from __future__ import annotations

import gc
import math
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from workers.measure.measurement import Failure
from workers.measure.parallel.subject import Bench, Run, SubjectError
from workers.tuning.kernels import runtime
from workers.tuning.kernels.arguments import Arguments, Array, placed, spoil
from workers.tuning.kernels.build import ENTRY
from workers.tuning.kernels.counters import between, open_counters

SHORTEST_RUN_MS = 0.05
"""A run of a kernel that takes less is several calls: reading the thread's clock takes about a
microsecond."""

_FLUSHED_BYTES = 64 << 20
"""What is written to flush the caches, more than most processors' last level."""


@dataclass(frozen=True, slots=True)
class KernelSubject:
    """The kernel in ``library``, run by one thread on ``cpu``, or on ``cuda:N``.

    ``cold`` flushes the caches before every run, which then is one call, however short.
    ``memory_bytes`` is how much address space a process may add for it on a CPU, 0 any amount.
    """

    library: Path
    arguments: Arguments
    cold: bool = False
    memory_bytes: int = 0

    @contextmanager
    def open(self, device: str) -> Iterator[Bench]:
        if device.startswith("cuda"):
            from workers.tuning.kernels.cuda import open_cuda  # noqa: PLC0415  # a GPU alone

            with open_cuda(self.library, self.arguments, device, self.cold) as bench:
                yield bench
            return
        runtime.load_cpu()
        _made(self.arguments)
        limited = _limited(self.memory_bytes) if self.memory_bytes else nullcontext()
        with limited, closing(CpuBench(self)) as found:
            yield found


class CpuBench:
    """A kernel that is loaded in this process."""

    def __init__(self, subject: KernelSubject) -> None:
        self._ffi: Any = runtime.load_cpu()
        self._subject = subject
        try:
            self._module = self._ffi.load_module(str(subject.library))
            self._kernel: Callable[..., object] = self._module[ENTRY]
        except (RuntimeError, AttributeError) as error:
            raise SubjectError(Failure.LAUNCH, f"its library cannot be loaded: {error}") from error
        self._counters = open_counters()
        self._calls = 1
        self._take(_made(subject.arguments))

    def check(self) -> None:
        """Run once. What looks wrong is run again on arguments made afresh: an earlier kernel in
        this process may have written where it should not."""
        if self._wrong() is not None:
            _made.cache_clear()
            self._take(_made(self._subject.arguments))
            if (words := self._wrong()) is not None:
                _made.cache_clear()
                raise SubjectError(Failure.WRONG_RESULT, words)
        if not self._subject.cold:
            self._calls = self._calls_for(SHORTEST_RUN_MS)

    def time(self, repeats: int) -> Sequence[Run]:
        collecting = gc.isenabled()
        gc.disable()
        try:
            return [self._run() for _ in range(repeats)]
        finally:
            if collecting:
                gc.enable()

    def close(self) -> None:
        if self._counters is not None:
            self._counters.close()

    def _take(self, made: _Made) -> None:
        self._arrays = made
        self._tensors = [self._ffi.from_dlpack(array) for array in (*made.inputs, *made.outputs)]

    def _wrong(self) -> str | None:
        made = self._arrays
        for output in made.outputs:
            spoil(output)
        self._kernel(*self._tensors)
        if made.expected is None:
            return None
        return self._subject.arguments.difference(made.outputs, made.expected)

    def _calls_for(self, shortest_ms: float) -> int:
        took = self._run().device_ms
        if took >= shortest_ms:
            return 1
        took = min(took, self._run().device_ms, self._run().device_ms)
        return math.ceil(shortest_ms / max(took, 1e-5))

    def _run(self) -> Run:
        if self._subject.cold:
            _flush()
        kernel, tensors, calls = self._kernel, self._tensors, range(self._calls)
        counters = self._counters
        before = counters.read() if counters is not None else ()
        wall, own = time.perf_counter_ns(), time.thread_time_ns()
        for _ in calls:
            kernel(*tensors)
        own_ns, wall_ns = time.thread_time_ns() - own, time.perf_counter_ns() - wall
        after = counters.read() if counters is not None else ()
        ms = 1e6 * len(calls)
        return Run(wall_ns / ms, own_ns / ms, *_each(before, after, len(calls)))


@dataclass(frozen=True)
class _Made:
    """Arguments in memory."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    expected: Sequence[Array] | None


@lru_cache(maxsize=1)
def _made(arguments: Arguments) -> _Made:
    """Kept, as a process measures many candidates of one program."""
    inputs = arguments.inputs()
    arrays = placed(inputs, arguments.outputs())
    return _Made(arrays[: len(inputs)], arrays[len(inputs) :], arguments.expected())


@lru_cache(maxsize=1)
def _flushing() -> Array:
    return np.zeros(_FLUSHED_BYTES, np.uint8)


def _flush() -> None:
    _flushing().__iadd__(1)


def _each(before: Any, after: Any, calls: int) -> tuple[float | None, ...]:
    return tuple(None if count is None else count / calls for count in between(before, after))


@contextmanager
def _limited(extra_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    wanted = now + extra_bytes
    limit = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
