"""The OpenMP runtime behind PyTorch's intra-operator threads.

GNU's runtime lets an idle team spin for some milliseconds, so that the next operator starts at
once. As soon as a process has more OpenMP threads than there are cores, counting idle teams of
other threads too, it hardly spins any more and every operator wakes its team through the kernel:
a small convolution on two threads then takes 110-170 µs instead of 37 µs (measured on two cores).
"""

from __future__ import annotations

import ctypes
from pathlib import Path

_SOFT_PAUSE = 1  # omp_pause_soft: free the threads, keep the settings


def release_team() -> None:
    """End the team of the calling thread, if it has one; its next parallel operator starts a new
    one. Does nothing under another runtime than GNU's, which has no such limit."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if "libgomp" in path:
            ctypes.CDLL(path).omp_pause_resource_all(_SOFT_PAUSE)
            return
