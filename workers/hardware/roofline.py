"""The two ceilings under which a device computes: arithmetic and memory.

Source: Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for
Multicore Architectures" (CACM 52(4), 2009).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Roofline:
    """Operations and bytes per second that the whole device can reach; both positive."""

    flops_per_s: float
    bytes_per_s: float

    def __post_init__(self) -> None:
        if not (self.flops_per_s > 0 and self.bytes_per_s > 0):
            raise ValueError(
                f"a roofline needs positive ceilings, not {self.flops_per_s} operations and"
                f" {self.bytes_per_s} bytes per second"
            )

    @property
    def ridge(self) -> float:
        """Operations per byte above which arithmetic is the lower ceiling: the ridge point."""
        return self.flops_per_s / self.bytes_per_s

    def least_ms(self, flops: float, moved_bytes: float) -> float:
        """The time below which nothing with that much work can stay."""
        return max(flops / self.flops_per_s, moved_bytes / self.bytes_per_s) * 1e3
