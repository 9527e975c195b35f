"""Reading a Chrome trace of torch.profiler: which kernels ran when, and who launched them.

Pure functions of the trace's JSON. What is used of the format (Kineto writes it): events of phase
``X`` with ``cat``, ``name``, ``ts`` and ``dur`` in µs, ``tid`` and ``args``. Categories are
``kernel``, ``gpu_memcpy`` and ``gpu_memset`` for what the GPU did, ``cuda_runtime`` and
``cuda_driver`` for the calls that launched it, and ``user_annotation`` for ``record_function``.
A call and what it launched share ``args.correlation``; all nodes of a CUDA Graph have that of the
graph's launch, and are told apart by ``args["graph node id"]`` where the profiler writes one, as
PyTorch 2.13 does and 2.11 does not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_CALLS = ("cuda_runtime", "cuda_driver")
_GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")
_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaMemcpyAsync", "cudaMemsetAsync")


@dataclass(frozen=True, slots=True)
class Record:
    """What the GPU did from ``start_us`` for ``duration_us`` on stream ``stream``, as the profiler
    numbers them; a kernel has a grid. ``node`` is its number in the CUDA Graph that it belongs to,
    None outside of one or where none is told."""

    name: str
    category: str
    start_us: float
    duration_us: float
    correlation: int
    stream: int | None = None
    node: int | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers_per_thread: int | None = None
    shared_memory_bytes: int | None = None

    @property
    def end_us(self) -> float:
        return self.start_us + self.duration_us


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the CUDA runtime or driver on thread ``thread``."""

    name: str
    start_us: float
    thread: Any


@dataclass(frozen=True, slots=True)
class Annotation:
    """A span of ``record_function`` on thread ``thread``."""

    name: str
    start_us: float
    end_us: float
    thread: Any


@dataclass(frozen=True, slots=True)
class Trace:
    """Records and annotations by time, calls by correlation id."""

    records: tuple[Record, ...]
    calls: Mapping[int, Call]
    annotations: tuple[Annotation, ...]


def read_trace(data: Mapping[str, Any]) -> Trace:
    """Pick from the JSON of a trace what tells kernels and their launches. Events of other kinds,
    and those without the fields that theirs has, are passed over."""
    records, annotations = [], []
    calls: dict[int, Call] = {}
    for event in data.get("traceEvents", ()):
        if event.get("ph") != "X" or "ts" not in event:
            continue
        category, arguments = str(event.get("cat", "")).lower(), event.get("args", {})
        if category in _ON_GPU and "correlation" in arguments:
            records.append(_record(event, category, arguments))
        elif category in _CALLS and "correlation" in arguments:
            # A runtime call and the driver call inside it share the id: the outer one began first.
            call = Call(str(event["name"]), float(event["ts"]), event.get("tid"))
            number = int(arguments["correlation"])
            if number not in calls or call.start_us < calls[number].start_us:
                calls[number] = call
        elif category == "user_annotation":
            start = float(event["ts"])
            end = start + float(event.get("dur", 0))
            annotations.append(Annotation(str(event["name"]), start, end, event.get("tid")))
    records.sort(key=lambda record: record.start_us)
    annotations.sort(key=lambda annotation: annotation.start_us)
    return Trace(tuple(records), calls, tuple(annotations))


def _record(event: Mapping[str, Any], category: str, arguments: Mapping[str, Any]) -> Record:
    node = arguments.get("graph node id")
    return Record(
        name=str(event["name"]),
        category=category,
        start_us=float(event["ts"]),
        duration_us=float(event.get("dur", 0)),
        correlation=int(arguments["correlation"]),
        stream=_count(arguments.get("stream")),
        node=int(node) if node else None,
        grid=_extent(arguments.get("grid")),
        block=_extent(arguments.get("block")),
        registers_per_thread=_count(arguments.get("registers per thread")),
        shared_memory_bytes=_count(arguments.get("shared memory")),
    )


def _extent(value: Any) -> tuple[int, int, int] | None:
    if not isinstance(value, Sequence) or len(value) != 3:
        return None
    x, y, z = (int(size) for size in value)
    return x, y, z


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def launched_inside(trace: Trace, prefix: str) -> tuple[tuple[str, Record], ...]:
    """What was launched inside annotations whose names begin with ``prefix``, in launch order,
    each with the rest of that name.

    The annotations must not overlap on their thread. Only calls of that thread count, unless the
    trace names none of them by it.
    """
    inside = _calls_inside(trace, prefix)
    found = [
        (trace.calls[record.correlation].start_us, inside[record.correlation], record)
        for record in trace.records
        if record.correlation in inside
    ]
    found.sort(key=lambda entry: (entry[0], entry[2].start_us))
    return tuple((name, record) for _, name, record in found)


def unrecorded(trace: Trace, prefix: str) -> int:
    """How many launches inside such annotations there are no records of."""
    recorded = {record.correlation for record in trace.records}
    return sum(
        number not in recorded and trace.calls[number].name.startswith(_LAUNCHES)
        for number in _calls_inside(trace, prefix)
    )


def _calls_inside(trace: Trace, prefix: str) -> dict[int, str]:
    """The calls inside such annotations by correlation id, each with the rest of the name."""
    marks = [mark for mark in trace.annotations if mark.name.startswith(prefix)]
    threads = {mark.thread for mark in marks}
    by_thread = any(call.thread in threads for call in trace.calls.values())
    starts = [mark.start_us for mark in marks]
    found = {}
    for number, call in trace.calls.items():
        if by_thread and call.thread not in threads:
            continue
        position = bisect_right(starts, call.start_us) - 1
        if position >= 0 and call.start_us <= marks[position].end_us:
            found[number] = marks[position].name.removeprefix(prefix)
    return found


def unclaimed(trace: Trace) -> tuple[Record, ...]:
    """What the GPU did without a call in the trace that launched it: nobody can tell for whom."""
    return tuple(record for record in trace.records if record.correlation not in trace.calls)


def graph_records(trace: Trace) -> tuple[Record, ...]:
    """What the launches of CUDA Graphs ran, by time."""
    return tuple(
        record
        for record in trace.records
        if record.correlation in trace.calls
        and trace.calls[record.correlation].name.startswith(_GRAPH_LAUNCHES)
    )
