"""Interleaved comparison: what is faster, decided under the same conditions for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from workers.devices.base import Executable
from workers.measure.measurement import Measurement
from workers.measure.serial import Effort, warm_up
from workers.measure.statistics import median, ratio_interval

Verdict = Literal["faster", "slower", "no difference"]

LEADERS = Effort(target_ms=1500.0, limit_ms=6000.0, min_repeats=30, max_repeats=300)
"""Leaders are compared with more care than candidates of a search are measured."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One contender against the baseline. ``speedup`` is the baseline's median over its own, with
    a 95 % bootstrap interval; the verdict is ``no difference`` where that contains 1."""

    name: str
    measurement: Measurement
    speedup: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        if self.low > 1:
            return "faster"
        return "slower" if self.high < 1 else "no difference"


def compare(
    executables: Mapping[str, Executable],
    inputs: Mapping[str, Tensor],
    baseline: str,
    effort: Effort = LEADERS,
    seed: int = 0,
    simulated: bool = False,
) -> dict[str, Comparison]:
    """Measure the executables in turns, in an order that is drawn anew each round, and compare
    each with ``baseline``. ``effort`` is for each of them.

    Every round runs each executable twice and keeps the second run: the first finds the caches as
    the one before it left them. Raises ValueError if ``baseline`` is not among the executables.
    """
    if baseline not in executables:
        raise ValueError(f"no executable is named {baseline!r}; there are {sorted(executables)}")
    slowest = max(warm_up(entry, inputs, effort.warm_up_ms) for entry in executables.values())
    order = np.random.default_rng(seed)
    names = list(executables)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(effort.repeats(slowest)):
        for position in order.permutation(len(names)):
            name = names[position]
            samples[name].append(executables[name].time(inputs, 2)[1])
    return {
        name: Comparison(
            name=name,
            measurement=Measurement.of(latencies, simulated),
            speedup=median(samples[baseline]) / median(latencies),
            low=interval[0],
            high=interval[1],
        )
        for name, latencies in samples.items()
        for interval in (ratio_interval(samples[baseline], latencies, seed),)
    }
