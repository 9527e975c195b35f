"""The ProfileIndex: every measurement ever taken, so that nothing is measured twice (Astra)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from workers.measure.measurement import Failure, Measurement


@dataclass(frozen=True, slots=True)
class ProfileKey:
    """What was measured (``signature``), under which thread counts and the like (``context``), on
    which device, by which implementation of the operators (``provider``)."""

    device_fingerprint: str
    provider: str
    context: str
    signature: str


_KEY_FIELDS = tuple(field.name for field in fields(ProfileKey))


class ProfileIndex(Protocol):
    """One conformance suite holds for every implementation."""

    def lookup(self, keys: Sequence[ProfileKey]) -> dict[ProfileKey, Measurement]:
        """The known ones among ``keys``."""
        ...

    def record(self, entries: Mapping[ProfileKey, Measurement]) -> None:
        """Store new measurements; the first one of a key stays."""
        ...


class MemoryIndex:
    """Lives as long as the process."""

    def __init__(self) -> None:
        self._entries: dict[ProfileKey, Measurement] = {}

    def lookup(self, keys: Sequence[ProfileKey]) -> dict[ProfileKey, Measurement]:
        return {key: self._entries[key] for key in keys if key in self._entries}

    def record(self, entries: Mapping[ProfileKey, Measurement]) -> None:
        for key, measurement in entries.items():
            self._entries.setdefault(key, measurement)


class FileIndex:
    """JSON lines in one file, one measurement each, only ever appended to.

    Read once, when it is opened; raises ValueError for a line that is JSON but no measurement.
    Each ``record`` is one write in append mode, so several processes may share the file. A crash
    can tear the last line off: the next writer ends it, and readers skip what is not JSON.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = MemoryIndex()
        content = path.read_bytes() if path.exists() else b""
        self._torn = bool(content) and not content.endswith(b"\n")
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                data = json.loads(line)
            except ValueError:
                continue
            self._known.record(_from_json(data, path, number))

    def lookup(self, keys: Sequence[ProfileKey]) -> dict[ProfileKey, Measurement]:
        return self._known.lookup(keys)

    def record(self, entries: Mapping[ProfileKey, Measurement]) -> None:
        known = self._known.lookup(list(entries))
        fresh = {key: entries[key] for key in entries if key not in known}
        if not fresh:
            return
        text = "".join(
            f"{json.dumps(asdict(key) | asdict(measurement))}\n"
            for key, measurement in fresh.items()
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write((b"\n" if self._torn else b"") + text.encode())
            file.flush()
            os.fsync(file.fileno())
        self._torn = False
        self._known.record(fresh)


def _from_json(data: Any, path: Path, number: int) -> dict[ProfileKey, Measurement]:
    try:
        key = ProfileKey(**{name: data.pop(name) for name in _KEY_FIELDS})
        failure = data.pop("failure")
        return {key: Measurement(**data, failure=Failure(failure) if failure else None)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}, line {number} is no measurement: {error}") from error
