"""Models of the kernels that move more than they compute: pointwise operators, pooling, reductions,
normalisation, softmax, look-ups, copies, depthwise convolutions.

Blocks and threads are those of PyTorch's CUDA kernels (``aten/src/ATen/native/cuda``, files named
at each model; they change between versions, and these were not compared with one in particular).
Registers and bytes in flight are *estimates*.
"""

from __future__ import annotations

import math

from workers.devices.sim.arithmetic import LOAD_LATENCY_S, lanes, sm_flops
from workers.devices.sim.kernel import BlockWork, SimKernel, sim_kernel
from workers.devices.sim.products import Traffic
from workers.hardware.gpu import GpuFacts
from workers.hardware.occupancy import Block

LATENCY_S = 1.5e-6
"""*Estimate*: a block's start, a load and a store. A kernel that does nothing takes about 1.5 to
2 µs in a profiler's records."""

LANES_PER_WARP = 4
"""*Estimate*: lanes of an SM that one warp keeps busy, as ``products.LANES_PER_WARP``; less, as
there is little parallelism within one."""

ARITHMETIC_EFFICIENCY = 0.25
"""*Estimate*: of the peak of multiply-adds; indices, comparisons and special functions count."""

_MOST_BLOCKS = 1 << 20


def pointwise(gpu: GpuFacts, name: str, elements: int, flops: float, traffic: Traffic) -> SimKernel:
    """``CUDALoops.cuh``: 128 threads, four elements for each, loaded as one vector."""
    return streaming(gpu, name, elements, 512, Block(128, 32), flops, traffic, 16)


def copy(gpu: GpuFacts, name: str, elements: int, traffic: Traffic) -> SimKernel:
    """Gathers, scatters, padding, resampling: ``CUDALoops.cuh`` with index arithmetic, one element
    at a time for each thread."""
    return streaming(gpu, name, elements, 512, Block(128, 32), 4.0 * elements, traffic, 8)


def concat(gpu: GpuFacts, elements: int, inputs: int, traffic: Traffic) -> SimKernel:
    """``Shape.cu``: ``CatArrayBatchedCopy`` copies up to 128 inputs in one launch, with blocks of
    512 threads that loop, at most two on an SM for each input."""
    grid = min(math.ceil(elements / 512), 2 * gpu.sm_count * min(inputs, 128))
    each = math.ceil(elements / max(1, grid))
    return streaming(gpu, "cat", elements, each, Block(512, 32), 4.0 * elements, traffic, 8)


def pooling(
    gpu: GpuFacts, name: str, outputs: int, window: float, size: int, traffic: Traffic
) -> SimKernel:
    """``DilatedMaxPool2d.cu``, ``AveragePool2d.cu``: 256 threads, one result for each, which reads
    its window; what neighbours read again comes from L1."""
    loads = traffic.inputs + 0.25 * outputs * window * size
    return streaming(
        gpu, name, outputs, 256, Block(256, 32), 4.0 * outputs * window, traffic, 16, loads
    )


def depthwise(gpu: GpuFacts, outputs: int, window: float, size: int, traffic: Traffic) -> SimKernel:
    """``DepthwiseConv2d.cu``: 256 threads, one result for each. Ten instructions a multiply-add,
    *calibrated*: bounds, indices and loads keep it far from the peak (IOS, Section 7.4, finds
    cuDNN's slow, too)."""
    loads = traffic.inputs + 0.5 * outputs * window * size
    return streaming(
        gpu,
        "conv_depthwise2d",
        outputs,
        256,
        Block(256, 40),
        20.0 * outputs * window,
        traffic,
        16,
        loads,
        LATENCY_S + window * 0.1e-6,
    )


def rows(
    gpu: GpuFacts,
    name: str,
    count: int,
    length: int,
    flops_per_element: float,
    traffic: Traffic,
) -> SimKernel:
    """Softmax, normalisation and reductions over ``length`` elements of each of ``count`` rows.

    Short rows are a warp's work, four in a block (``PersistentSoftmax.cuh``, ``Reduce.cuh``); long
    ones a block's, of up to 512 threads (``SoftMax.cu``, ``layer_norm_kernel.cu``).
    """
    if length <= 1024:
        block, per_block = Block(128, 40), 4
    else:
        block, per_block = Block(min(512, max(128, length // 16 // 32 * 32)), 40, 4096), 1
    grid = max(1, math.ceil(count / per_block))
    elements = count * length
    # The rows' elements are read, brought together across threads, and perhaps read again.
    return streaming(
        gpu,
        name,
        elements,
        math.ceil(elements / grid),
        block,
        flops_per_element * elements,
        traffic,
        16,
        latency_s=LATENCY_S + 1.0e-6,
    )


def streaming(
    gpu: GpuFacts,
    name: str,
    elements: int,
    per_block: int,
    block: Block,
    flops: float,
    traffic: Traffic,
    bytes_in_flight: float,
    loads: float | None = None,
    latency_s: float = LATENCY_S,
) -> SimKernel:
    """``per_block`` elements for each block; every thread has ``bytes_in_flight`` of loads on their
    way. ``loads`` are all bytes loaded through L2, if more than each input once."""
    grid = min(max(1, math.ceil(elements / max(1, per_block))), _MOST_BLOCKS)
    read = traffic.weights + traffic.inputs if loads is None else traffic.weights + loads
    peak = sm_flops(gpu) * ARITHMETIC_EFFICIENCY
    work = BlockWork(
        compute_s=flops / grid / peak,
        compute_share=min(1.0, block.threads / gpu.warp_size * LANES_PER_WARP / lanes(gpu)),
        dram_bytes=(traffic.weights + traffic.outputs) / grid,
        reused_bytes=traffic.inputs / grid,
        l2_bytes=(read + traffic.outputs) / grid,
        bytes_per_s=block.threads * bytes_in_flight / LOAD_LATENCY_S,
        latency_s=latency_s,
    )
    return sim_kernel(gpu, name, grid, block, work, traffic.inputs + traffic.outputs)
