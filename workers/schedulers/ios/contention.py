"""A model of how Units share a device: what stages that were not measured may take.

A stage is as slow as its slowest group or as all of its work together, whichever is more. With
``t_u`` the latency of a Unit alone, ``o`` what every measurement takes besides its kernels and
``d_u = t_u - o``:

- groups:  A = o + max over groups of (Σ d_u of its Units + q · operators of the groups before it),
  because one thread launches the groups one after the other;
- work:    B = o + Σ w_u d_u + c · (groups - 1), where Unit ``u`` occupies the share ``w_u`` of the
  device. Shares of 1 are a device on which nothing overlaps;
- latency: (A^p + B^p)^(1/p), a maximum with a rounded corner. It is multiplied by one factor for
  merged stages, whose A is that of their slowest Unit, and one for other threads than the device's.

``o``, ``q``, ``c``, ``p``, the factors and the shares are fitted to the stages that were measured,
all parts of the graph together; nothing else is known of the device. Units that look alike (kind,
work and traffic for each ms) are expected to have shares alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workers.schedulers.ios.facts import MERGED, OTHER_THREADS, Floats, PartFacts

_COMMON = 6
"""Parameters besides the shares: log o, log q, log c, log (p - 1), and the logs of the factors of
merged stages and of other threads."""

_STEPS = 12
"""Of Gauss's and Newton's method at most."""

_NOISE = (0.003, 0.3)
"""Least and most relative error that the model is expected to make."""


class Parameters(NamedTuple):
    """``overhead``, ``launch`` and ``group`` (o, q and c) in ms; ``factor`` by kind of option;
    ``share`` of each Unit of all parts."""

    overhead: float
    launch: float
    group: float
    sharpness: float
    factor: Floats
    share: Floats


class _Sides(NamedTuple):
    """A and B of options, and what their derivatives need: the number of Units that A is a sum of,
    the operators launched before them, the groups but one, and the Units (rows are options)."""

    a: Floats
    b: Floats
    in_longest: Floats
    ahead: Floats
    others: Floats
    units: Floats


Sample = tuple[int, NDArray[np.intp], Floats]
"""A part, options of it, and their latencies in ms."""


class Contention:
    """The model for all parts of one graph. ``deviation`` is the root mean square of its relative
    errors at what it was fitted to."""

    def __init__(self, parts: Sequence[PartFacts]) -> None:
        self._parts = parts
        self._first = np.cumsum([_COMMON, *(len(part.units) for part in parts)])
        self._least = min(float(part.alone.min()) for part in parts)
        self._mean, self._precision = _expectation(parts, self._least)
        self._theta = self._mean
        self.deviation = 0.1

    @property
    def parameters(self) -> Parameters:
        """What was fitted."""
        return self._parameters(self._theta)

    def expected(self, part: int) -> Floats:
        """Expected latency in ms of every option of a part."""
        given, facts = self.parameters, self._parts[part]
        sides = self._sides(given, part, np.arange(len(facts.stage)))
        return _rounded(sides.a, sides.b, given.sharpness) * given.factor[facts.kind]

    def fit(self, samples: Sequence[Sample]) -> None:
        """Fit to what was measured, all of it finite: Gauss's and Newton's method on the relative
        errors, from where the last fit ended; a step is halved until it is one forward."""
        theta = self._theta
        error, slope = self._errors(theta, samples)
        for _ in range(_STEPS):
            noise = min(max(_root_mean_square(error), _NOISE[0]), _NOISE[1])
            before = self._badness(theta, error, noise)
            pull = self._precision @ (theta - self._mean)
            curvature = slope.T @ slope / noise**2 + self._precision
            step = np.linalg.solve(curvature, slope.T @ error / noise**2 - pull)
            for halvings in range(8):
                tried = theta + step / 2**halvings
                tried_error, tried_slope = self._errors(tried, samples)
                after = self._badness(tried, tried_error, noise)
                if after < before:
                    theta, error, slope = tried, tried_error, tried_slope
                    break
            if not after < before * (1 - 1e-3):
                break
        self._theta, self.deviation = theta, self._deviation(error, slope, samples)

    def _deviation(self, error: Floats, slope: Floats, samples: Sequence[Sample]) -> float:
        """Of what has several Units, the sum of the squared errors over their number less the
        parameters that they could determine (the trace of the hat matrix): few stages can be met
        exactly by many parameters. Units alone are met anyway."""
        several = np.concatenate(
            [self._parts[part].of_several[options] for part, options, _ in samples]
        )
        error, slope = error[several], slope[several]
        if not len(error):
            return self.deviation
        noise = min(max(_root_mean_square(error), _NOISE[0]), _NOISE[1])
        seen = slope.T @ slope / noise**2
        determined = float(np.trace(np.linalg.solve(seen + self._precision, seen)))
        return math.sqrt(float(error @ error) / max(len(error) - determined, 1.0))

    def _badness(self, theta: Floats, error: Floats, noise: float) -> float:
        away = theta - self._mean
        return float(error @ error / noise**2 + away @ self._precision @ away)

    def _parameters(self, theta: Floats) -> Parameters:
        small = np.exp(np.clip(theta[:4], -30.0, [math.log(0.9 * self._least), 10.0, 10.0, 4.0]))
        factor = np.exp(np.clip([0.0, *theta[4:_COMMON]], -3.0, 3.0))
        overhead, launch, group, sharpness = small.tolist()
        return Parameters(overhead, launch, group, 1 + sharpness, factor, theta[_COMMON:])

    def _share(self, given: Parameters, part: int) -> Floats:
        own = slice(self._first[part] - _COMMON, self._first[part + 1] - _COMMON)
        return np.maximum(given.share[own], 0.0)

    def _sides(self, given: Parameters, part: int, options: NDArray[np.intp]) -> _Sides:
        facts = self._parts[part]
        stage = facts.stage[options]
        rows = facts.groups.of_stage[stage]
        work = facts.alone - given.overhead
        chains, launched = work @ facts.members.T, facts.members @ facts.launches
        chains[:, -1] = -math.inf
        variant = np.zeros_like(rows) if facts.variant is None else facts.variant[options]
        ends = chains[variant, rows]
        ahead = np.cumsum(launched[rows], axis=1) - launched[rows]
        ends = ends + given.launch * ahead
        last = np.argmax(ends, axis=1)[:, None]
        units = facts.groups.units[:, stage].T.astype(np.float64)
        a = given.overhead + np.take_along_axis(ends, last, axis=1)[:, 0]
        in_longest = facts.members.sum(axis=1)[np.take_along_axis(rows, last, axis=1)[:, 0]]
        ahead = np.take_along_axis(ahead, last, axis=1)[:, 0]
        merged = facts.kind[options] == MERGED
        if merged.any():
            slowest = np.max(units[merged] * work[variant[merged, 0]], axis=1)
            a[merged] = given.overhead + slowest
            in_longest[merged], ahead[merged] = 1.0, 0.0
        others = facts.groups.count[stage].astype(np.float64) - 1
        b = given.overhead + units @ (self._share(given, part) * work[0]) + given.group * others
        return _Sides(a, b, in_longest, ahead, others, units)

    def _errors(self, theta: Floats, samples: Sequence[Sample]) -> tuple[Floats, Floats]:
        """log (measured / expected) of all samples, and the derivatives of log expected."""
        given = self._parameters(theta)
        p = given.sharpness
        errors, slopes = [], []
        for part, options, latency in samples:
            sides, facts = self._sides(given, part, options), self._parts[part]
            kind, share = facts.kind[options], self._share(given, part)
            rounded = _rounded(sides.a, sides.b, p)
            ratio_a, ratio_b = sides.a / rounded, sides.b / rounded
            to_a, to_b = ratio_a ** (p - 1) / rounded, ratio_b ** (p - 1) / rounded
            slope = np.zeros((len(options), len(theta)))
            slope[:, 0] = given.overhead * (
                to_a * (1 - sides.in_longest) + to_b * (1 - sides.units @ share)
            )
            slope[:, 1] = given.launch * to_a * sides.ahead
            slope[:, 2] = given.group * to_b * sides.others
            slope[:, 3] = (
                (p - 1) / p * (ratio_a**p * np.log(ratio_a) + ratio_b**p * np.log(ratio_b))
            )
            slope[:, 4], slope[:, 5] = kind == MERGED, kind == OTHER_THREADS
            own = slice(self._first[part], self._first[part + 1])
            slope[:, own] = to_b[:, None] * sides.units * (facts.alone[0] - given.overhead)
            errors.append(np.log(latency / (rounded * given.factor[kind])))
            slopes.append(slope)
        return np.concatenate(errors), np.concatenate(slopes)


def _rounded(a: Floats, b: Floats, p: float) -> Floats:
    """The maximum of ``a`` and ``b`` with a rounded corner."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    result: Floats = high * (1 + (low / high) ** p) ** (1 / p)
    return result


def _root_mean_square(values: Floats) -> float:
    return math.sqrt(float(np.mean(values**2)))


def _expectation(parts: Sequence[PartFacts], least: float) -> tuple[Floats, Floats]:
    """Mean and precision (the inverse of the covariance) of the parameters before any fit. The
    shares of two Units are the more alike the more they look alike."""
    units = [unit for part in parts for unit in part.units]
    alone = np.concatenate([part.alone[0] for part in parts])
    launches = np.concatenate([part.launches for part in parts])
    common = [
        (math.log(0.2 * least), 1.0),
        (math.log(0.1 * least / max(1.0, float(launches.mean()))), 1.5),
        (math.log(0.03 * least), 1.5),
        (math.log(6.0), 1.0),
        (0.0, 0.3),
        (0.0, 0.3),
    ]
    looks = np.stack(
        [
            _standardised(np.log(np.array([max(unit.flops, 1) for unit in units]) / alone)),
            _standardised(np.log(np.array([max(unit.bytes_moved, 1) for unit in units]) / alone)),
            _standardised(np.log(alone)),
        ]
    )
    kind = np.array([unit.kind for unit in units])
    alike = kind[:, None] == kind
    covariance = 0.3**2 + 0.15**2 * looks.T @ looks + 0.1**2 * alike + 0.1**2 * np.eye(len(units))
    mean = np.array([*(middle for middle, _ in common), *(0.6 for _ in units)])
    precision = np.zeros((len(mean), len(mean)))
    precision[:_COMMON, :_COMMON] = np.diag([width**-2 for _, width in common])
    precision[_COMMON:, _COMMON:] = np.linalg.inv(covariance)
    return mean, precision


def _standardised(values: Floats) -> Floats:
    deviation = float(values.std())
    return (values - values.mean()) / deviation if deviation > 1e-9 else np.zeros(len(values))
