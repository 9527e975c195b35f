"""Kernels on a GPU: loaded, checked and timed. Never run on a GPU yet.

The device's clock is CUPTI's where ``cupti-python`` is installed (DOPpler, Section 4.2): its
records hold when each CUDA kernel began and ended. Elsewhere it is a pair of events around the
calls, which also counts the gaps between a candidate's CUDA kernels. Under time-slicing between
processes both may include time in which another's kernels ran; comparing them with isolated runs
tells.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from workers.measure.measurement import Failure
from workers.measure.parallel.subject import Bench, Run, SubjectError
from workers.tuning.kernels import runtime
from workers.tuning.kernels.arguments import Arguments, placed
from workers.tuning.kernels.build import ENTRY

_FLUSHED_BYTES = 256 << 20
"""What is written to flush the caches: more than the second level of any GPU so far."""
_RECORD_BYTES = 8 << 20


@contextmanager
def open_cuda(library: Path, arguments: Arguments, device: str, cold: bool) -> Iterator[Bench]:
    """As ``KernelSubject.open``. Raises SubjectError."""
    runtime.load_cuda()
    import tvm  # noqa: PLC0415  # an optional extra

    _, _, number = device.partition(":")
    gpu = tvm.cuda(int(number or 0))
    if not gpu.exist:
        raise SubjectError(Failure.LAUNCH, f"TVM finds no {device}")
    yield _CudaBench(tvm, gpu, library, arguments, cold)


class _CudaBench:
    def __init__(self, tvm: Any, gpu: Any, library: Path, arguments: Arguments, cold: bool) -> None:
        self._gpu, self._arguments = gpu, arguments
        self._kernel: Callable[..., object] = tvm.runtime.load_module(str(library))[ENTRY]
        put = tvm.runtime.tensor
        self._inputs = [put(array, gpu) for array in arguments.inputs()]
        self._outputs = [put(array, gpu) for array in placed((), arguments.outputs())]
        self._flushed = [
            tvm.runtime.empty((_FLUSHED_BYTES,), "uint8", gpu) for _ in range(2 if cold else 0)
        ]
        self._clock = _device_clock(gpu)

    def check(self) -> None:
        self._call()
        self._gpu.sync()
        expected = self._arguments.expected()
        if expected is None:
            return
        found = [tensor.numpy() for tensor in self._outputs]
        if (words := self._arguments.difference(found, expected)) is not None:
            raise SubjectError(Failure.WRONG_RESULT, words)

    def time(self, repeats: int) -> Sequence[Run]:
        walls = []

        def run() -> None:
            self._flush()
            self._gpu.sync()
            start = time.perf_counter_ns()
            with self._clock.around():
                self._call()
            self._gpu.sync()
            walls.append((time.perf_counter_ns() - start) / 1e6)

        devices = self._clock.milliseconds(run, repeats)
        return [Run(wall, device) for wall, device in zip(walls, devices, strict=True)]

    def _call(self) -> None:
        self._kernel(*self._inputs, *self._outputs)

    def _flush(self) -> None:
        if self._flushed:
            source, room = self._flushed
            source.copyto(room)


class _DeviceClock(Protocol):
    def around(self) -> Any:
        """A context for the calls of one run."""
        ...

    def milliseconds(self, run: Callable[[], None], repeats: int) -> list[float]:
        """How long each of so many runs took on the device."""
        ...


def _device_clock(gpu: Any) -> _DeviceClock:
    try:
        cupti = import_module("cupti.cupti")
    except ImportError:
        return EventClock(gpu)
    return CuptiClock(cupti)


class EventClock:
    """Events of the CUDA driver on the legacy default stream, which is TVM's."""

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._began, self._ended = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (self._began, self._ended):
            self._ask("cuEventCreate", ctypes.byref(event), 0)

    @contextmanager
    def around(self) -> Iterator[None]:
        self._ask("cuEventRecord", self._began, None)
        yield
        self._ask("cuEventRecord", self._ended, None)

    def milliseconds(self, run: Callable[[], None], repeats: int) -> list[float]:
        found = []
        for _ in range(repeats):
            run()
            took = ctypes.c_float()
            self._ask("cuEventElapsedTime", ctypes.byref(took), self._began, self._ended)
            found.append(took.value)
        return found

    def _ask(self, name: str, *given: object) -> None:
        code = getattr(self._driver, name)(*given)
        if code:
            raise RuntimeError(f"{name} failed with CUDA error {code}")


class CuptiClock:
    """CUPTI's records of kernels. A run's time is the sum of its kernels' times; memory that is
    copied to flush the caches is no kernel and has no record."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti
        self._kernels: list[tuple[int, int]] = []
        cupti.activity_register_callbacks(lambda: (_RECORD_BYTES, 0), self._completed)

    @contextmanager
    def around(self) -> Iterator[None]:
        yield

    def milliseconds(self, run: Callable[[], None], repeats: int) -> list[float]:
        kind = self._cupti.ActivityKind.CONCURRENT_KERNEL
        self._kernels.clear()
        self._cupti.activity_enable(kind)
        try:
            for _ in range(repeats):
                run()
            self._cupti.activity_flush_all(1)
        finally:
            self._cupti.activity_disable(kind)
        each, left = divmod(len(self._kernels), repeats)
        if not each or left:
            raise RuntimeError(f"CUPTI has {len(self._kernels)} kernels of {repeats} equal runs")
        kernels = sorted(self._kernels)
        return [
            sum(end - start for start, end in kernels[first : first + each]) / 1e6
            for first in range(0, len(kernels), each)
        ]

    def _completed(self, activities: Sequence[Any]) -> None:
        for activity in activities:
            if activity.kind == self._cupti.ActivityKind.CONCURRENT_KERNEL:
                self._kernels.append((activity.start, activity.end))
