"""What a GPU's SMs and memory can really do: peaks by element type, and the parts of them that
kernels reach. One table of constants, each with its source or marked *estimate*."""

from __future__ import annotations

from dataclasses import dataclass

from workers.devices.sim.sharing import Memory
from workers.hardware.gpu import GpuFacts

DRAM_EFFICIENCY = 0.85
"""Of the datasheet's bandwidth, what kernels reach. *Estimate*: copies by ``cudaMemcpy`` reach 790
of 900 GB/s, 88 %, on a V100 PCIe (paranumal.com, "Rough-n-Ready Roofline: NVIDIA V100 edition",
2018); taken for all but the K80."""

DRAM_EFFICIENCY_OF_KEPLER = 0.65
"""NVIDIA's ``bandwidthTest`` copies at 157 of 240 GB/s on a K80 (Stanford's course CME 213, 2020,
lecture 7); error correction takes its part there."""

L2_BYTES_PER_CLOCK_AND_SM = {3: 32.0, 6: 32.0, 7: 23.0, 8: 42.0, 9: 34.0}
"""L2 read bandwidth by major compute capability, as far as it is reached. 7: nine tenths of the
V100's 2,048 bytes per clock for 80 SMs; 8: nine tenths of the A100's 5,120 for 108 (both: A100
whitepaper, page 35). 9: 4,472 bytes per clock measured on the same chip, in an H800 (Luo et al.,
"Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", arXiv
2402.13499, Table V), for 132 SMs. 3, 6, and 7 for Turing: *estimates*, not published."""

LOAD_LATENCY_S = 0.5e-6
"""*Estimate*: from issue to data of a load from DRAM under some load. Without any it is 466 cycles
on an A100 and 479 on an H800 (Luo et al., Table IV), 0.3 µs."""

KEPLER_EFFICIENCY = 0.6
"""*Estimate*: of Kepler's peak, what its registers and instruction issue let a product reach. Lai
and Seznec, "Performance Upper Bound Analysis and Optimization of SGEMM on Fermi and Kepler GPUs"
(CGO 2013, abstract), find an upper bound of 57.6 % on a GTX 680; a thread of the K80's chip may
have four times as many registers, so that its bound is higher."""

# Dense tensor-core peak in TFLOPS with accumulation in float32. V100: its whitepaper, table 1;
# A100: its whitepaper, table 4; H100 and H200: half of the 1,979 with sparsity of their product
# pages; Turing: 512 FLOPs per clock and SM for GeForce boards, at the clocks of ``specs``.
# Without tensor cores, float16 is twice as fast as float32 (P100) or equally fast.
_TENSOR_TFLOPS: dict[str, float] = {
    "Tesla V100-SXM2-16GB": 125.0,
    "NVIDIA GeForce RTX 2080 SUPER": 44.6,
    "NVIDIA GeForce RTX 2080 Ti": 53.8,
    "NVIDIA A100-PCIE-40GB": 312.0,
    "NVIDIA H100 80GB HBM3": 989.5,
    "NVIDIA H200": 989.5,
}


@dataclass(frozen=True, slots=True)
class Math:
    """FLOPs per second of one SM at its peak, and whether they are its tensor cores'."""

    sm_flops: float
    tensor: bool


def math_of(gpu: GpuFacts, dtype: str) -> Math:
    """The arithmetic that products of ``dtype`` run on. float32 is computed in full precision, on
    the CUDA cores; TF32, which PyTorch allows cuDNN's convolutions from Ampere on, is not modelled.
    """
    fp32 = sm_flops(gpu)
    if dtype in ("float16", "bfloat16"):
        has_bfloat16 = gpu.compute_capability >= (8, 0)
        if gpu.name in _TENSOR_TFLOPS and (dtype == "float16" or has_bfloat16):
            return Math(_TENSOR_TFLOPS[gpu.name] * 1e12 / gpu.sm_count, tensor=True)
        if dtype == "float16" and gpu.compute_capability == (6, 0):
            return Math(2 * fp32, tensor=False)
    if dtype == "float64":
        # 1/2 on the P100, V100, A100 and H100, 1/3 on the K80, 1/32 on Turing (CUDA C++
        # programming guide, table "Throughput of Native Arithmetic Instructions"; the K80's until
        # CUDA 11).
        turing = gpu.compute_capability == (7, 5)
        part = 1 / 32 if turing else 1 / 3 if gpu.compute_capability[0] == 3 else 1 / 2
        return Math(part * fp32, tensor=False)
    return Math(fp32, tensor=False)


def sm_flops(gpu: GpuFacts) -> float:
    """float32 FLOPs per second of one SM, as far as any kernel gets."""
    kepler = gpu.compute_capability[0] == 3
    return gpu.fp32_tflops * 1e12 / gpu.sm_count * (KEPLER_EFFICIENCY if kepler else 1.0)


def lanes(gpu: GpuFacts) -> float:
    """Multiply-adds per clock of one SM: 64, or 128 since Hopper, 192 on Kepler. So many more warps
    are needed to keep them busy."""
    return gpu.fp32_tflops * 1e6 / (2 * gpu.sm_count * gpu.clock_mhz)


def memory_of(gpu: GpuFacts) -> Memory:
    kepler = gpu.compute_capability[0] == 3
    efficiency = DRAM_EFFICIENCY_OF_KEPLER if kepler else DRAM_EFFICIENCY
    per_clock = L2_BYTES_PER_CLOCK_AND_SM[gpu.compute_capability[0]]
    return Memory(
        dram_bytes_per_s=gpu.bandwidth_gb_s * 1e9 * efficiency,
        l2_bytes_per_s=per_clock * gpu.clock_mhz * 1e6 * gpu.sm_count,
        l2_bytes=float(gpu.l2_bytes),
    )
