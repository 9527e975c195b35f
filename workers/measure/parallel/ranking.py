"""The last word on the best candidates, measured in isolation (DOPpler, Section 4.3, "Rank
selection").

The paper measures them once more. Two candidates that differ by two percent are then told apart by
whatever disturbed the machine in those milliseconds. Departure: they are measured in turns, and
what has fallen behind leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from workers.measure.parallel.calibrator import CONTENDING
from workers.measure.parallel.rounds import Taken
from workers.measure.parallel.subject import Subject
from workers.measure.statistics import median

PASSES = 3


def measured_in_turns(
    isolated: Callable[[Sequence[Subject]], list[Taken]],
    subjects: Sequence[Subject],
    passes: int = PASSES,
    contending: float = CONTENDING,
) -> list[Taken]:
    """Each of ``subjects`` by ``isolated``, and the better half again in every pass, without those
    that failed or are slower than the best by more than ``contending``. Latencies are the medians
    over its passes."""
    found: list[list[Taken]] = [[] for _ in subjects]
    left = list(range(len(subjects)))
    for _ in range(passes):
        for place, taken in zip(left, isolated([subjects[p] for p in left]), strict=True):
            found[place].append(taken)
        latencies = {place: _together(found[place]).latency_ms for place in left}
        limit = (1 + contending) * min(latencies.values(), default=math.inf)
        better = sorted(left, key=lambda place: latencies[place])[: -(-len(left) // 2)]
        left = [place for place in better if latencies[place] <= limit < math.inf]
    return [_together(passes_of) for passes_of in found]


def _together(passes: Sequence[Taken]) -> Taken:
    """One candidate's passes as one; a failure of any is its failure."""
    for taken in passes:
        if taken.failure is not None:
            return taken
    latency = median([taken.latency_ms for taken in passes])
    return replace(
        passes[0],
        latency_ms=latency,
        device_ms=latency,
        wall_ms=median([taken.wall_ms for taken in passes]),
        alone_ms=latency,
        runs_ms=tuple(run for taken in passes for run in taken.runs_ms),
    )
