"""The processor's own counters of the measuring thread, where the kernel offers them.

``perf_event_open(2)`` by ctypes. Virtual machines often have no counters, containers often forbid
them, and then there are none.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Sequence

_SYSCALL = {"x86_64": 298, "aarch64": 241}
HARDWARE, SOFTWARE = 0, 1
"""``PERF_TYPE_HARDWARE`` and ``PERF_TYPE_SOFTWARE``."""
CYCLES, INSTRUCTIONS = (HARDWARE, 0), (HARDWARE, 1)

_ATTRIBUTE_BYTES = 112
_TIMES = 0b11
"""``PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING``."""
_USER_ONLY = 1 << 5 | 1 << 6
"""``exclude_kernel`` and ``exclude_hv``: what an ordinary user may count."""
_CLOSE_ON_EXEC = 8


class Counters:
    """Counts ``events``, each a type and a number of perf_event_open(2), of the thread that makes
    it. Raises OSError where one of them cannot be counted."""

    def __init__(self, events: Sequence[tuple[int, int]] = (CYCLES, INSTRUCTIONS)) -> None:
        self._files: list[int] = []
        try:
            for kind, number in events:
                self._files.append(_open(kind, number))
        except OSError:
            self.close()
            raise

    def read(self) -> tuple[tuple[int, int, int], ...]:
        """Of each event the count so far, and for how long it was wanted and counted in ns."""
        return tuple(struct.unpack("QQQ", os.read(file, 24)) for file in self._files)

    def close(self) -> None:
        """Safe to call twice."""
        while self._files:
            os.close(self._files.pop())


def between(
    before: Sequence[tuple[int, int, int]], after: Sequence[tuple[int, int, int]]
) -> tuple[int | None, ...]:
    """What was counted between two readings, None of what others used the counter for meanwhile."""
    return tuple(
        later - earlier if wanted_later - wanted == counted_later - counted else None
        for (earlier, wanted, counted), (later, wanted_later, counted_later) in zip(
            before, after, strict=True
        )
    )


def open_counters() -> Counters | None:
    """Cycles and instructions in user mode, None where there are none."""
    try:
        return Counters()
    except OSError:
        return None


def _open(kind: int, number: int) -> int:
    syscall = _SYSCALL.get(platform.machine())
    if syscall is None:
        raise OSError(f"counters are not known on {platform.machine()}")
    attribute = struct.pack(
        "IIQQQQQ", kind, _ATTRIBUTE_BYTES, number, 0, 0, _TIMES, _USER_ONLY
    ).ljust(_ATTRIBUTE_BYTES, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    file = libc.syscall(syscall, attribute, 0, -1, -1, _CLOSE_ON_EXEC)
    if file < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(file)
