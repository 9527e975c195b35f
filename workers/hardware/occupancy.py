"""How many thread blocks of a kernel fit on an SM, and how many warps that keeps resident.

The rules are those of NVIDIA's occupancy calculator (``cuda_occupancy.h`` of the CUDA toolkit,
which ``tests/hardware/test_hardware_occupancy.py`` compares with where it is installed). Pure
functions of GpuFacts; nothing is asked of a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel

REGISTER_UNIT = 256
"""Registers are given to a warp in this many at a time, on every architecture since Kepler."""

# A warp's registers are all in one of an SM's partitions, each with its own part of them: four,
# but two on the P100 (compute capability 6.0).
_PARTITIONS = 4
_PARTITIONS_OF_P100 = 2

_MOST_THREADS = 1024  # of a block, on every architecture since Fermi

_RESERVED_SINCE_AMPERE = 1024
"""Bytes of shared memory that the driver keeps for each block (CUDA programming guide, table
"Technical Specifications per Compute Capability": 8.0 and later)."""


@dataclass(frozen=True, slots=True)
class Block:
    """What one thread block takes: threads, registers of each thread, bytes of shared memory."""

    threads: int
    registers_per_thread: int = 0
    shared_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BlockShare:
    """What one block really takes from an SM, once everything is rounded up to what is allocated.

    ``registers`` counts whole warps; ``blocks`` is always 1.
    """

    threads: int
    registers: int
    shared_memory: int
    blocks: int = 1


@dataclass(frozen=True, slots=True)
class Occupancy:
    """``blocks_per_sm`` fit at once; ``limited_by`` is the resource that allows no more: one of
    ``threads``, ``registers``, ``shared memory``, ``block slots``. 0 blocks cannot be launched."""

    blocks_per_sm: int
    warps_per_block: int
    limited_by: str

    @property
    def warps_per_sm(self) -> int:
        return self.blocks_per_sm * self.warps_per_block


def occupancy(gpu: GpuFacts, block: Block) -> Occupancy:
    """How many blocks of this kind fit on one SM of ``gpu`` at once. Raises ValueError for a block
    without threads."""
    if block.threads < 1:
        raise ValueError(f"a block has {block.threads} threads; it needs one or more")
    warps = warps_of(gpu, block)
    fitting = {
        "block slots": gpu.blocks_per_sm,
        "threads": _by_threads(gpu, block, warps),
        "registers": _by_registers(gpu, block, warps),
        "shared memory": _by_shared_memory(gpu, block),
    }
    limit = min(fitting, key=lambda resource: fitting[resource])
    return Occupancy(fitting[limit], warps, limit)


def share_of(gpu: GpuFacts, block: Block) -> BlockShare:
    """What one block takes from an SM's threads, registers and shared memory."""
    warps = warps_of(gpu, block)
    return BlockShare(
        threads=warps * gpu.warp_size,
        registers=warps * _registers_of_warp(gpu, block),
        shared_memory=_shared_memory_of(gpu, block),
    )


def warps_of(gpu: GpuFacts, block: Block) -> int:
    return -(-block.threads // gpu.warp_size)


def partitions(gpu: GpuFacts) -> int:
    """The partitions of an SM, each with a warp scheduler of its own (Kepler's share one)."""
    return _PARTITIONS_OF_P100 if gpu.compute_capability == (6, 0) else _PARTITIONS


def _registers_of_warp(gpu: GpuFacts, block: Block) -> int:
    return -(-block.registers_per_thread * gpu.warp_size // REGISTER_UNIT) * REGISTER_UNIT


def _by_threads(gpu: GpuFacts, block: Block, warps: int) -> int:
    if block.threads > _MOST_THREADS:
        return 0
    return gpu.threads_per_sm // (warps * gpu.warp_size)


def _by_registers(gpu: GpuFacts, block: Block, warps: int) -> int:
    of_warp = _registers_of_warp(gpu, block)
    if not of_warp:
        return gpu.blocks_per_sm
    count = partitions(gpu)
    # The rest of one block's warps are rounded up to all partitions when it is launched alone.
    if -(-warps // count) * count * of_warp > gpu.registers_per_block:
        return 0
    return gpu.registers_per_sm // count // of_warp * count // warps


def _by_shared_memory(gpu: GpuFacts, block: Block) -> int:
    taken = _shared_memory_of(gpu, block)
    if block.shared_memory_bytes > gpu.shared_memory_per_block:
        return 0
    return gpu.shared_memory_per_sm // taken if taken else gpu.blocks_per_sm


def _shared_memory_of(gpu: GpuFacts, block: Block) -> int:
    ampere = gpu.compute_capability >= (8, 0)
    unit, reserved = (128, _RESERVED_SINCE_AMPERE) if ampere else (256, 0)
    return -(-(block.shared_memory_bytes + reserved) // unit) * unit


def resident_warps(
    gpu: GpuFacts, intervals: Iterable[tuple[float, float, Kernel]]
) -> tuple[tuple[float, float], ...]:
    """Estimated resident warps on the whole device over time: IOS, Figure 8.

    ``intervals`` are (start ms, end ms, kernel). A kernel holds, from its start to its end, as many
    blocks as occupancy lets reside at once, or its whole grid if that is less; kernels side by side
    never hold more warps together than the device has room for. Kernels without a grid count
    nothing. Gives steps (ms, warps from then on), of which the last has none.

    An estimate: the blocks of the last wave leave one by one, and kernels that overlap take SMs
    from each other.
    """
    changes: dict[float, int] = {}
    for start, end, kernel in intervals:
        warps = _held(gpu, kernel)
        if warps and end > start:
            changes[start] = changes.get(start, 0) + warps
            changes[end] = changes.get(end, 0) - warps
    most = gpu.sm_count * gpu.threads_per_sm // gpu.warp_size
    times = sorted(changes)
    levels = accumulate(changes[time] for time in times)
    return steps((time, float(min(level, most))) for time, level in zip(times, levels, strict=True))


def steps(levels: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The same function of time without the steps that change nothing."""
    kept: list[tuple[float, float]] = []
    for time, level in levels:
        if kept and kept[-1][0] == time:
            kept.pop()
        if not kept or kept[-1][1] != level:
            kept.append((time, level))
    return tuple(kept)


def _held(gpu: GpuFacts, kernel: Kernel) -> int:
    if kernel.grid is None or kernel.block is None:
        return 0
    block = Block(
        math.prod(kernel.block),
        kernel.registers_per_thread or 0,
        kernel.shared_memory_bytes or 0,
    )
    found = occupancy(gpu, block)
    blocks = min(math.prod(kernel.grid), max(found.blocks_per_sm, 1) * gpu.sm_count)
    return blocks * found.warps_per_block
