"""The one form of measurements outside of a process: JSON lines, one measurement each.

``FileIndex`` keeps them, export writes them, import reads them. A line is an object of ``version``,
the four fields of the key and those of the measurement; an infinite latency is ``null``, so that
every JSON parser reads it::

    {"version": 1, "device_fingerprint": "cpu-5f0e", "provider": "aten",
     "context": "concurrent threads=2", "signature": "9a...:1|2", "latency_ms": 1.5,
     "low_ms": 1.25, "high_ms": 1.75, "samples": 30, "outliers": 2, "simulated": false,
     "failure": null, "reason": null}
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from workers.measure.measurement import Failure, Measurement

VERSION = 1


@dataclass(frozen=True, slots=True)
class ProfileKey:
    """What was measured (``signature``), under which thread counts and the like (``context``), on
    which device, by which implementation of the operators (``provider``)."""

    device_fingerprint: str
    provider: str
    context: str
    signature: str


Entry = tuple[ProfileKey, Measurement]


class ProfileLineError(ValueError):
    """A line that is no measurement; says which line of what, and why."""


_KEY = tuple(field.name for field in fields(ProfileKey))
_LATENCIES = ("latency_ms", "low_ms", "high_ms")
_FIELDS = {"version", *_KEY, *(field.name for field in fields(Measurement))}


def to_line(key: ProfileKey, measurement: Measurement) -> str:
    """The line of one measurement, with its end of line."""
    data: dict[str, Any] = {"version": VERSION}
    data |= {name: getattr(key, name) for name in _KEY}
    data |= {name: _finite(getattr(measurement, name)) for name in _LATENCIES}
    data |= {
        "samples": measurement.samples,
        "outliers": measurement.outliers,
        "simulated": measurement.simulated,
        "failure": measurement.failure.value if measurement.failure else None,
        "reason": measurement.reason,
    }
    return json.dumps(data) + "\n"


def from_line(line: str | bytes) -> Entry:
    """The inverse of ``to_line``. Raises ProfileLineError saying what is wrong with it."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProfileLineError(f"it is not JSON: {error}") from error
    return from_json(data)


def from_json(data: Any) -> Entry:
    """The entry of a parsed line. Raises ProfileLineError."""
    if not isinstance(data, dict):
        raise ProfileLineError(f"it is not an object: {data!r:.100}")
    if data.get("version") != VERSION:
        raise ProfileLineError(
            f"its version is {data.get('version')!r}; this Plait reads version {VERSION}"
        )
    if odd := sorted(data.keys() ^ _FIELDS):
        raise ProfileLineError(f"{'unknown' if odd[0] in data else 'missing'} field {odd[0]!r}")
    key = ProfileKey(**{name: _text(data, name) for name in _KEY})
    latency, low, high = (_latency(data, name) for name in _LATENCIES)
    failure = _failure(data)
    if math.isinf(latency) != (failure is not None):
        raise ProfileLineError("'latency_ms' is null exactly where there is a 'failure'")
    if low > high:
        raise ProfileLineError(f"its interval from {low:g} to {high:g} ms ends before it begins")
    if not isinstance(data["simulated"], bool):
        raise ProfileLineError(f"'simulated' is {data['simulated']!r}, not true or false")
    return key, Measurement(
        latency_ms=latency,
        low_ms=low,
        high_ms=high,
        samples=_count(data, "samples"),
        outliers=_count(data, "outliers"),
        simulated=data["simulated"],
        failure=failure,
        reason=None if data["reason"] is None else _text(data, "reason"),
    )


def read_lines(lines: Iterable[str | bytes], source: str) -> Iterator[Entry]:
    """The entries of ``lines``, empty ones skipped. Raises ProfileLineError naming ``source`` and
    the number of the line, counted from 1."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield from_line(line)
            except ProfileLineError as error:
                raise ProfileLineError(
                    f"{source}, line {number} is no measurement: {error}"
                ) from error


def write_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """The lines of ``entries``, for a file or a response."""
    return (to_line(key, measurement) for key, measurement in entries)


def _finite(latency: float) -> float | None:
    return latency if math.isfinite(latency) else None


def _latency(data: dict[str, Any], name: str) -> float:
    value = data[name]
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ProfileLineError(f"{name!r} is {value!r}, not a latency in ms or null")
    return float(value)


def _text(data: dict[str, Any], name: str) -> str:
    if not isinstance(data[name], str):
        raise ProfileLineError(f"{name!r} is {data[name]!r}, not a text")
    return str(data[name])


def _count(data: dict[str, Any], name: str) -> int:
    value = data[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProfileLineError(f"{name!r} is {value!r}, not a count")
    return value


def _failure(data: dict[str, Any]) -> Failure | None:
    if data["failure"] is None:
        return None
    try:
        return Failure(data["failure"])
    except ValueError as error:
        raise ProfileLineError(f"unknown failure {data['failure']!r}") from error
