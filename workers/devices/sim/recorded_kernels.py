"""Kernels that were recorded on a real GPU, as the engine simulates them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from workers.devices.sim.arithmetic import memory_of
from workers.devices.sim.kernel import BlockWork, SimKernel, sim_kernel
from workers.graph.graph import Unit
from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel
from workers.hardware.occupancy import Block

_WARPS_OF_A_BUSY_SM = 16
_LEAST_S = 1e-9


def recorded_kernels(gpu: GpuFacts, unit: Unit, kernels: Sequence[Kernel]) -> tuple[SimKernel, ...]:
    """The recorded kernels of ``unit`` with durations and footprints from the record.

    Alone, each takes the recorded time. What it does to others follows from its footprint, and
    from the Unit's bytes, divided among its kernels by duration: a block asks for the part of an
    SM that its warps are of sixteen, and for its part of the bytes.
    """
    total = sum(kernel.duration_ms for kernel in kernels) or 1.0
    return tuple(
        _recorded(gpu, kernel, unit.bytes_moved * kernel.duration_ms / total) for kernel in kernels
    )


def _recorded(gpu: GpuFacts, kernel: Kernel, moved: float) -> SimKernel:
    grid = math.prod(kernel.grid or (1, 1, 1))
    block = Block(
        math.prod(kernel.block or (gpu.warp_size, 1, 1)),
        kernel.registers_per_thread or 0,
        kernel.shared_memory_bytes or 0,
    )
    made = sim_kernel(gpu, kernel.name, grid, block, BlockWork(latency_s=_LEAST_S))
    waves = math.ceil(grid / (made.fit * gpu.sm_count))
    wave_s = max(kernel.duration_ms / 1e3 / waves, _LEAST_S)
    resident = min(made.fit, math.ceil(grid / gpu.sm_count))
    busy = min(made.warps / _WARPS_OF_A_BUSY_SM, 1 / resident)
    at_once = min(grid, made.fit * gpu.sm_count)
    most = 0.99 * memory_of(gpu).dram_bytes_per_s * wave_s / at_once
    work = BlockWork(
        compute_s=wave_s * busy,
        compute_share=busy,
        dram_bytes=min(moved / grid, most),
        latency_s=0.0,
    )
    shape = (kernel.grid or (1, 1, 1), kernel.block or (gpu.warp_size, 1, 1))
    return replace(made, work=work, shape=shape, recorded_ms=kernel.duration_ms)
