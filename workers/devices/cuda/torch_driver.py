"""The CUDA runtime as PyTorch has it."""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from workers.devices.base import DeviceError
from workers.devices.cuda.driver import Event, Stream
from workers.hardware.gpu import GpuFacts

_torch: Any = torch.cuda  # for what has no annotations there

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: does not wait for the legacy default stream
_BUSY_SIDE = 2048
_L2_TIMES = 2  # a buffer of this many times the L2 leaves nothing else in it
_LEAST_FLUSH_BYTES = 64 << 20
_ASSUMED_CLOCK_MHZ = 1500.0  # where the driver does not tell; only the length of a pause
_LEAD_MS = 20.0  # of work that precedes what is traced
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")


class TorchDriver:
    """GPU ``index`` of this process.

    Streams are created here rather than taken from PyTorch's pool, which has 32 for each priority
    and hands out the same ones again after that: two streams of a Plan would silently be one.
    """

    def __init__(self, index: int, gpu: GpuFacts | None) -> None:
        self._index = index
        self._device = torch.device("cuda", index)
        self._clock_mhz = (gpu.clock_mhz if gpu else 0.0) or _ASSUMED_CLOCK_MHZ
        l2 = gpu.l2_bytes if gpu else 0
        self._flush_bytes = max(_L2_TIMES * l2, _LEAST_FLUSH_BYTES)
        self._flush: Tensor | None = None
        self._square: Tensor | None = None
        self._handles: list[int] = []
        self._capture: tuple[torch.cuda.CUDAGraph, Any] | None = None
        self._broken: list[torch.cuda.CUDAGraph] = []
        self._traced_before = False
        self._driver = ctypes.CDLL("libcuda.so.1")

    @contextmanager
    def session(self) -> Iterator[None]:
        with torch.cuda.device(self._index), torch.inference_mode():
            before = torch.cuda.current_stream()
            try:
                yield
            finally:
                torch.cuda.set_stream(before)

    def stream(self) -> Stream:
        torch.cuda.current_stream()  # makes the context, without which no stream can be made
        torch.cuda.synchronize()
        handle = ctypes.c_void_p()
        code = self._driver.cuStreamCreate(ctypes.byref(handle), ctypes.c_uint(_NON_BLOCKING))
        if code != 0 or handle.value is None:
            raise DeviceError(
                f"stream {len(self._handles)} of cuda:{self._index} cannot be created: CUDA driver"
                f" error {code}; use a Plan of fewer streams"
            )
        self._handles.append(handle.value)
        stream: Stream = _torch.ExternalStream(handle.value, device=self._device)
        return stream

    def use(self, stream: torch.cuda.Stream, /) -> None:
        torch.cuda.set_stream(stream)

    def event(self, timed: bool = False) -> Event:
        event: Event = _torch.Event(enable_timing=timed)
        return event

    def upload(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device, copy=True)

    def overwrite(self, target: Tensor, source: Tensor) -> None:
        target.copy_(source)

    def download(self, tensor: Tensor) -> Tensor:
        return tensor.to("cpu")

    def begin_capture(self) -> None:
        torch.cuda.synchronize()
        free, _ = torch.cuda.mem_get_info(self._index)
        cached = torch.cuda.memory_reserved(self._index) - torch.cuda.memory_allocated(self._index)
        if cached > free:  # a capture cannot take what others keep cached
            torch.cuda.empty_cache()
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        try:
            # Other threads may use other devices meanwhile; what is unsafe here is refused here.
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        except RuntimeError:
            self._abandon(graph, pool)
            raise
        self._capture = graph, pool

    def end_capture(self) -> torch.cuda.CUDAGraph:
        if self._capture is None:
            raise RuntimeError("no capture was begun")
        (graph, pool), self._capture = self._capture, None
        try:
            graph.capture_end()
        except RuntimeError:
            self._abandon(graph, pool)
            raise
        return graph

    def _abandon(self, graph: torch.cuda.CUDAGraph, pool: Any) -> None:
        """Tell PyTorch's allocator that a broken capture is over: where CUDA refuses to begin or
        end one, PyTorch does not get as far as that. The graph is kept, because the allocators
        still refer to it."""
        self._broken.append(graph)
        with suppress(AttributeError, RuntimeError):
            torch._C._cuda_endAllocateToPool(self._index, pool)  # raises if PyTorch did it itself
            torch._C._cuda_releasePool(self._index, pool)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._index)

    def allocated_bytes(self) -> int:
        return torch.cuda.memory_allocated(self._index)

    def peak_bytes(self) -> int:
        return torch.cuda.max_memory_allocated(self._index)

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._index)

    def busy(self, milliseconds: float) -> None:
        if self._square is None:
            ramp = torch.linspace(-1, 1, _BUSY_SIDE**2, device=self._device)
            self._square = ramp.reshape(_BUSY_SIDE, _BUSY_SIDE)
        until = time.monotonic() + milliseconds / 1e3
        while time.monotonic() < until:
            torch.mm(self._square, self._square)
            torch.cuda.synchronize(self._index)

    def hold(self, milliseconds: float) -> None:
        _torch._sleep(int(milliseconds * 1e3 * self._clock_mhz))

    def flush_l2(self) -> None:
        if self._flush is None:
            self._flush = torch.empty(self._flush_bytes, dtype=torch.int8, device=self._device)
            torch.cuda.synchronize(self._index)
        self._flush.zero_()

    def annotate(self, name: str) -> AbstractContextManager[None]:
        return torch.profiler.record_function(name)

    def traced(self, body: Callable[[], None]) -> dict[str, Any]:
        # Detached after a trace, CUPTI misses the start of one that follows soon (pytorch/kineto
        # #1554), and CUDA before 12.6 crashed then when a graph was launched.
        os.environ.setdefault("TEARDOWN_CUPTI", "0")
        trace = self._trace(body)
        if self._traced_before:
            return trace
        # What is launched while CUPTI starts for the first time is not always recorded; and there
        # are machines where nothing is any longer after a first trace.
        self._traced_before = True
        return max(self._trace(body), trace, key=_records)

    def _trace(self, body: Callable[[], None]) -> dict[str, Any]:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            # The first records of a trace carry times that are too early, after a GPU was idle,
            # and Kineto drops those from before its start: pytorch/pytorch#192021.
            self.busy(_LEAD_MS)
            body()
            torch.cuda.synchronize(self._index)
        with TemporaryDirectory(prefix="plait-trace-") as folder:
            path = Path(folder, "trace.json")
            profiler.export_chrome_trace(str(path))
            trace: dict[str, Any] = json.loads(path.read_text(errors="replace"))
        return trace

    def close(self) -> None:
        handles, self._handles = self._handles, []
        self._flush = self._square = None
        if not handles:
            return
        # PyTorch's cache of workspaces is left alone: captured graphs of others may use it.
        with torch.cuda.device(self._index):
            for handle in handles:
                self._driver.cuStreamDestroy_v2(ctypes.c_void_p(handle))
            torch.cuda.empty_cache()


def _records(trace: dict[str, Any]) -> int:
    """How much of a trace the GPU did."""
    return sum(event.get("cat") in _ON_GPU for event in trace.get("traceEvents", ()))
