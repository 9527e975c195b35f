"""A design space as arithmetic: points that tuners count, compare and move among without TVM.

A sketch is a product of decisions with finitely many options each, and a space the union of its
sketches. It can have 10¹² points, so none is ever listed: a point has a mixed-radix index.

A point is a row of knobs: the sketch, then an option of each of its decisions, then zeros where
another sketch has more decisions.

Features are knobs too (AutoTVM's "knob" features): log2 of each tile's factors, of the unroll
limit, the depth of the place. TVM's own PerStoreFeature describes the lowered loops and so has to
apply the trace first: some ms a candidate against 2 µs a point, where simulated annealing asks for
tens of thousands of points a batch. It also ranked measured kernels worse: a Spearman correlation
of 0.61 against 0.79 for a matmul, 0.44 against 0.57 for a convolution (docs/tuners.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import log2, prod
from typing import Any

import numpy as np

Point = tuple[int, ...]
Points = np.ndarray[Any, np.dtype[np.int64]]
"""[n, 1 + decisions]: a point in each row."""
Features = np.ndarray[Any, np.dtype[np.float32]]
"""[n, features]: a point's in each row."""
Option = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """One sampling instruction: its ``options`` as TVM takes them, ``features`` a row for each."""

    options: tuple[Option, ...]
    features: tuple[tuple[float, ...], ...]

    @staticmethod
    def tile(extents: Sequence[int], parts: int, max_innermost: int) -> Decision:
        """SamplePerfectTile: the ways to write an extent as a product. A loop that an earlier
        decision splits can have one of several ``extents``."""
        found = tuple(
            tile for extent in extents for tile in factorizations(extent, parts, max_innermost)
        )
        return Decision(found, tuple(tuple(map(log2, tile)) for tile in found))

    @staticmethod
    def categorical(values: Sequence[int]) -> Decision:
        """SampleCategorical: TVM takes the position of one of the ``values``."""
        return Decision(tuple(range(len(values))), tuple((log2(1 + value),) for value in values))

    @staticmethod
    def location(places: Sequence[int]) -> Decision:
        """SampleComputeLocation: a loop's depth, -1 at the root, -2 inlined."""
        return Decision(tuple(places), tuple((float(place),) for place in places))


@cache
def factorizations(extent: int, parts: int, max_innermost: int) -> tuple[tuple[int, ...], ...]:
    """``extent`` as an ordered product of so many factors, in every way in which the last is at
    most ``max_innermost`` (-1: no bound), in ascending order."""
    if parts == 1:
        return ((extent,),) if max_innermost == -1 or extent <= max_innermost else ()
    return tuple(
        (first, *rest)
        for first in range(1, extent + 1)
        if extent % first == 0
        for rest in factorizations(extent // first, parts - 1, max_innermost)
    )


class PointSpace:
    """The union of products of decisions, one product per sketch: arithmetic alone."""

    def __init__(self, sketches: Sequence[Sequence[Decision]]) -> None:
        self.sketches = tuple(tuple(decisions) for decisions in sketches)
        self.knobs = 1 + max(map(len, self.sketches))
        self.counts = tuple(
            prod(len(decision.options) for decision in sketch) for sketch in self.sketches
        )
        """How many points each sketch has."""
        self._firsts = list(accumulate(self.counts, initial=0))
        self.count = self._firsts[-1]
        """How many points there are; at least as many as candidates."""
        self.sizes: Points = np.ones((len(self.sketches), self.knobs), np.int64)
        """[sketches, knobs]: how many options a knob has; 1 of one that a sketch has not."""
        self.sizes[:, 0] = len(self.sketches)
        for row, sketch in zip(self.sizes, self.sketches, strict=True):
            row[1 : 1 + len(sketch)] = [len(decision.options) for decision in sketch]
        self._widths = [
            max(len(sketch[at].features[0]) for sketch in self.sketches if at < len(sketch))
            for at in range(self.knobs - 1)
        ]
        self._tables = [[_table(decision) for decision in sketch] for sketch in self.sketches]

    def point(self, index: int) -> Point:
        """The point at ``index`` of 0 … count - 1; the last decision varies fastest."""
        if not 0 <= index < self.count:
            raise IndexError(f"point {index} of {self.count}")
        sketch = next(at for at, end in enumerate(self._firsts[1:]) if index < end)
        rest = index - self._firsts[sketch]
        knobs = [0] * self.knobs
        knobs[0] = sketch
        for at in range(len(self.sketches[sketch]), 0, -1):
            rest, knobs[at] = divmod(rest, int(self.sizes[sketch, at]))
        return tuple(knobs)

    def index(self, point: Point) -> int:
        """Where ``point`` is; the inverse of ``point``."""
        sketch, index = point[0], 0
        for size, knob in zip(self.sizes[sketch, 1:].tolist(), point[1:], strict=True):
            if not 0 <= knob < size:
                raise IndexError(f"no point {point}")
            index = index * size + knob
        return self._firsts[sketch] + index

    def draw(self, rng: np.random.Generator, count: int) -> Points:
        """Points at random, every sketch as likely as every other, as TVM draws them: a small
        sketch would hardly ever be seen otherwise."""
        sketches = rng.integers(len(self.sketches), size=count)
        points = rng.integers(self.sizes[sketches])
        points[:, 0] = sketches
        return points

    def clipped(self, points: Points) -> Points:
        """The nearest points: knobs that were moved out of their bounds, or into another sketch."""
        sketches = np.clip(points[:, 0], 0, len(self.sketches) - 1)
        clipped = np.clip(points, 0, self.sizes[sketches] - 1)
        clipped[:, 0] = sketches
        return clipped

    def decisions(self, point: Point) -> tuple[Option, ...]:
        """What is decided there, as TVM takes it."""
        sketch = self.sketches[point[0]]
        return tuple(
            decision.options[knob] for decision, knob in zip(sketch, point[1:], strict=False)
        )

    def features(self, points: Points) -> Features:
        """Which sketch it is, then each decision's features; zero what a sketch has not."""
        found = np.zeros((len(points), len(self.sketches) + sum(self._widths)), np.float32)
        found[np.arange(len(points)), points[:, 0]] = 1
        for sketch, tables in enumerate(self._tables):
            rows = np.flatnonzero(points[:, 0] == sketch)
            column = len(self.sketches)
            for at, table in enumerate(tables):
                found[rows, column : column + table.shape[1]] = table[points[rows, at + 1]]
                column += self._widths[at]
        return found


def _table(decision: Decision) -> Features:
    return np.asarray(decision.features, np.float32)
