"""What a measuring process is sent, and what it says of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from workers.measure.measurement import Failure


class SubjectError(Exception):
    """A candidate that cannot be measured: ``kind`` tells why for programs, the message in words.
    Raised in the measuring process; what else is raised there is a launch error."""

    def __init__(self, kind: Failure, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind

    def __str__(self) -> str:
        return str(self.args[1])


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a candidate in ms: ``wall_ms`` by the host's clock, ``device_ms`` by the device's
    own, which does not count what others did meanwhile (DOPpler, Section 4.2). ``cycles`` and
    ``instructions`` are of the hardware's counters, None where it offers none."""

    wall_ms: float
    device_ms: float
    cycles: float | None = None
    instructions: float | None = None


class Bench(Protocol):
    """A candidate that is loaded on its device."""

    def check(self) -> None:
        """Run once, and raise SubjectError with WRONG_RESULT if it computes something else than it
        should. Nothing to do where no reference is known."""
        ...

    def time(self, repeats: int) -> Sequence[Run]:
        """Run back to back so many times."""
        ...


class Subject(Protocol):
    """A candidate that can be sent to another process: it is pickled."""

    def open(self, device: str) -> AbstractContextManager[Bench]:
        """Load it on ``device``. Raises SubjectError."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """A candidate's runs, and how long its whole measurement took in s (v of Section 4.3): loading,
    checking, warming up and all runs."""

    runs: tuple[Run, ...]
    duration_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the candidate at ``position``: a ``reading``, or a ``failure`` with a reason.

    ``worker`` counts the processes that a pool ever started, on ``device``; ``started_s`` and
    ``ended_s`` are seconds since the pool was made (the process timeline of Figure 7).
    """

    position: int
    device: str
    worker: int
    started_s: float
    ended_s: float
    reading: Reading | None = None
    failure: Failure | None = None
    reason: str = ""
