"""Which forecasts came true: those of the model alone, or those corrected by resemblance.

A Gaussian process fitted to what was measured says itself how sure it is, and where stages' errors
have little to do with the Units that they share it is far too sure. So what is about to be measured
is forecast both ways, and once it was measured each way is scored by the logarithm of the density
that it gave to what came out, which neither can have been fitted to (a prequential score). Source:
A. P. Dawid, "Statistical Theory: The Prequential Approach", Journal of the Royal Statistical
Society A 147, 1984.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SPAN = 50
"""About as many of the last measurements count: each as much as 1 - 1 / 50 of the next. A model
changes while it is fitted to more."""

_MOST = 3.0
"""One measurement tells at most as much for or against, in nats: a single one must not decide."""

_DOUBT = 0.4
"""Corrections are done without once they score worse by this many nats a measurement over the
span, and used again once they do not. On RandWire's largest block they scored worse by up to 10
nats, not limited by ``_MOST``: latencies were three to five of their deviations off. On blocks of
NASNet-A-Large it was between 0.6 nats against them and 0.6 for them; of 29 searches of these, 2
ended more than 1 % above the optimum, with 0.2 4, always with corrections 3, never 11."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of some ``options`` about to be measured: means and standard deviations of the logarithms of
    their latencies in ms by the model alone, and corrected."""

    options: NDArray[np.intp]
    plain: tuple[Floats, Floats]
    corrected: tuple[Floats, Floats]


class TrackRecord:
    """Of one part. ``lead`` is by how many nats corrected forecasts were better so far."""

    def __init__(self) -> None:
        self.lead = 0.0

    @property
    def for_corrections(self) -> bool:
        """Whether corrected forecasts are to be gone by; they are until they prove poor."""
        return self.lead >= -_DOUBT * _SPAN

    def score(self, forecast: Forecast, latencies: Floats) -> None:
        """Learn what came of a forecast, given the ``latencies`` in ms of all options. Options that
        failed or were not measured after all tell nothing."""
        came = latencies[forecast.options]
        told = np.isfinite(came) & (came > 0)
        logs = np.log(came[told])
        better = [
            -np.log(deviation[told]) - 0.5 * ((logs - mean[told]) / deviation[told]) ** 2
            for mean, deviation in (forecast.corrected, forecast.plain)
        ]
        for nats in np.clip(better[0] - better[1], -_MOST, _MOST).tolist():
            self.lead = (1 - 1 / _SPAN) * self.lead + nats
