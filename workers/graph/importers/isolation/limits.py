"""Resource limits, privileges, and the ties to the parent process."""

from __future__ import annotations

import os
import resource
import signal
import struct
from dataclasses import dataclass
from pathlib import Path

from workers.graph.importers.isolation import kernel

LIBRARIES_BYTES = 24 << 30  # address space that torch's CUDA libraries map without using it
OPEN_FILES = 512
THREADS = 1024

_CAPABILITY_VERSION_3 = 0x20080522


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a sandboxed process may use: memory it allocates, and time on the wall's clock.

    With ``address_space`` the addresses that it takes are bounded too, and with them memory that it
    shares with others. CUDA takes as many as all GPUs and the host have memory, and uses few.
    """

    memory_bytes: int
    seconds: float
    address_space: bool = True


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def volunteer_for_oom() -> None:
    """If the machine runs out of memory, let this process and its children be the ones to go."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        return  # a read-only /proc; the limit on memory holds all the same


def apply(bounds: Bounds, *, counts_own_processes: bool) -> None:
    """Set the limits, drop every capability, and rule out gaining any by executing a program.

    ``counts_own_processes`` says that the kernel counts this sandbox's threads apart from its
    user's others, so that a limit on them means something.
    """
    cpu_seconds = int(bounds.seconds * (os.cpu_count() or 1)) + 1
    _limit(resource.RLIMIT_DATA, bounds.memory_bytes)
    if bounds.address_space:
        _limit(resource.RLIMIT_AS, bounds.memory_bytes + LIBRARIES_BYTES)  # counts shared memory
    _limit(resource.RLIMIT_FSIZE, bounds.memory_bytes)
    _limit(resource.RLIMIT_CPU, cpu_seconds)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    _limit(resource.RLIMIT_CORE, 0)
    if counts_own_processes:
        _limit(resource.RLIMIT_NPROC, THREADS)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    kernel.call("capset", header, struct.pack("=6I", *[0] * 6))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)


def _limit(which: int, value: int) -> None:
    """Lower a limit, soft and hard; one that is lower already stays."""
    hard = resource.getrlimit(which)[1]
    lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (lowest, lowest))
