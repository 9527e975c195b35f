"""Measuring chosen candidates again, in turns, so that their latencies can be trusted.

A search takes the fastest of thousands of stages, each measured once. What it takes is fast or was
lucky, and the more there is to choose from, the more it was luck: the minimum of noisy values is
below the least true one (the winner's curse). A second look without that choice is fair. It is
taken in turns: all candidates once, then all again, each turn in an order drawn anew. So a drift of
the machine hits all alike; and as each turn prepares a candidate afresh, the luck of where its
weights lie in memory is averaged out with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from workers.measure.measurement import Failure, Measurement, Round
from workers.measure.serial import Candidate, Measurer
from workers.measure.statistics import median, median_interval

TURNS = 5
"""How often each candidate is measured again. The spread of a median of five is about half of one
measurement's."""


def measure_in_turns(
    measurer: Measurer,
    candidates: Sequence[Candidate],
    expired: Callable[[], bool],
    on_round: Callable[[Round], None],
    turns: int = TURNS,
    seed: int = 0,
) -> tuple[Sequence[Measurement], int]:
    """One measurement of each candidate, pooled over the turns, and how many turns were made.

    A turn that ``expired`` cuts short counts for none of the candidates, so that all rest on the
    same moments; without a full turn there are no measurements.
    """
    order = np.random.default_rng(seed)
    taken: list[list[Measurement]] = [[] for _ in candidates]
    for made in range(turns):
        drawn = order.permutation(len(candidates)).tolist()
        batch = measurer.measure([candidates[position] for position in drawn], expired)
        for one in batch.rounds:
            if one.candidates:
                on_round(replace(one, remeasured=one.candidates))
        if any(found.failure is Failure.BUDGET for found in batch.measurements):
            return ([pooled(found) for found in taken] if made else []), made
        for position, found in zip(drawn, batch.measurements, strict=True):
            taken[position].append(found)
    return [pooled(found) for found in taken], turns


def pooled(turns: Sequence[Measurement]) -> Measurement:
    """What some measurements of one candidate say together: the median of their medians, as runs of
    one turn are alike and only the turns are independent witnesses; its interval is theirs. One
    that failed speaks for all."""
    for found in turns:
        if found.failure is not None:
            return found
    medians = [found.latency_ms for found in turns]
    low, high = median_interval(medians)
    return Measurement(
        latency_ms=median(medians),
        low_ms=low,
        high_ms=high,
        samples=sum(found.samples for found in turns),
        outliers=sum(found.outliers for found in turns),
        simulated=any(found.simulated for found in turns),
    )
