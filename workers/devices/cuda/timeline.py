"""Timelines and kernel profiles from what a trace of the device says. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workers.devices.base import Span, Timeline
from workers.devices.cuda.trace import Record
from workers.graph.graph import Graph
from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel
from workers.hardware.occupancy import resident_warps
from workers.schedules.plan import Plan


def kernel_of(unit: str, record: Record) -> Kernel:
    return Kernel(
        unit=unit,
        name=record.name,
        duration_ms=record.duration_us / 1e3,
        grid=record.grid,
        block=record.block,
        registers_per_thread=record.registers_per_thread,
        shared_memory_bytes=record.shared_memory_bytes,
    )


def kernels(recorded: Sequence[tuple[str, Record]]) -> tuple[Kernel, ...]:
    """The kernels of all Units, in the order in which they began."""
    by_start = sorted(recorded, key=lambda entry: entry[1].start_us)
    return tuple(kernel_of(unit, record) for unit, record in by_start)


def timeline(
    plan: Plan, graph: Graph, recorded: Sequence[tuple[str, Record]], gpu: GpuFacts | None
) -> Timeline:
    """The Timeline of one run: a Unit lasts from the start of its first kernel to the end of its
    last, on the Plan's stream. One that launches no kernel takes no time, when all before it on
    its stream and all that it reads have ended."""
    origin = min((record.start_us for _, record in recorded), default=0.0)
    own: dict[str, list[Record]] = {}
    for unit, record in recorded:
        own.setdefault(unit, []).append(record)
    ends: dict[str, float] = {}
    stream_end: dict[int, float] = {}
    spans = []
    for launch in plan.launches:
        position = graph.index[launch.unit]
        before = [ends[graph.units[other].name] for other in graph.predecessors[position]]
        ready = max([0.0, stream_end.get(launch.stream, 0.0), *before])
        start = end = ready
        if launch.unit in own:
            start = (min(record.start_us for record in own[launch.unit]) - origin) / 1e3
            end = (max(record.end_us for record in own[launch.unit]) - origin) / 1e3
        ends[launch.unit] = end
        stream_end[launch.stream] = max(ready, end)
        spans.append(Span(launch.unit, graph.units[position].kind, launch.stream, start, end))
    spans.sort(key=lambda span: span.start_ms)
    intervals = [
        ((record.start_us - origin) / 1e3, (record.end_us - origin) / 1e3, kernel_of(unit, record))
        for unit, record in recorded
    ]
    warps = () if gpu is None else resident_warps(gpu, intervals)
    return Timeline(tuple(spans), warps)
