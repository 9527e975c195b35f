"""What a GPU is made of: the numbers that occupancy, bounds and the simulator are computed from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU. Limits are for one streaming multiprocessor (SM), as the CUDA programming guide
    tabulates them by compute capability; clock and bandwidth are for the whole device."""

    name: str
    compute_capability: tuple[int, int]
    sm_count: int
    clock_mhz: float
    fp32_tflops: float
    bandwidth_gb_s: float
    l2_bytes: int
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    shared_memory_per_sm: int
    registers_per_block: int
    shared_memory_per_block: int
    warp_size: int = 32
