"""The ProfileIndex: every measurement ever taken, so that nothing is measured twice.

This is Astra's profile index (Section 4.6) made durable. There, a profile's key is the identifier
of what was run, and whatever its measurement depends on is mangled into it as a prefix: changing
such a binding misses the index and measures again, changing any other finds what was measured. Here
``signature`` identifies what ran by its structure and not by name, and the prefixes are, from the
outermost:

- ``device_fingerprint``: another device, other library versions, other settings. Two devices that
  may time differently never share an entry.
- ``provider``: who made the kernels.
- ``context``: how the stage was run, such as ``concurrent threads=1+1`` or ``merge threads=2``,
  and whether it was ``rechecked``: measured again in turns, because a search had chosen it.

All else is inherited: what else is in the model, which scheduler asked, which job, and when. A
stage is measured alone, from its fork to its join, so none of that is part of what was timed.
Astra's buckets of input sizes need no prefix, as the shapes are part of the structure; and where
Astra keeps the best value for each context, the schedulers compare, and the index only remembers.

**Failures.** An index stores what it is given. What may go well the next time (a timeout, memory
that others held, a crash, a used-up budget) is not given to it: ``Failure.lasting`` is false, and
the oracle keeps such an answer for its own search only, so that the next one tries again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from workers.measure.measurement import Measurement
from workers.measure.profile_lines import Entry, ProfileKey, ProfileLineError, from_json, to_line

__all__ = ["FileIndex", "MemoryIndex", "ProfileIndex", "ProfileKey"]


class ProfileIndex(Protocol):
    """One conformance suite holds for every implementation."""

    def lookup(self, keys: Sequence[ProfileKey]) -> dict[ProfileKey, Measurement]:
        """The known ones among ``keys``."""
        ...

    def record(self, entries: Mapping[ProfileKey, Measurement]) -> None:
        """Store new measurements; the first one of a key stays. This is also how others are
        imported."""
        ...

    def entries(self, device_fingerprint: str | None = None) -> Iterator[Entry]:
        """Every measurement, or those of one device, each once: for export."""
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

    def entries(self, device_fingerprint: str | None = None) -> Iterator[Entry]:
        for key, measurement in list(self._entries.items()):
            if device_fingerprint in (None, key.device_fingerprint):
                yield key, measurement


class FileIndex:
    """JSON lines in one file (see ``profile_lines``), only ever appended to.

    Read once, when it is opened; raises ProfileLineError for a line that is JSON but no
    measurement. Each ``record`` is one write in append mode, so several processes may share the
    file. A crash can tear the last line off: the next writer ends it, and readers skip what is not
    JSON.
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
            try:
                key, measurement = from_json(data)
            except ProfileLineError as error:
                raise ProfileLineError(
                    f"{path}, line {number} is no measurement: {error};"
                    " mend or remove the line, or move the file away to start a new one"
                ) from error
            self._known.record({key: measurement})

    def lookup(self, keys: Sequence[ProfileKey]) -> dict[ProfileKey, Measurement]:
        return self._known.lookup(keys)

    def record(self, entries: Mapping[ProfileKey, Measurement]) -> None:
        known = self._known.lookup(list(entries))
        fresh = {key: entries[key] for key in entries if key not in known}
        if not fresh:
            return
        text = "".join(to_line(key, measurement) for key, measurement in fresh.items())
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write((b"\n" if self._torn else b"") + text.encode())
            file.flush()
            os.fsync(file.fileno())
        self._torn = False
        self._known.record(fresh)

    def entries(self, device_fingerprint: str | None = None) -> Iterator[Entry]:
        return self._known.entries(device_fingerprint)
