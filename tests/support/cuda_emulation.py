"""A CUDA runtime without a GPU: streams, events, graphs and an allocator that keep CUDA's rules.

Operators on its tensors run later, on CPU memory, in any order that stream order and events allow:
``Scheduler`` picks it at random from a seed, ``Threads`` gives each stream a thread of its own.
Memory is PyTorch's way: freed on the caller's time, kept in a list for each stream, and given out
again at once to the next allocation of the same stream. It is then filled with NaN, in stream
order. So whoever frees too early computes something else, for some orders.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

ROUND = 512  # bytes, as PyTorch rounds allocations up to

POISON = "poison"  # not a kernel of any Unit: it is not traced

LIBRARIES = {"aten::mm", "aten::addmm", "aten::bmm", "aten::convolution"}
ON_GPU = ("kernel", "gpu_memcpy")


class CudaError(RuntimeError):
    """What CUDA would refuse, too."""


@dataclass(eq=False)
class Token:
    """One recording of an event. ``node`` is set in a capture: what the recording depends on."""

    done: threading.Event = field(default_factory=threading.Event)
    at: float = 0.0
    capture: Capture | None = None
    after: frozenset[int] = frozenset()


@dataclass(eq=False)
class Work:
    """A kernel: what it does, its name and, in a trace, who launched it."""

    name: str
    action: Callable[[], None]
    correlation: int = 0


@dataclass(eq=False)
class Replay:
    """A graph that a stream runs: ``left`` are the nodes that have not run yet."""

    graph: Capture
    correlation: int
    left: set[int]


Item = Work | Replay | tuple[str, Token]


@dataclass(eq=False)
class EmulatedStream:
    number: int
    queue: deque[Item] = field(default_factory=deque)
    capture: Capture | None = None
    after: frozenset[int] = frozenset()


class EmulatedEvent:
    def __init__(self, driver: EmulatedDriver, timed: bool) -> None:
        self._driver, self._timed = driver, timed
        self._token: Token | None = None

    def record(self, stream: EmulatedStream, /) -> None:
        self._token = token = Token()
        if stream.capture is not None:
            token.capture, token.after = stream.capture, stream.after
        else:
            self._driver.enqueue(stream, ("record", token))

    def wait(self, stream: EmulatedStream, /) -> None:
        token = self._token
        if token is None:
            return  # CUDA: an event that was never recorded is complete
        if token.capture is not None:
            if token.capture.over:
                raise CudaError("CUDA error: dependency created on uncaptured work (isolation)")
            if stream.capture is None:
                stream.capture, stream.after = token.capture, frozenset()
                token.capture.streams.append(stream)
            stream.after |= token.after
        elif stream.capture is not None:
            stream.capture.broken = "dependency created on uncaptured work in another stream"
            raise CudaError(f"CUDA error: {stream.capture.broken}")
        else:
            self._driver.enqueue(stream, ("wait", token))

    def elapsed_time(self, end: EmulatedEvent, /) -> float:
        if not (self._timed and end._timed and self._token and end._token):
            raise CudaError("CUDA error: invalid resource handle")
        if not (self._token.done.is_set() and end._token.done.is_set()):
            raise CudaError("CUDA error: device not ready")
        return (end._token.at - self._token.at) / 1e3


class Capture:
    """A CUDA Graph, being captured or ready: nodes, each with those that it runs after."""

    def __init__(self, driver: EmulatedDriver, origin: EmulatedStream) -> None:
        self._driver, self.origin = driver, origin
        self.nodes: list[tuple[Work, frozenset[int]]] = []
        self.streams = [origin]
        self.over = False
        self.broken: str | None = None
        origin.capture, origin.after = self, frozenset()

    def add(self, stream: EmulatedStream, work: Work) -> None:
        self.nodes.append((work, stream.after))
        stream.after = frozenset({len(self.nodes) - 1})

    def end(self) -> None:
        joined = set(self.origin.after)
        for number in reversed(range(len(self.nodes))):
            if number in joined:
                joined |= self.nodes[number][1]
        self.over = True
        for stream in self.streams:
            stream.capture = None
        if self.broken:
            raise CudaError(f"CUDA error: operation failed due to a previous error: {self.broken}")
        if len(joined) < len(self.nodes):
            raise CudaError("CUDA error: capturing stream has unjoined work")

    def replay(self) -> None:
        self._driver.launch_graph(self)

    def reset(self) -> None:
        assert not self._driver.astray, "PyTorch may end the process here"
        assert not any(
            isinstance(item, Replay) and item.graph is self
            for stream in self._driver.streams
            for item in stream.queue
        ), "a graph that is running was reset"
        self._driver.allocator.release(self)
        self.nodes.clear()


@dataclass(eq=False)
class Block:
    memory: Tensor  # of bytes
    pool: Capture | None
    stream: int


class Allocator:
    """``lists`` hold what is free, by pool and stream. ``reuses`` counts what was given out
    again."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.lists: dict[tuple[Capture | None, int], list[Block]] = {}
        self.allocated = self.peak = self.reserved = self.reuses = 0

    def take(self, nbytes: int, pool: Capture | None, stream: int) -> tuple[Block, bool]:
        size = max(ROUND, -(-nbytes // ROUND) * ROUND)
        free = self.lists.setdefault((pool, stream), [])
        fitting = [block for block in free if block.memory.numel() == size]
        if fitting:
            block = fitting[-1]  # the one freed last, the worst case for whoever frees too early
            free.remove(block)
            self.reuses += 1
        else:
            if self.reserved + size > self._capacity:
                raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes")
            self.reserved += size
            with _plain():
                block = Block(torch.empty(size, dtype=torch.uint8), pool, stream)
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        return block, bool(fitting)

    def give_back(self, block: Block) -> None:
        self.allocated -= block.memory.numel()
        self.lists.setdefault((block.pool, block.stream), []).append(block)

    def release(self, pool: Capture) -> None:
        for key in [key for key in self.lists if key[0] is pool]:
            self.reserved -= sum(block.memory.numel() for block in self.lists.pop(key))


class _Held:
    """Keeps a block from the free list as long as a tensor refers to it."""


class DeviceTensor(Tensor):
    """A tensor of the emulated GPU. ``memory`` is where it lies; its values come later."""

    memory: Tensor
    held: _Held

    @staticmethod
    def __new__(cls, memory: Tensor, held: _Held) -> DeviceTensor:
        wrapper = Tensor._make_wrapper_subclass(
            cls,
            memory.size(),
            strides=memory.stride(),
            storage_offset=0,
            dtype=memory.dtype,
        )
        wrapper.memory, wrapper.held = memory, held
        return wrapper

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise CudaError(f"{function} was called outside of a session")


class _Launching(TorchDispatchMode):
    """Turns operators into kernels on the driver's current stream."""

    def __init__(self, driver: EmulatedDriver) -> None:
        super().__init__()
        self._driver = driver

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self._driver.dispatch(function, args, kwargs or {})


class EmulatedDriver:
    """A ``Driver``. ``eagerness`` is how much of the queued work runs while the caller goes on, 0
    none and 1 all; what is left runs when it is waited for. ``breaks_capture`` says of an
    operator's name whether it cannot be captured, ``goes_astray`` whether its kernel does something
    illegal. ``numbers_nodes`` says whether traces number the nodes of graphs. ``loses`` is how many
    of its first traces lack their first record.

    Libraries make a handle for each thread and a workspace for each of its streams when they are
    first used there, which a capture must not. An error after something illegal is for good."""

    def __init__(
        self,
        seed: int = 0,
        threads: bool = False,
        eagerness: float = 0.2,
        capacity: int = 1 << 40,
        breaks_capture: Callable[[str], bool] = lambda name: False,
        goes_astray: Callable[[str], bool] = lambda name: False,
        numbers_nodes: bool = True,
        loses: int = 0,
    ) -> None:
        self._random = random.Random(seed)
        self._eagerness = eagerness
        self._breaks_capture, self._goes_astray = breaks_capture, goes_astray
        self._numbers_nodes = numbers_nodes
        self._loses = loses
        self._handles = threading.local()
        self.allocator = Allocator(capacity)
        self.streams: list[EmulatedStream] = []
        self._now = 0.0  # µs
        self._correlations = itertools.count(1)
        self._current = threading.local()
        self._capture: Capture | None = None
        self._lock = threading.RLock()
        self._threads = threads
        self._trace: list[dict[str, Any]] | None = None
        self._marks: list[str] = []
        self.astray: str | None = None
        self.closed = False
        self.launches: list[str] = []

    # What the device asks of it.

    @contextmanager
    def session(self) -> Iterator[None]:
        default = EmulatedStream(-1) if not self.streams else self.streams[0]
        self._current.stream = default
        with torch.inference_mode(), _Launching(self):
            try:
                yield
            finally:
                self._refuse_if_astray()  # every call fails then, also what puts back the stream

    def stream(self) -> EmulatedStream:
        self.streams.append(EmulatedStream(len(self.streams)))
        return self.streams[-1]

    def use(self, stream: EmulatedStream, /) -> None:
        self._current.stream = stream

    def event(self, timed: bool = False) -> EmulatedEvent:
        return EmulatedEvent(self, timed)

    def upload(self, tensor: Tensor) -> Tensor:
        copy = self._empty(tensor.shape, tensor.stride(), tensor.dtype)
        self.overwrite(copy, tensor)
        return copy

    def overwrite(self, target: Tensor, source: Tensor) -> None:
        assert isinstance(target, DeviceTensor)
        assert not isinstance(source, DeviceTensor)
        with _plain():
            held, memory = source.clone(), target.memory
        self._launch("Memcpy HtoD", lambda: memory.copy_(held))
        self._wait_for(self._current.stream)

    def download(self, tensor: Tensor) -> Tensor:
        assert isinstance(tensor, DeviceTensor)
        self._wait_for(self._current.stream)
        with _plain():
            return tensor.memory.clone()

    def begin_capture(self) -> None:
        self.synchronize()
        assert self._current.stream.number >= 0, "the default stream cannot be captured"
        self._capture = Capture(self, self._current.stream)

    def end_capture(self) -> Capture:
        capture, self._capture = self._capture, None
        assert capture is not None
        assert self._current.stream is capture.origin
        capture.end()
        return capture

    def synchronize(self) -> None:
        if self._capture is not None:
            self._capture.broken = "operation not permitted when stream is capturing"
            raise CudaError(f"CUDA error: {self._capture.broken}")
        self._run(lambda: not any(stream.queue for stream in self.streams))
        self._refuse_if_astray()

    def allocated_bytes(self) -> int:
        return self.allocator.allocated

    def peak_bytes(self) -> int:
        return self.allocator.peak

    def reset_peak(self) -> None:
        self.allocator.peak = self.allocator.allocated

    def busy(self, milliseconds: float) -> None:
        self.launches.append("busy")

    def hold(self, milliseconds: float) -> None:
        self.launches.append("hold")

    def flush_l2(self) -> None:
        self.launches.append("flush")

    def annotate(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self._trace is None else self._annotated(name)

    def traced(self, body: Callable[[], None]) -> dict[str, Any]:
        self._trace = events = []
        try:
            body()
            self.synchronize()
        finally:
            self._trace = None
        if self._loses:
            self._loses -= 1
            events.remove(next(event for event in events if event["cat"] in ON_GPU))
        return {"schemaVersion": 1, "traceEvents": events}

    def close(self) -> None:
        self._refuse_if_astray()
        assert not any(stream.queue for stream in self.streams)
        self.closed = True

    # Operators.

    def dispatch(self, function: Any, args: Any, kwargs: Any) -> Any:
        leaves = tree_leaves((args, kwargs))
        if not any(isinstance(leaf, DeviceTensor) for leaf in leaves):
            return self._making(function, args, kwargs)
        for leaf in leaves:
            if isinstance(leaf, Tensor) and not isinstance(leaf, DeviceTensor) and leaf.ndim:
                raise CudaError(f"{function}: expected all tensors to be on the same device")
        if torch._C._dispatch_has_kernel_for_dispatch_key(
            function.name(), "CompositeImplicitAutograd"
        ):
            with _Launching(self):
                return function.decompose(*args, **kwargs)
        name = function.name()
        stream = self._current.stream
        known = self._handles.__dict__.setdefault("streams", set())
        new = name in LIBRARIES and stream.number not in known
        if stream.capture is not None and (new or self._breaks_capture(name)):
            stream.capture.broken = "operation not permitted when stream is capturing"
            raise CudaError(f"CUDA error: {stream.capture.broken}")
        if new:
            known.add(stream.number)
        memory = tree_map(_memory, (args, kwargs))
        if _reads_back(function, args):
            self._wait_for(stream)
            return self.upload(function(*memory[0], **memory[1]))
        kinds = {
            bool(result.alias_info.is_write)
            for result in function._schema.returns
            if result.alias_info is not None
        }
        if kinds == {False}:  # views: no kernel
            (operand,) = (leaf for leaf in leaves if isinstance(leaf, DeviceTensor))
            with _plain():
                views = function(*memory[0], **memory[1])
            return tree_map(
                lambda view: DeviceTensor(view, operand.held) if isinstance(view, Tensor) else view,
                views,
            )
        if kinds == {True}:  # in place
            self._launch(name, lambda: function(*memory[0], **memory[1]))
            return args[0]
        return self._allocating(function, name, memory)

    def _making(self, function: Any, args: Any, kwargs: Any) -> Any:
        if torch.device(kwargs.get("device") or "cpu").type == "cpu":
            return function(*args, **kwargs)
        # An operator without operands makes its result on the GPU, if it is told to.
        made = function(*args, **{**kwargs, "device": "cpu"})
        result = self._empty(made.shape, made.stride(), made.dtype)
        target = result.memory
        self._launch(function.name(), lambda: target.copy_(made))
        return result

    def _allocating(self, function: Any, name: str, memory: Any) -> Any:
        with _plain():
            meta = tree_map(_meta, memory)
            shapes = function(*meta[0], **meta[1])
        single = isinstance(shapes, Tensor)
        results = [
            self._empty(shape.shape, shape.stride(), shape.dtype)
            for shape in ([shapes] if single else shapes)
        ]
        targets = [result.memory for result in results]

        def kernel() -> None:
            made = function(*memory[0], **memory[1])
            for target, value in zip(targets, [made] if single else made, strict=True):
                target.copy_(value)

        self._launch(name, kernel)
        return results[0] if single else type(shapes)(results)

    def _empty(self, shape: Any, stride: Any, dtype: torch.dtype) -> DeviceTensor:
        """New memory, full of NaN if it was used before."""
        extent = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if shape else 1
        extent = 0 if 0 in shape else extent
        stream = self._current.stream
        pool = self._capture if stream.capture is not None else None
        nbytes = max(1, extent * dtype.itemsize)
        block, reused = self.allocator.take(nbytes, pool, stream.number)
        held, memory = _Held(), block.memory
        weakref.finalize(held, self.allocator.give_back, block)
        if reused:
            self._launch(POISON, lambda: memory.fill_(255))
        with _plain():
            typed = memory[: extent * dtype.itemsize].view(dtype).as_strided(shape, stride)
        return DeviceTensor(typed, held)

    # Streams.

    def _launch(self, name: str, action: Callable[[], None]) -> None:
        stream = self._current.stream
        work = Work(name, action, next(self._correlations))
        self.launches.append(name)
        if stream.capture is not None:
            stream.capture.add(stream, work)
            return
        if name != POISON:
            self._told("cuda_runtime", "cudaLaunchKernel", work.correlation)
        self.enqueue(stream, work)

    def launch_graph(self, graph: Capture) -> None:
        correlation = next(self._correlations)
        self.launches.append("graph")
        self._told("cuda_runtime", "cudaGraphLaunch", correlation)
        self.enqueue(self._current.stream, Replay(graph, correlation, set(range(len(graph.nodes)))))

    def enqueue(self, stream: EmulatedStream, item: Item) -> None:
        self._refuse_if_astray()
        assert stream.number >= 0, "no stream was chosen"
        stream.queue.append(item)
        if not self._threads:
            while self._random.random() < self._eagerness and self._step():
                pass

    def _refuse_if_astray(self) -> None:
        if self.astray:
            raise CudaError(f"CUDA error: {self.astray}\nCUDA kernel errors might be asynchronous")

    def _wait_for(self, stream: EmulatedStream) -> None:
        if stream.capture is not None:
            stream.capture.broken = "operation not permitted when stream is capturing"
            raise CudaError(f"CUDA error: {stream.capture.broken}")
        self._run(lambda: not stream.queue)

    def _run(self, over: Callable[[], bool]) -> None:
        if self._threads:
            self._run_on_threads()
        while not over():
            if not self._step():
                raise CudaError("CUDA error: the streams wait for each other for ever")

    def _run_on_threads(self) -> None:
        """Everything that is queued, each stream on a thread."""
        busy = [stream for stream in self.streams if stream.queue]
        threads = [threading.Thread(target=self._drain, args=(stream,)) for stream in busy]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
            assert not thread.is_alive(), "a stream waits for ever"

    def _drain(self, stream: EmulatedStream) -> None:
        chance = random.Random(self._random.random())
        while stream.queue:
            item = stream.queue[0]
            if isinstance(item, tuple) and item[0] == "wait":
                item[1].done.wait(timeout=20)
                stream.queue.popleft()
                continue
            if chance.random() < 0.3:
                time.sleep(chance.random() * 1e-3)
            self._advance(stream)

    def _step(self) -> bool:
        """Run one thing that may run now; whether there was any."""
        able = [
            stream
            for stream in self.streams
            if stream.queue
            and not (
                isinstance(stream.queue[0], tuple)
                and stream.queue[0][0] == "wait"
                and not stream.queue[0][1].done.is_set()
            )
        ]
        if not able:
            return False
        self._advance(self._random.choice(able))
        return True

    def _advance(self, stream: EmulatedStream) -> None:
        item = stream.queue[0]
        if isinstance(item, Replay):
            ready = [n for n in item.left if not item.graph.nodes[n][1] & item.left]
            if ready:
                node = self._random.choice(ready)
                self._perform(
                    item.graph.nodes[node][0],
                    stream,
                    item.correlation,
                    (node + 1) * self._numbers_nodes,
                )
                item.left.discard(node)
            if not item.left:
                stream.queue.popleft()
        else:
            if isinstance(item, Work):
                self._perform(item, stream, item.correlation, 0)
            elif item[0] == "record":
                item[1].at = self._now
                item[1].done.set()
            stream.queue.popleft()

    def _perform(self, work: Work, stream: EmulatedStream, correlation: int, node: int) -> None:
        if self._goes_astray(work.name):
            self.astray = "an illegal memory access was encountered"
        start = self._now
        with _plain(), torch.inference_mode():
            work.action()
        with self._lock:
            self._now = max(self._now, start) + 1 + 9 * self._random.random()
            if self._trace is not None and work.name != POISON:
                self._trace.append(_kernel(work.name, start, self._now, stream, correlation, node))

    # Traces.

    @contextmanager
    def _annotated(self, name: str) -> Iterator[None]:
        assert self._trace is not None
        start = self._tick()
        yield
        mark = {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 11}
        self._trace.append({**mark, "ts": start, "dur": self._tick() - start, "args": {}})

    def _told(self, category: str, name: str, correlation: int) -> None:
        if self._trace is not None:
            call = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 11, "dur": 0.5}
            self._trace.append(
                {**call, "ts": self._tick(), "args": {"cbid": 211, "correlation": correlation}}
            )

    def _tick(self) -> float:
        with self._lock:
            self._now += 0.25
            return self._now


def _kernel(
    name: str, start: float, end: float, stream: EmulatedStream, correlation: int, node: int
) -> dict[str, Any]:
    copies = name.startswith("Memcpy")
    arguments: dict[str, Any] = {"device": 0, "stream": stream.number, "correlation": correlation}
    if not copies:
        arguments |= {
            "grid": [4, 1, 1],
            "block": [128, 1, 1],
            "registers per thread": 32,
            "shared memory": 1024,
        }
    if node:
        arguments["graph node id"] = node
    category = "gpu_memcpy" if copies else "kernel"
    event = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream.number}
    return {**event, "ts": start, "dur": end - start, "args": arguments}


def _reads_back(function: Any, args: Any) -> bool:
    """Whether the shape of the result depends on the operands' values."""
    if function is torch.ops.aten.index.Tensor:
        return any(index is not None and index.dtype is torch.bool for index in args[1])
    return torch.Tag.dynamic_output_shape in function.tags


def _plain() -> AbstractContextManager[Any]:
    """Operators inside are those of the CPU."""
    return torch.utils._python_dispatch._disable_current_modes()


def _memory(leaf: Any) -> Any:
    return leaf.memory if isinstance(leaf, DeviceTensor) else leaf


def _meta(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    return torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device="meta")
