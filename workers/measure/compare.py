"""Interleaved comparison: what is faster, decided under the same conditions for all."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from workers.devices.base import Executable
from workers.measure.measurement import Measurement
from workers.measure.report import SampleReport, report
from workers.measure.serial import warm_up
from workers.measure.statistics import ENOUGH, median_ratio, ratio_interval

Verdict = Literal["faster", "slower", "no difference"]
Ended = Literal["precise", "time", "rounds"]

TIE = 0.01
"""Two contenders this close are not told apart. Preparing the same Plan again moves its weights and
code in memory, which no number of rounds averages out: a finer difference is real here and now, and
gone after the next start. Simulated time has no such luck and needs no such band."""

_SLOW_MS = 100.0
"""Slower than this, a run is too long for what the one before left in the caches to matter."""


@dataclass(frozen=True, slots=True)
class Care:
    """How long to compare. Rounds are added until each contender's interval is ``precise`` (half
    its width, relative) or a quarter as wide as the difference that it shows, but at least
    ``min_rounds``; at most ``max_rounds``; and no longer than ``limit_s`` of real time for each
    contender, though ENOUGH rounds are always made: fewer can prove nothing.

    The rule looks at widths and never at who is ahead: stopping as soon as one seems faster finds
    differences that are not there.
    """

    precise: float = 0.005
    min_rounds: int = 30
    max_rounds: int = 300
    limit_s: float = 5.0
    warm_up_ms: float = 100.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """One contender against the baseline. ``speedup`` is the median over the rounds of the
    baseline's latency divided by its own, with a 95 % interval from ``low`` to ``high``; ``report``
    describes its latencies; ``ended`` says what ended the rounds.

    The verdict is ``no difference`` where the interval reaches into the band of ties around 1, or
    where there were too few rounds to tell.
    """

    name: str
    measurement: Measurement
    speedup: float
    low: float
    high: float
    report: SampleReport
    ended: Ended

    @property
    def verdict(self) -> Verdict:
        tie = 0.0 if self.measurement.simulated else TIE
        if self.measurement.samples < ENOUGH:
            return "no difference"
        if self.low > 1 + tie:
            return "faster"
        return "slower" if self.high < 1 / (1 + tie) else "no difference"


def compare(
    executables: Mapping[str, Executable],
    inputs: Mapping[str, Tensor],
    baseline: str,
    care: Care | None = None,
    seed: int = 0,
    simulated: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Comparison]:
    """Measure the executables in rounds, each in an order that is drawn anew, and compare each with
    ``baseline`` round by round.

    In its turn an executable runs twice and the second run counts: the first finds the caches as
    the one before it left them. Runs above 100 ms are made once. Simulated latencies do not
    scatter, so ENOUGH rounds may do. Raises ValueError if ``baseline`` is not among the
    executables.
    """
    if baseline not in executables:
        raise ValueError(f"no executable is named {baseline!r}; there are {sorted(executables)}")
    care = care or Care()
    started = clock()
    slowest = max(warm_up(entry, inputs, care.warm_up_ms) for entry in executables.values())
    runs = 1 if slowest > _SLOW_MS else 2
    order = np.random.default_rng(seed)
    names = list(executables)
    samples: dict[str, list[float]] = {name: [] for name in names}
    rounds, checkpoint = 0, ENOUGH if simulated else max(ENOUGH, care.min_rounds)
    ended: Ended = "rounds"
    while rounds < max(care.max_rounds, ENOUGH):
        for position in order.permutation(len(names)):
            name = names[position]
            samples[name].append(executables[name].time(inputs, runs)[-1])
        rounds += 1
        if rounds >= checkpoint:
            if all(_settled(samples[baseline], own, care, seed) for own in samples.values()):
                ended = "precise"
                break
            checkpoint = math.ceil(checkpoint * 1.3)
        if rounds >= ENOUGH and clock() - started > care.limit_s * len(names):
            ended = "time"
            break
    return {
        name: Comparison(
            name=name,
            measurement=Measurement.of(latencies, simulated),
            speedup=median_ratio(samples[baseline], latencies),
            low=interval[0],
            high=interval[1],
            report=report(latencies),
            ended=ended,
        )
        for name, latencies in samples.items()
        for interval in (ratio_interval(samples[baseline], latencies, seed),)
    }


def _settled(baseline: list[float], own: list[float], care: Care, seed: int) -> bool:
    """Whether more rounds would tell nothing new."""
    low, high = (math.log(bound) for bound in ratio_interval(baseline, own, seed))
    effect = abs(math.log(median_ratio(baseline, own)))
    return (high - low) / 2 <= max(care.precise, effect / 4)
