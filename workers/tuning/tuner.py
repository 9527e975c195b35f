"""What a tuner is: it proposes candidates of one program's design space and hears how fast they
are. It measures nothing itself, and is the same for every measurer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol


@dataclass(frozen=True)
class Candidate:
    """A point of a design space: TVM's trace as JSON, from which its kernel is built anywhere."""

    trace: str

    @cached_property
    def key(self) -> str:
        """Names it among the candidates of its program."""
        return hashlib.sha256(self.trace.encode()).hexdigest()[:24]


class Tuner(Protocol):
    """Searches one program's design space. One conformance suite holds for every one.

    Deterministic: the same space, seed and answers give the same proposals, so that a tuner which
    is told again what it was told before goes on where it was.
    """

    def propose(self, count: int) -> list[Candidate]:
        """At most so many candidates that were not proposed before: fewer where it takes fewer to
        be worth measuring, none only when it finds no more. Whoever proposes is told of all of
        them before the next call."""
        ...

    def update(self, candidates: Sequence[Candidate], latencies_ms: Sequence[float]) -> None:
        """How fast what was proposed is; infinite what failed."""
        ...
