"""What a model got wrong at stages, carried over to stages that resemble them.

A Gaussian process over the relative errors of ``contention``: two stages resemble each other as far
as they share Units, each counted by its latency alone (Ruzicka's index, also called the weighted
Jaccard index, to a power). Source: C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for
Machine Learning", MIT Press 2006, Algorithm 2.1 and equation 2.30.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_DOUBLINGS = 3
"""The index is taken to the powers 1, 2, 4 and 8. With 1 stages resemble each other that have half
their time in common, with 8 only those that have nearly all of it. Which fits depends on the device
and on the network, so that the likelihood of the errors seen decides. A power of a valid covariance
is one (products of such are), and each of these is the square of the one before, which is cheaper
than a general power."""

_NOISES = (0.02, 0.1, 0.4, 1.0)
"""Variances of what stages do not share, relative to that of what they do: from next to nothing
(simulated latencies do not scatter) to as much (errors of one stage say little of another's). The
likelihood decides here too; it changes slowly, so that steps of about 3 do. The least keeps the
matrix far from singular, as stages may be equal but for how they run."""

_TYPICAL, _TRUST = 0.025, 10.0
"""Relative error that is expected before any is seen, and as many errors' worth of that: after the
first look, at a dozen or two of stages, the variance must not be taken from these alone, which the
model of contention has just been fitted to. A judgement: that model was off by 2 to 7 % at good
stages of perturbed GPUs (``benchmarks/results/ios_guided.json``). 50 errors outweigh it."""

_OTHERWISE = 0.5
"""How much of the resemblance is left between options that run differently (merged, with other
threads): the Units are the same, what they do to each other is not. A judgement."""


class Resemblance:
    """Fitted to the errors of some options; ``units`` holds the latency alone of each Unit that an
    option (row) has, and 0 for others; ``kind`` is how it is run."""

    def __init__(self, units: Floats, kind: NDArray[np.int8], errors: Floats) -> None:
        self._units, self._kind = units, kind
        alike = self._alike(units, kind)
        count = len(errors)
        best = -np.inf
        for doublings in range(_DOUBLINGS + 1):
            if doublings:
                alike *= alike
            for noise in _NOISES:
                lower, white = _factor(alike, errors, noise)
                scale = float(white @ white + _TRUST * _TYPICAL**2 * (1 + noise))
                variance = scale / (count + _TRUST)
                likelihood = -0.5 * count * np.log(variance) - np.log(np.diag(lower)).sum()
                if likelihood > best:
                    best, chosen = likelihood, (lower, white)
                    self._doublings, self._variance = doublings, variance
        self._inverse = np.linalg.inv(chosen[0])
        self._weights = self._inverse.T @ chosen[1]

    def expected(self, units: Floats, kind: NDArray[np.int8]) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the relative errors of other options."""
        alike = self._alike(units, kind)
        for _ in range(self._doublings):
            alike *= alike
        white = alike @ self._inverse.T
        explained = np.einsum("ij,ij->i", white, white)
        return alike @ self._weights, np.sqrt(self._variance * np.maximum(1 - explained, 0.0))

    def _alike(self, units: Floats, kind: NDArray[np.int8]) -> Floats:
        """How much each option has in common with each of those fitted; less if run otherwise."""
        common: Floats = np.sqrt(units) @ np.sqrt(self._units).T
        either = units.sum(axis=1)[:, None] + self._units.sum(axis=1) - common
        common /= either
        common[kind[:, None] != self._kind] *= _OTHERWISE
        return common


def _factor(alike: Floats, errors: Floats, noise: float) -> tuple[Floats, Floats]:
    """Cholesky's factor of the covariance with that noise, and its inverse times the errors, which
    is what the factor's last row is with the errors as one more row and column; no eigenvalue is
    below ``noise``."""
    count = len(errors)
    bordered = np.empty((count + 1, count + 1))
    bordered[:count, :count] = alike
    bordered[np.diag_indices(count)] += noise
    bordered[count, :count] = bordered[:count, count] = errors
    bordered[count, count] = 2 * float(errors @ errors) / noise + 1.0
    lower = np.asarray(np.linalg.cholesky(bordered), np.float64)
    return lower[:count, :count], lower[count, :count]
