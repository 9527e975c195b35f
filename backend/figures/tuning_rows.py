"""What the figures of a kernel-tuning job are made of: its rows, as far as a figure needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MAX_ROUNDS = 600
"""The newest so many are drawn: a figure is not much wider in pixels."""


@dataclass(frozen=True, slots=True)
class TunedProgram:
    """``key`` is its key in the rows of trials and rounds; ``weight`` is how often it occurs in
    what is tuned, ``gflops`` what one run computes in GFLOP."""

    key: str
    name: str
    weight: float = 1.0
    gflops: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A measured candidate; ``seconds`` is when its round ended, since the session began."""

    program: str
    trial: int
    seconds: float
    latency_ms: float | None


@dataclass(frozen=True, slots=True)
class Round:
    """One round of measuring. ``program`` is a name, not a key.

    ``degree_of_parallelism`` is 0 where nothing could be built. Between ``lower`` and ``upper`` the
    degree will be after the next full round; None of a measurer that never changes it. Every kind
    of ``failures`` is counted, timeouts among them. Where a job was stopped and resumed
    between two rounds, their ``session`` differs.
    """

    number: int
    session: int
    program: str
    degree_of_parallelism: int
    timeout_s: float
    successes: int
    lower: int | None = None
    upper: int | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    outliers: int = 0
    remeasured: int = 0
    due_to_parallelism: int = 0
    delta_mean: float | None = None
    cpu_share: float | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """What a process did for a trial, in seconds since the session began: ``kind`` is ``build``,
    ``parallel`` or ``alone``. A building process has no ``device``."""

    kind: str
    process: int
    device: str
    trial: int
    started_s: float
    ended_s: float
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The newest rounds of ``total``, in order."""

    rounds: Sequence[Round]
    total: int
