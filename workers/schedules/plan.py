"""The Plan: what every Schedule lowers to and every Device runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stream:
    """A queue that runs its launches in order. ``threads`` is its intra-operator thread count on
    a CPU and ignored elsewhere."""

    threads: int = 1


@dataclass(frozen=True, slots=True)
class Launch:
    """Run one Unit on one stream, after its earlier launches and after every event in ``waits``.

    ``records`` is the event that completes with this launch, or None if nobody waits for it.
    """

    unit: str
    stream: int
    waits: tuple[int, ...] = ()
    records: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Launches in issue order over streams; event numbers are dense from 0, each recorded once."""

    streams: tuple[Stream, ...]
    launches: tuple[Launch, ...]
