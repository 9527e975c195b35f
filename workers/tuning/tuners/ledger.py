"""What a tuner has proposed, so that it never does again, and what it was answered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from workers.tuning.points import Point
from workers.tuning.tuner import Candidate
from workers.tuning.tuners.order import spread

if TYPE_CHECKING:
    from workers.tuning.space import DesignSpace

_REFUSED_IN_A_ROW = 4096
"""So many points one after the other that are no candidates end a walk over a space: a target that
refuses nearly all of it would otherwise be searched for hours."""


def checked(candidates: Sequence[Candidate], latencies_ms: Sequence[float]) -> None:
    """Raises ValueError for answers that are none: of another number, or NaN."""
    if len(candidates) != len(latencies_ms):
        raise ValueError(f"{len(latencies_ms)} latencies for {len(candidates)} candidates")
    if any(math.isnan(latency) for latency in latencies_ms):
        raise ValueError("a latency is NaN; what failed is infinite")


class Ledger:
    """The candidates of one search. ``refused`` are the points that were found to be none."""

    def __init__(self, space: DesignSpace, indices: Iterable[int] | None = None) -> None:
        """``indices`` is the order of ``rest``, by default one that is spread over the space."""
        self.refused: list[Point] = []
        self._space = space
        self._tried: set[Point] = set()
        self._points: dict[str, Point | None] = {}
        self._indices = iter(spread(space.counts) if indices is None else indices)

    def tried(self, point: Point) -> bool:
        """Whether it was proposed, or refused."""
        return point in self._tried

    def take(self, point: Point) -> Candidate | None:
        """The candidate there, which is thereby proposed; None if it was before or is none."""
        if point in self._tried:
            return None
        self._tried.add(point)
        candidate = self._space.candidate(point)
        if candidate is None:
            self.refused.append(point)
        elif candidate.key not in self._points:
            self._points[candidate.key] = point
            return candidate
        return None

    def add(self, candidate: Candidate) -> bool:
        """Propose one that somebody else made; whether it is new."""
        new = candidate.key not in self._points
        self._points.setdefault(candidate.key, None)
        return new

    def first(self, points: Iterable[Point], count: int) -> list[Candidate]:
        """Propose the first ``count`` of ``points`` that can be."""
        found: list[Candidate] = []
        for point in points:
            if len(found) >= count:
                break
            candidate = self.take(point)
            if candidate is not None:
                found.append(candidate)
        return found

    def rest(self, count: int) -> list[Candidate]:
        """Propose so many of what is left in the space, fewer only if there are no more."""
        found: list[Candidate] = []
        refused = 0
        while len(found) < count and refused < _REFUSED_IN_A_ROW:
            index = next(self._indices, None)
            if index is None:
                break
            candidate = self.take(self._space.point(index))
            refused = 0 if candidate else refused + 1
            if candidate is not None:
                found.append(candidate)
        return found

    def points(self, candidates: Sequence[Candidate], latencies_ms: Sequence[float]) -> list[Point]:
        """Where candidates that are answered are. Raises ValueError for answers that are none, or
        to what was not proposed from a point."""
        checked(candidates, latencies_ms)
        found = [self._points.get(candidate.key) for candidate in candidates]
        points = [point for point in found if point is not None]
        if len(points) != len(found):
            raise ValueError("an answer to a candidate that was not proposed")
        return points
