"""Latencies of many Plans, by the engine that has them soonest.

There are two: ``engine``, in Python, and ``compiled``, by numba. They give the same latencies to
the last bit, so that it does not matter which was asked: neither whether numba is installed, nor
what was asked before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from workers.devices.sim.engine import latency_s
from workers.devices.sim.jobs import Job
from workers.devices.sim.launch_path import LaunchPath
from workers.devices.sim.sharing import Memory
from workers.devices.sim.tables import Kernels, Plans, machine
from workers.hardware.gpu import GpuFacts

FEW_KERNELS = 5_000
"""So many are simulated in Python first, which takes about half a second: as long as importing
numba and reading what it compiled takes. Compiling takes twenty times as long, but once only."""

_MOST_NUMBERED = 1_000_000


class Latencies:
    """Simulates Plans on one GPU for their latencies alone, each with the GPU for itself."""

    def __init__(
        self, gpu: GpuFacts, memory: Memory, path: LaunchPath, few_kernels: int = FEW_KERNELS
    ) -> None:
        self._gpu, self._memory, self._path = gpu, memory, path
        self._kernels = Kernels()
        self._few = few_kernels

    def of(self, plans: Sequence[Sequence[Job]]) -> list[float]:
        """In seconds. The jobs of each come after those that they wait for."""
        few = 0
        while few < len(plans) and self._few > 0:
            self._few -= sum([1 + len(job.kernels) for job in plans[few]])
            few += 1
        found = [latency_s(self._gpu, self._memory, self._path, jobs) for jobs in plans[:few]]
        if few < len(plans):
            found += self._of_many(plans[few:])
        return found

    def _of_many(self, plans: Sequence[Sequence[Job]]) -> list[float]:
        run = compiled_engine()
        if run is None:
            return [latency_s(self._gpu, self._memory, self._path, jobs) for jobs in plans]
        if len(self._kernels) > _MOST_NUMBERED:
            self._kernels = Kernels()
        made = Plans()
        for jobs in plans:
            for job in jobs:
                made.add(job.stream, self._kernels.numbers(job.kernels), job.after, job.records)
            made.end()
        found = np.empty(len(plans))
        given = machine(self._gpu, self._memory, self._path, self._kernels, made)
        run(given, np.array(made.starts, np.int64), found)
        latencies: list[float] = found.tolist()
        return latencies


@cache
def compiled_engine() -> Callable[..., Any] | None:
    """The compiled engine, imported when it is first asked for; None where numba is missing."""
    try:
        from workers.devices.sim.compiled import latencies  # noqa: PLC0415  # imports numba
    except ImportError:
        return None
    return latencies
