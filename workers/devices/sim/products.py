"""Models of the kernels that multiply matrices: GEMM, implicit GEMM, Winograd, GEMV, attention.

A library picks, of its kernels, the one that is quickest on an idle GPU; so do these models, by
the time that the engine's own rules give them. Tiles are those in the names of the kernels that
cuBLAS and cuDNN report to profilers (``volta_sgemm_128x64_nn``,
``volta_scudnn_128x32_relu_interior_nn_v1``, ``volta_sgemm_32x32_sliced1x4_nn``). Threads,
registers, shared memory and efficiencies are *estimates*, but for the 128 threads, 86 registers and
32 KiB that published traces show of ``ampere_sgemm_32x32_sliced1x4_nn``; efficiencies are
calibrated on the latencies that the authors of IOS published (``docs/simulator.md``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workers.devices.sim.arithmetic import LOAD_LATENCY_S, lanes, math_of
from workers.devices.sim.kernel import BlockWork, SimKernel, sim_kernel
from workers.graph.graph import ITEM_SIZES
from workers.hardware.gpu import GpuFacts
from workers.hardware.occupancy import Block

LANES_PER_WARP = 8
"""Lanes of an SM that one warp of a product keeps busy while it waits for its own results: 8 warps,
two for each scheduler, for 64 lanes. *Estimate*; products have much parallelism within a warp."""

LATENCY_S = 4.0e-6
"""A block's start, its first tiles' loads and its stores; *calibrated* as the efficiencies are."""

BYTES_IN_FLIGHT_PER_THREAD = 32
"""*Estimate*: two 16-byte loads, as tiles are loaded ahead by one step in registers (the principle:
CUTLASS, "Efficient GEMM in CUDA", pipelining)."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A kernel that computes ``rows`` by ``columns`` of the result in a block. ``efficiency`` is
    the part of an SM's peak that it reaches with enough warps."""

    name: str
    rows: int
    columns: int
    threads: int
    registers: int
    shared_memory: int
    efficiency: float


GEMM_TILES = (
    Tile("gemm_128x128", 128, 128, 256, 122, 16_640, 0.92),
    Tile("gemm_128x64", 128, 64, 128, 122, 12_544, 0.88),
    Tile("gemm_64x64", 64, 64, 64, 126, 8_320, 0.80),
    Tile("gemm_128x32", 128, 32, 128, 86, 10_496, 0.72),
    Tile("gemm_64x32_sliced1x4", 64, 32, 128, 86, 32_768, 0.62),
    Tile("gemm_32x32_sliced1x4", 32, 32, 128, 86, 32_768, 0.50),
)

CONVOLUTION_TILES = (
    Tile("conv_128x128", 128, 128, 256, 128, 16_640, 0.92),
    Tile("conv_128x64", 128, 64, 128, 128, 12_544, 0.88),
    Tile("conv_128x32", 128, 32, 64, 128, 10_496, 0.80),
    Tile("conv_64x32", 64, 32, 128, 86, 16_384, 0.45),
    Tile("conv_32x32", 32, 32, 128, 86, 16_384, 0.30),
)

# F(2x2, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016), in
# one kernel. *Estimate*: 32 tiles of the image by 32 filters at 16 points, by 256 threads.
_WINOGRAD = Tile("winograd_2x2_3x3", 32, 32, 256, 126, 16_384, 0.60)
_WINOGRAD_POINTS, _WINOGRAD_OUTPUTS = 16, 4

_TENSOR_EFFICIENCY = 0.6
"""*Estimate*: of the tensor cores' peak, times the tile's own efficiency."""

SPLITS = (1, 2, 4, 8)
"""*Estimate*: parts that cuBLAS cuts long inner products into, added up by a second kernel
(``splitKreduce_kernel`` in traces)."""

_GEMV_ROWS = 4
"""*Estimate*: up to this many rows a product is bound by reading the matrix: one warp for each
column (cuBLAS's ``gemv`` kernels)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a kernel must move at least: ``weights`` read, ``inputs`` read that an earlier
    kernel wrote, and ``outputs`` written."""

    weights: float
    inputs: float
    outputs: float


def gemm(
    gpu: GpuFacts, dtype: str, batch: int, m: int, n: int, k: int, traffic: Traffic
) -> tuple[SimKernel, ...]:
    """``batch`` products of m × k by k × n, with a bias and perhaps an activation on the result."""
    if min(m, n) <= _GEMV_ROWS:
        return (_gemv(gpu, dtype, batch * min(m, n), max(m, n), k, traffic),)
    candidates = [
        _tiled(gpu, dtype, tile, batch, max(m, n), min(m, n), k, split, traffic)
        for tile in GEMM_TILES
        for split in SPLITS
        if split == 1 or k // split >= 256
    ]
    return quickest(gpu, candidates)


def convolution(
    gpu: GpuFacts,
    dtype: str,
    groups: int,
    pixels: int,
    filters: int,
    length: int,
    traffic: Traffic,
    winograd_tiles: int = 0,
) -> tuple[SimKernel, ...]:
    """An implicit GEMM of ``pixels`` × ``length`` by ``length`` × ``filters`` in each group.

    ``winograd_tiles`` is the number of 2 × 2 squares of the result if it is a 3 × 3 convolution of
    stride 1, for which cuDNN has Winograd kernels besides.
    """
    candidates = [
        _tiled(gpu, dtype, tile, groups, pixels, filters, length, 1, traffic)
        for tile in CONVOLUTION_TILES
    ]
    if winograd_tiles and not math_of(gpu, dtype).tensor:
        candidates.append(_winograd(gpu, dtype, winograd_tiles, filters, length // 9, traffic))
    return quickest(gpu, candidates)


def attention(
    gpu: GpuFacts, dtype: str, heads: int, queries: int, keys: int, width: int, traffic: Traffic
) -> tuple[SimKernel, ...]:
    """softmax(Q Kᵀ) V in one kernel (Dao et al., "FlashAttention", NeurIPS 2022), 64 queries of a
    head in each block, as in the name of PyTorch's memory-efficient kernel
    (``fmha_cutlassF_f32_aligned_64x64_rf_sm80``). The rest is *estimated*."""
    rows = min(64, queries)
    grid = heads * math.ceil(queries / rows)
    flops = 2.0 * rows * keys * 2 * width + 6.0 * rows * keys
    return (
        _block_kernel(
            gpu,
            dtype,
            f"attention_64x{width}",
            grid,
            Block(128, 160, min(4 * 64 * (width + 64) * 2, 48_000)),
            flops,
            0.45,
            (rows + 2.0 * keys) * width * ITEM_SIZES[dtype],
            traffic,
        ),
    )


def quickest(gpu: GpuFacts, candidates: Sequence[tuple[SimKernel, ...]]) -> tuple[SimKernel, ...]:
    """The candidate that takes least on an idle GPU; of equal ones the first."""
    return min(candidates, key=lambda kernels: sum(alone_s(gpu, kernel) for kernel in kernels))


def alone_s(gpu: GpuFacts, kernel: SimKernel) -> float:
    """How long a kernel takes on an idle GPU, but for bandwidth: full waves and the last one."""
    slots = kernel.fit * gpu.sm_count
    full, rest = divmod(kernel.grid, slots)
    seconds = full * _wave_s(kernel, kernel.fit)
    if rest:
        seconds += _wave_s(kernel, math.ceil(rest / gpu.sm_count))
    return seconds


def _wave_s(kernel: SimKernel, each: int) -> float:
    return max(kernel.work.alone_s, each * kernel.work.compute_s)


def _tiled(
    gpu: GpuFacts,
    dtype: str,
    tile: Tile,
    batch: int,
    m: int,
    n: int,
    k: int,
    split: int,
    traffic: Traffic,
) -> tuple[SimKernel, ...]:
    tiles = batch * math.ceil(m / tile.rows) * math.ceil(n / tile.columns)
    part = math.ceil(k / split)
    size = ITEM_SIZES[dtype]
    name = tile.name if split == 1 else f"{tile.name}_splitK{split}"
    product = _block_kernel(
        gpu,
        dtype,
        name,
        tiles * split,
        Block(tile.threads, tile.registers, tile.shared_memory),
        2.0 * tile.rows * tile.columns * part,
        tile.efficiency,
        float(tile.rows + tile.columns) * part * size,
        traffic,
    )
    if split == 1:
        return (product,)
    result = batch * m * n
    blocks = max(1, math.ceil(result / 1024))
    partial = 4.0 * result * split
    work = BlockWork(
        reused_bytes=partial / blocks,
        dram_bytes=traffic.outputs / blocks,
        l2_bytes=(partial + traffic.outputs) / blocks,
        bytes_per_s=256 * 16 / LOAD_LATENCY_S,
        latency_s=1.2e-6,
    )
    return product, sim_kernel(gpu, "splitK_reduce", blocks, Block(256, 32), work, partial)


def _winograd(
    gpu: GpuFacts, dtype: str, tiles: int, filters: int, channels: int, traffic: Traffic
) -> tuple[SimKernel, ...]:
    grid = math.ceil(tiles / _WINOGRAD.rows) * math.ceil(filters / _WINOGRAD.columns)
    # Loads are of the untransformed data: 4 x 4 squares that overlap, and 3 x 3 filters.
    loads = channels * (_WINOGRAD.rows * 16.0 + _WINOGRAD.columns * 9.0) * ITEM_SIZES[dtype]
    return (
        _block_kernel(
            gpu,
            dtype,
            _WINOGRAD.name,
            grid,
            Block(_WINOGRAD.threads, _WINOGRAD.registers, _WINOGRAD.shared_memory),
            2.0 * _WINOGRAD_POINTS * _WINOGRAD.rows * _WINOGRAD.columns * channels,
            _WINOGRAD.efficiency,
            loads,
            traffic,
        ),
    )


def _gemv(gpu: GpuFacts, dtype: str, rows: int, n: int, k: int, traffic: Traffic) -> SimKernel:
    """A warp for each column, four in a block; every row is kept in registers."""
    blocks = max(1, math.ceil(n / 4))
    total = traffic.weights + traffic.inputs + traffic.outputs
    work = BlockWork(
        compute_s=2.0 * rows * n * k / blocks / (0.5 * math_of(gpu, dtype).sm_flops),
        compute_share=min(1.0, 4 * LANES_PER_WARP / 2 / lanes(gpu)),
        dram_bytes=(traffic.weights + traffic.outputs) / blocks,
        reused_bytes=traffic.inputs / blocks,
        l2_bytes=total / blocks,
        bytes_per_s=128 * 64 / LOAD_LATENCY_S,
        latency_s=LATENCY_S,
    )
    return sim_kernel(gpu, "gemv", blocks, Block(128, 48), work, traffic.inputs + traffic.outputs)


def _block_kernel(
    gpu: GpuFacts,
    dtype: str,
    name: str,
    grid: int,
    block: Block,
    flops: float,
    efficiency: float,
    loads: float,
    traffic: Traffic,
) -> SimKernel:
    """A kernel whose every block does ``flops`` and loads ``loads`` bytes through L2."""
    unit = math_of(gpu, dtype)
    peak = unit.sm_flops * efficiency * (_TENSOR_EFFICIENCY if unit.tensor else 1.0)
    work = BlockWork(
        compute_s=flops / peak,
        compute_share=min(1.0, block.threads / gpu.warp_size * LANES_PER_WARP / lanes(gpu)),
        dram_bytes=(traffic.weights + traffic.outputs) / grid,
        reused_bytes=traffic.inputs / grid,
        l2_bytes=loads + traffic.outputs / grid,
        bytes_per_s=block.threads * BYTES_IN_FLIGHT_PER_THREAD / LOAD_LATENCY_S * 2,
        latency_s=LATENCY_S,
    )
    return sim_kernel(gpu, name, grid, block, work, traffic.inputs + traffic.outputs)
