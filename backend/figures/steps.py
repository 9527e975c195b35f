"""A quantity that changes in steps: pairs (ms, value from then on), in order of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

Steps = Sequence[tuple[float, float]]

MAX_STEPS = 1500
"""More than a figure has pixels across."""


def mean(steps: Steps, end: float) -> float:
    """The mean over time from 0 to ``end``; before its first step the quantity is 0."""
    return _area_until(steps, end) / end if end > 0 else 0.0


def coarsened(steps: Steps, end: float) -> Steps:
    """The steps themselves, or where there are more than MAX_STEPS of them, the means over that
    many equal parts of the time: the area under them stays what it was."""
    if len(steps) <= MAX_STEPS or end <= 0:
        return steps
    edges = [end * part / MAX_STEPS for part in range(MAX_STEPS + 1)]
    areas = _areas_until(steps, edges)
    return [
        (left, (after - before) / (right - left))
        for (left, right), (before, after) in zip(pairwise(edges), pairwise(areas), strict=True)
    ]


def moments(steps: Steps, end: float) -> tuple[list[float], list[float]]:
    """The times and values to draw: from 0, until ``end`` at least, rounded to 0.1 µs."""
    times = [round(time, 4) for time, _ in steps]
    values = [round(value, 1) for _, value in steps]
    if times and times[0] > 0:
        times, values = [0.0, *times], [0.0, *values]
    if times and times[-1] < round(end, 4):
        times, values = [*times, round(end, 4)], [*values, values[-1]]
    return times, values


def _area_until(steps: Steps, end: float) -> float:
    return _areas_until(steps, [end])[0]


def _areas_until(steps: Steps, times: Sequence[float]) -> list[float]:
    """The area under the steps from their first until each of ``times``."""
    if not steps:
        return [0.0] * len(times)
    starts = [start for start, _ in steps]
    areas = [value * (after - start) for (start, value), (after, _) in pairwise(steps)]
    before = list(accumulate(areas, initial=0.0))

    def until(time: float) -> float:
        at = bisect_right(starts, time) - 1
        return 0.0 if at < 0 else before[at] + steps[at][1] * (time - starts[at])

    return [until(time) for time in times]
