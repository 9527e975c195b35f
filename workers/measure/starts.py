"""How two programs compare over several starts of both.

A process keeps its luck while it lives: where its memory lies, above all. Two processes of the same
script, AlexNet in ONNX Runtime, differed by 3 to 6 %, far more than the interval over the runs of
one of them says. So repetition has to begin where the variance does (Kalibera and Jones, "Rigorous
Benchmarking in Reasonable Time", ISMM 2013): each pair of starts gives one ratio, and the interval
is of their mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import mean, stdev

from torch import Tensor

from workers.measure.compare import TIE, Care, Verdict, compare
from workers.measure.serial import Timed

STARTS = 5

_STUDENT_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}
"""The two-sided 95 % quantile for so many starts."""

_CARE = Care(limit_s=1.5, min_rounds=15, max_rounds=100)

Opener = Callable[[], AbstractContextManager[Timed]]


@dataclass(frozen=True, slots=True)
class Starts:
    """How many times as fast as another program one was, in each pair of starts."""

    speedups: tuple[float, ...]

    @property
    def speedup(self) -> float:
        """The geometric mean."""
        return math.exp(mean(map(math.log, self.speedups)))

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 %, by Student's t over the logarithms."""
        logs = [math.log(one) for one in self.speedups]
        half = _STUDENT_T[len(logs)] * stdev(logs) / math.sqrt(len(logs))
        return math.exp(mean(logs) - half), math.exp(mean(logs) + half)

    @property
    def verdict(self) -> Verdict:
        low, high = self.interval
        if low > 1 + TIE:
            return "faster"
        return "slower" if high < 1 / (1 + TIE) else "no difference"

    def __str__(self) -> str:
        low, high = self.interval
        starts = len(self.speedups)
        return f"{self.speedup:.3f} times as fast ({low:.3f} to {high:.3f}, {starts} starts)"


def over_starts(
    own: Opener,
    other: Opener,
    inputs: Mapping[str, Tensor],
    seed: int = 0,
    starts: int = STARTS,
    care: Care = _CARE,
) -> Starts:
    """Start both ``starts`` times, 2 to 8, and compare each pair in turns. Raises DeviceError."""
    speedups = []
    for number in range(starts):
        with own() as one, other() as another:
            pair = {"own": one, "other": another}
            found = compare(pair, inputs, "other", care, seed + number)
        speedups.append(found["own"].speedup)
    return Starts(tuple(speedups))
