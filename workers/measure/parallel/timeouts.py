"""How long a round's measurements may take (DOPpler, Section 4.2, "Adaptive timeout").

The more candidates are in flight, the longer each waits for the device, so that a timeout for one
at a time would fail candidates that only had to wait (Section 3.4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

SHORTEST_S = 4.0
"""η: 1 s above the 3 s of serial measurement (Section 4.2)."""

LONGEST_S = 20.0
"""ι: what max_dp measurements of the largest viable program took (Section 4.2)."""


class AdaptiveTimeout(Protocol):
    """A timeout that grows with how much is measured at once."""

    def seconds(self, d_p: int, devices: int = 1) -> int:
        """t_out in whole seconds for ``d_p`` candidates at once on each of ``devices`` (G).
        Raises ValueError if either is below 1."""
        ...


@dataclass(frozen=True, slots=True)
class PaperTimeout:
    """Eq. 2 as printed: ⌊max{η, min{ι, 2ι · tanh(φ · d_p · G / 2)}}⌋.

    ``phi`` (φ) controls how quickly it grows. The paper gives no value, so that there is no
    default; 0.02 to 0.03 comes closest to the published form on one device. Raises ValueError
    unless φ > 0 and 0 < η <= ι, all finite.
    """

    phi: float
    shortest_s: float = SHORTEST_S
    longest_s: float = LONGEST_S

    def __post_init__(self) -> None:
        if not 0 < self.phi < math.inf:
            raise ValueError(f"φ is {self.phi}, it must be positive and finite")
        _check_bounds(self.shortest_s, self.longest_s)

    def seconds(self, d_p: int, devices: int = 1) -> int:
        _check_load(d_p, devices)
        grown = 2 * self.longest_s * math.tanh(self.phi * d_p * devices / 2)
        return math.floor(max(self.shortest_s, min(self.longest_s, grown)))


@dataclass(frozen=True, slots=True)
class PublishedTimeout:
    """The published code's form, ⌊9.1 · tanh((⌈G / 2⌉ · d_p - 20.25) · 0.06) + 10.9⌋ + 1: a step
    from η to ι that is halfway at about 20 candidates. 4 s at d_p 1, 6 at 8, 9 at 16, 17 at 32 and
    20 from 44 on, for one or two devices.

    ``softness`` is its z = 4.5, which sets both where the step is (z²) and how far its middle is
    raised and its height lowered (z / 5); ``steepness`` is its s, the only φ there is. Departure:
    where tanh is 1 in floating point (325 candidates) the code gives 21 s; here ι is kept, as
    η is. Raises ValueError unless the numbers are positive and finite and η <= ι.
    """

    softness: float = 4.5
    steepness: float = 0.06
    shortest_s: float = SHORTEST_S
    longest_s: float = LONGEST_S

    def __post_init__(self) -> None:
        if not 0 < self.softness < math.inf:
            raise ValueError(f"the softness z is {self.softness}, it must be positive and finite")
        if not 0 < self.steepness < math.inf:
            raise ValueError(f"the steepness s is {self.steepness}, it must be positive and finite")
        _check_bounds(self.shortest_s, self.longest_s)

    def seconds(self, d_p: int, devices: int = 1) -> int:
        _check_load(d_p, devices)
        load = math.ceil(devices / 2) * d_p
        half, shift = self.longest_s / 2, self.softness / 5
        step = math.tanh((load - self.softness**2) * self.steepness)
        stepped = math.floor((half - shift) * step + (half + shift)) + 1
        return math.floor(max(self.shortest_s, min(self.longest_s, stepped)))


def _check_bounds(shortest_s: float, longest_s: float) -> None:
    if not 0 < shortest_s <= longest_s < math.inf:
        raise ValueError(
            f"a timeout between {shortest_s} s and {longest_s} s: the bounds must be positive,"
            " finite and in that order"
        )


def _check_load(d_p: int, devices: int) -> None:
    if d_p < 1:
        raise ValueError(f"the degree of parallelism is {d_p}, at least 1 is measured at a time")
    if devices < 1:
        raise ValueError(f"there are {devices} devices, at least 1 is needed")


DEFAULT_TIMEOUT = PublishedTimeout()
"""The published form, as Eq. 2 cannot be computed from what the paper tells."""
