"""How long a candidate is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure a candidate, in ms: repeats fill ``target_ms`` within their bounds, and
    fewer than ``min_repeats`` are made only past ``limit_ms``, never fewer than two."""

    target_ms: float = 30.0
    limit_ms: float = 300.0
    min_repeats: int = 10
    max_repeats: int = 100
    warm_up_ms: float = 100.0

    def repeats(self, latency_ms: float) -> int:
        wanted = min(max(self.target_ms / latency_ms, self.min_repeats), self.max_repeats)
        return max(2, min(math.ceil(wanted), int(self.limit_ms / latency_ms)))


def never() -> bool:
    """The budget that is never used up."""
    return False


USUAL = Effort()

BRISK = Effort(limit_ms=120.0, warm_up_ms=50.0)
"""For kernels, of which hundreds are tried: those of many milliseconds are slow ones, mostly, and
need not be known to the percent."""
