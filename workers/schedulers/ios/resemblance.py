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

_POWERS = (1, 2, 4, 8)
_NOISES = (0.02, 0.1, 0.4, 1.0)
"""Variances of what stages do not share, relative to that of what they do."""

_TYPICAL, _TRUST = 0.025, 10.0
"""Relative error that is expected before any is seen, and as many errors' worth of that."""


class Resemblance:
    """Fitted to the errors of some options; ``units`` holds the latency alone of each Unit that an
    option (row) has, and 0 for others; ``kind`` is how it is run."""

    def __init__(self, units: Floats, kind: NDArray[np.int8], errors: Floats) -> None:
        self._units, self._kind = units, kind
        alike = self._alike(units, kind)
        count = len(errors)
        best = -np.inf
        for power in _POWERS:
            for noise in _NOISES:
                lower, white = _factor(alike**power + noise * np.eye(count), errors, noise)
                scale = float(white @ white + _TRUST * _TYPICAL**2 * (1 + noise))
                variance = scale / (count + _TRUST)
                likelihood = -0.5 * count * np.log(variance) - np.log(np.diag(lower)).sum()
                if likelihood > best:
                    best, chosen = likelihood, (lower, white)
                    self._power, self._variance = power, variance
        self._inverse = np.linalg.inv(chosen[0])
        self._weights = self._inverse.T @ chosen[1]

    def expected(self, units: Floats, kind: NDArray[np.int8]) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the relative errors of other options."""
        alike = self._alike(units, kind) ** self._power
        explained = ((alike @ self._inverse.T) ** 2).sum(axis=1)
        return alike @ self._weights, np.sqrt(self._variance * np.maximum(1 - explained, 0.0))

    def _alike(self, units: Floats, kind: NDArray[np.int8]) -> Floats:
        """How much each option has in common with each of those fitted; less if run otherwise."""
        common = np.sqrt(units) @ np.sqrt(self._units).T
        either = units.sum(axis=1)[:, None] + self._units.sum(axis=1) - common
        same = np.where(kind[:, None] == self._kind, 1.0, 0.5)
        result: Floats = common / either * same
        return result


def _factor(covariance: Floats, errors: Floats, noise: float) -> tuple[Floats, Floats]:
    """Cholesky's factor and its inverse times the errors, which is what the factor's last row is
    with the errors as one more row and column; no eigenvalue is below ``noise``."""
    count = len(errors)
    corner = 2 * float(errors @ errors) / noise + 1.0
    bordered = np.block([[covariance, errors[:, None]], [errors, np.array([[corner]])]])
    lower = np.linalg.cholesky(bordered)
    return lower[:count, :count], lower[count, :count]
