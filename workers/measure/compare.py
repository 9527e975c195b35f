"""Interleaved comparison: what is faster, decided under the same conditions for all."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from workers.devices.at_rest import wait_until_at_rest
from workers.measure.measurement import Measurement
from workers.measure.report import SampleReport, report
from workers.measure.serial import Timed, warm_up
from workers.measure.statistics import ENOUGH, median_ratio, ratio_interval

Verdict = Literal["faster", "slower", "no difference"]
Ended = Literal["precise", "time", "rounds", "dropped"]
"""What ended the rounds: see Care. ``dropped`` is a contender that left a tournament early."""

TIE = 0.01
"""Two contenders this close are not told apart. Preparing the same Plan again moves its weights and
code in memory, which no number of rounds averages out: a finer difference is real here and now, and
gone after the next start. Simulated time has no such luck and needs no such band."""

_ROUNDING = 1e-9
"""Of a ratio of simulated latencies: more than rounding ever adds up to."""

_SLOW_MS = 100.0
"""Slower than this, a run is too long for what the one before left in the caches to matter."""

_WAKING_MS, _MOST_RUNS = 2.0, 50
"""A model of microseconds takes twice as long until its threads are awake, and its first run is
over before they are. So shorter ones run for that long, but no more often than that."""


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
        tie = tie_band(self.measurement.simulated)
        if self.measurement.samples < ENOUGH:
            return "no difference"
        if self.low > 1 + tie:
            return "faster"
        return "slower" if self.high < 1 / (1 + tie) else "no difference"


def compare(
    executables: Mapping[str, Timed],
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
    the one before it left them, and wakes its threads, since those of the one before are waited
    for. Runs above 100 ms are made once, and those below 2 ms for 2 ms. Simulated latencies do not
    scatter, so ENOUGH rounds may do. Raises ValueError if ``baseline`` is not among the
    executables.
    """
    if baseline not in executables:
        raise ValueError(f"no executable is named {baseline!r}; there are {sorted(executables)}")
    care = care or Care()
    started = clock()
    slowest = max(warm_up(entry, inputs, care.warm_up_ms) for entry in executables.values())
    names = list(executables)
    runs = dict.fromkeys(names, runs_in_a_turn(slowest, simulated))
    rounds = Rounds(executables, inputs, runs, seed, simulated)
    samples = rounds.samples

    def take() -> None:
        for name in rounds.order(names):
            rounds.turn(name)

    ended = rounds_until(
        take,
        settled=lambda: all(
            settled(samples[baseline], own, care.precise, seed) for own in samples.values()
        ),
        late=lambda: clock() - started > care.limit_s * len(names),
        least=ENOUGH if simulated else care.min_rounds,
        most=care.max_rounds,
    )
    return {
        name: comparison(name, own, samples[baseline], ended, simulated, seed)
        for name, own in samples.items()
    }


def runs_in_a_turn(latency_ms: float, simulated: bool) -> int:
    """How often a contender runs in its turn; the last run counts."""
    if simulated or latency_ms > _WAKING_MS:
        return 1 if latency_ms > _SLOW_MS else 2
    return min(_MOST_RUNS, 2 + int(_WAKING_MS / latency_ms))


class Rounds:
    """Latencies in ms of contenders that take turns: those of one round were taken side by side.
    ``runs`` is how often each runs in its turn."""

    def __init__(
        self,
        contenders: Mapping[str, Timed],
        inputs: Mapping[str, Tensor],
        runs: Mapping[str, int],
        seed: int,
        simulated: bool = False,
    ) -> None:
        self._contenders, self._inputs, self._runs = contenders, inputs, runs
        self._simulated = simulated
        self._random = np.random.default_rng(seed)
        self.samples: dict[str, list[float]] = {name: [] for name in contenders}

    def order(self, names: Sequence[str]) -> list[str]:
        """The names in the order of the next round, drawn anew each time."""
        return [names[position] for position in self._random.permutation(len(names))]

    def turn(self, name: str) -> None:
        """Let one contender run once the threads of the one before it rest, and keep its last run's
        latency."""
        if not self._simulated:
            wait_until_at_rest()
        self.samples[name].append(self._contenders[name].time(self._inputs, self._runs[name])[-1])


def rounds_until(
    take: Callable[[], None],
    settled: Callable[[], bool],
    late: Callable[[], bool],
    least: int,
    most: int,
    enough: int = ENOUGH,
) -> Ended:
    """Take rounds until they are ``settled``, which is asked from the ``least``-th on and ever more
    seldom; until there are ``most``; or until it is ``late``, but never fewer than ``enough``."""
    made, checkpoint = 0, max(enough, least)
    while made < max(most, enough):
        take()
        made += 1
        if made >= checkpoint:
            if settled():
                return "precise"
            checkpoint = math.ceil(checkpoint * 1.3)
        if made >= enough and late():
            return "time"
    return "rounds"


def settled(reference: Sequence[float], own: Sequence[float], precise: float, seed: int) -> bool:
    """Whether more rounds would tell nothing new: the interval of the ratio is as ``precise`` as
    asked for, or a quarter as wide as the difference. Looks at widths, never at who is ahead."""
    low, high = (math.log(bound) for bound in ratio_interval(reference, own, seed))
    effect = abs(math.log(median_ratio(reference, own)))
    return (high - low) / 2 <= max(precise, effect / 4)


def comparison(
    name: str,
    own: Sequence[float],
    baseline: Sequence[float],
    ended: Ended,
    simulated: bool,
    seed: int,
) -> Comparison:
    """One contender against the baseline, from latencies of the same rounds."""
    low, high = ratio_interval(baseline, own, seed)
    return Comparison(
        name=name,
        measurement=Measurement.of(own, simulated),
        speedup=median_ratio(baseline, own),
        low=low,
        high=high,
        report=report(own),
        ended=ended,
    )


def tie_band(simulated: bool) -> float:
    """How far two contenders may differ, relatively, and be called equally fast."""
    return _ROUNDING if simulated else TIE
