"""A timeline as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The form is the JSON object of the Trace Event Format (Google, "Trace Event Format"): complete
events (``ph`` X) with ``ts`` and ``dur`` in microseconds, counters (C) and metadata (M).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PROCESS = 1
_FIRST_TRACK = 2  # a thread with the number of its process would be drawn as its main thread
_WARPS = "resident warps"


@dataclass(frozen=True, slots=True)
class TraceSubject:
    """What was traced. ``device`` says its name and, where it is known, what that is."""

    model: str
    batch_size: int
    scheduler: str
    device: str
    provider: str
    simulated: bool
    latency_ms: float


def device_words(name: str, environment: Mapping[str, Any]) -> str:
    """The device's name and, where the environment of a measurement tells it, what that is."""
    description = environment.get("device")
    return f"{name}: {description}" if description else name


def chrome_trace(
    subject: TraceSubject,
    spans: Sequence[Mapping[str, Any]],
    resident_warps: Sequence[Sequence[float]] = (),
) -> dict[str, Any]:
    """The trace of one run: a track for each stream, a slice for each Unit with what it waited for
    in its ``args``, and a counter of the resident warps where there are any.

    ``spans`` and ``resident_warps`` are those of ``backend.db.tables.Timeline``.
    """
    return {
        "traceEvents": [
            *_names(subject, sorted({int(span["stream"]) for span in spans})),
            *_slices(spans),
            *_counter(resident_warps),
        ],
        "displayTimeUnit": "ms",
        "otherData": {
            "model": subject.model,
            "batch_size": subject.batch_size,
            "scheduler": subject.scheduler,
            "device": subject.device,
            "provider": subject.provider,
            "simulated": subject.simulated,
            "latency_ms": subject.latency_ms,
        },
    }


def _names(subject: TraceSubject, streams: Iterable[int]) -> Iterable[dict[str, Any]]:
    label = " (simulated)" if subject.simulated else ""
    yield _metadata("process_name", 0, name=f"{subject.device}{label}")
    words = f"{subject.model}, batch {subject.batch_size}, {subject.scheduler}"
    yield _metadata("process_labels", 0, labels=words)
    for stream in streams:
        yield _metadata("thread_name", _track(stream), name=f"stream {stream}")
        yield _metadata("thread_sort_index", _track(stream), sort_index=stream)


def _metadata(kind: str, track: int, **args: object) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": track, "args": args}


def _slices(spans: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """Slices of one track must not overlap unless one holds the other, or viewers drop them. Two
    records of one stream may, by a clock's resolution: the later slice then begins where the
    earlier ends, and ``args`` has its own times."""
    ends: dict[int, int] = {}
    for span in sorted(spans, key=lambda span: (span["stream"], span["start_ms"], span["end_ms"])):
        stream, start, end = int(span["stream"]), _ns(span["start_ms"]), _ns(span["end_ms"])
        begin = max(start, ends.get(stream, start))
        ends[stream] = max(begin, end)
        yield {
            "ph": "X",
            "name": span["unit"],
            "cat": span["kind"],
            "pid": _PROCESS,
            "tid": _track(stream),
            "ts": begin / 1e3,
            "dur": (ends[stream] - begin) / 1e3,
            "args": {
                "kind": span["kind"],
                "start_ms": span["start_ms"],
                "end_ms": span["end_ms"],
                "waited": list(span.get("waited") or ()),
            },
        }


def _counter(steps: Iterable[Sequence[float]]) -> Iterable[dict[str, Any]]:
    for at_ms, warps in steps:
        yield {
            "ph": "C",
            "name": _WARPS,
            "pid": _PROCESS,
            "tid": 0,
            "ts": _ns(at_ms) / 1e3,
            "args": {"warps": warps},
        }


def _track(stream: int) -> int:
    return _FIRST_TRACK + stream


def _ns(ms: float) -> int:
    """Whole nanoseconds, the finest that viewers keep: so that slices which touch still do."""
    return round(ms * 1e6)
