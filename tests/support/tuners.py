"""Small tensor programs, and latencies of their candidates that are computed, so that searches can
be compared without measuring anything."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvm import te
from tvm.tirx import PrimFunc

from workers.tuning.tuner import Candidate, Tuner


def matmul(rows: int, columns: int, depth: int) -> PrimFunc:
    """C = A · B of float32."""
    a = te.placeholder((rows, depth), name="A")
    b = te.placeholder((depth, columns), name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


def padded_convolution(channels: int, filters: int, size: int) -> PrimFunc:
    """A 3 × 3 convolution of one padded image, with ReLU: its sketches decide on places too."""
    image = te.placeholder((1, channels, size, size), name="image")
    weights = te.placeholder((filters, channels, 3, 3), name="weights")

    def inside(n: Any, c: Any, y: Any, x: Any) -> Any:
        covered = te.all(y >= 1, y <= size, x >= 1, x <= size)
        return te.if_then_else(covered, image[n, c, y - 1, x - 1], 0.0)

    padded = te.compute((1, channels, size + 2, size + 2), inside, name="padded")
    c, dy, dx = (te.reduce_axis((0, extent), name="r") for extent in (channels, 3, 3))
    shape = (1, filters, size, size)
    convolved = te.compute(
        shape,
        lambda n, f, y, x: te.sum(
            padded[n, c, y + dy, x + dx] * weights[f, c, dy, dx], axis=[c, dy, dx]
        ),
        name="convolved",
    )
    relu = te.compute(shape, lambda *at: te.max(convolved(*at), 0.0), name="relu")
    return te.create_prim_func([image, weights, relu])


def two_sums(length: int) -> PrimFunc:
    """Σ x: so little to decide that its whole space can be listed."""
    x = te.placeholder((2, length), name="X")
    k = te.reduce_axis((0, length), name="k")
    return te.create_prim_func([x, te.compute((2,), lambda i: te.sum(x[i, k], axis=k), name="Y")])


def decisions(candidate: Candidate) -> list[Any]:
    """What its trace says was decided: tiles are lists, all else numbers."""
    _, decided = json.loads(candidate.trace)
    return [value for _, value in sorted(decided)]


def smooth_latency_ms(candidate: Candidate) -> float:
    """Fast where the innermost factors are near 8, the next ones near 4, and the last decision, the
    limit of unrolling, near 2; every decision matters by itself and beside the one before it."""
    latency = 1.0
    before = 0.0
    for value in decisions(candidate):
        if isinstance(value, list):
            inner = abs(math.log2(value[-1]) - 3)
            middle = abs(math.log2(value[-2]) - 2)
            latency *= 1 + 0.3 * inner + 0.2 * middle + 0.1 * abs(inner - before)
            before = inner
        else:
            latency *= 1 + 0.1 * abs(value - 2)
    return latency


@dataclass
class Search:
    """A tuner's whole run: how many candidates it was ``asked`` for, the ``batches`` that it
    proposed, and their latencies in ms."""

    asked: list[int] = field(default_factory=list)
    batches: list[list[Candidate]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.latencies)

    @property
    def keys(self) -> list[str]:
        return [candidate.key for batch in self.batches for candidate in batch]


def search(
    tuner: Tuner,
    trials: int,
    batch: int,
    latency_ms: Callable[[Candidate], float] = smooth_latency_ms,
) -> Search:
    """Propose and answer until the trials are used up or nothing is left."""
    found = Search()
    while len(found.latencies) < trials:
        asked = min(batch, trials - len(found.latencies))
        proposed = tuner.propose(asked)
        if not proposed:
            break
        latencies = [latency_ms(candidate) for candidate in proposed]
        tuner.update(proposed, latencies)
        found.asked.append(asked)
        found.batches.append(proposed)
        found.latencies += latencies
    return found


def answered(tuner: Tuner, record: Search) -> None:
    """Ask and tell a tuner again what it was asked and told, except for the last batch."""
    known = dict(zip(record.keys, record.latencies, strict=True))
    for asked in record.asked[:-1]:
        proposed = tuner.propose(asked)
        tuner.update(proposed, [known[candidate.key] for candidate in proposed])
