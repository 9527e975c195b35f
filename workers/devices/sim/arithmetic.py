"""What a GPU's SMs and memory can really do: peaks by element type, and the parts of them that
kernels reach. One table of constants, each with its source or marked *estimate*."""

from __future__ import annotations

from dataclasses import dataclass

from workers.devices.gpu import GpuFacts
from workers.devices.sim.sharing import Memory

DRAM_EFFICIENCY = 0.85
"""Of the datasheet's bandwidth, what a copy reaches: Jia et al., "Dissecting the NVIDIA Volta GPU
Architecture via Microbenchmarking" (2018), measure 83 % on the V100 and about as much on the P100;
taken for all."""

L2_BYTES_PER_CLOCK_AND_SM = {3: 32.0, 6: 32.0, 7: 27.0, 8: 42.0, 9: 42.0}
"""L2 read bandwidth by major compute capability. 7: 2,155 GB/s on the V100 at 1,380 MHz (Jia et
al. 2018, table of load throughput, rounded), that is 19.5 to 27 bytes per clock and SM depending
on the access; 8: the A100 whitepaper's 5,120 bytes per clock, less what is reached. *Estimates*."""

LOAD_LATENCY_S = 0.5e-6
"""*Estimate*: from issue to data of a load from DRAM under some load; Jia et al. 2018 have about
430 to 1,000 cycles unloaded on Volta and older."""

KEPLER_EFFICIENCY = 0.6
"""Of Kepler's peak, what its registers and instruction issue let a product reach: Lai and Seznec,
"Performance Upper Bound Analysis and Optimization of SGEMM on Fermi and Kepler GPUs" (CGO 2013),
find an upper bound of 58 % on a GTX 680."""

# Dense tensor-core peak in TFLOPS with accumulation in float32, from the whitepapers and
# datasheets named in ``specs``. Without tensor cores, float16 at twice float32 (P100) or alike.
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
        # 1/2 on the P100, V100, A100 and H100, 1/3 on the K80, 1/32 on Turing (programming guide,
        # table of arithmetic throughput).
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
    per_clock = L2_BYTES_PER_CLOCK_AND_SM[gpu.compute_capability[0]]
    return Memory(
        dram_bytes_per_s=gpu.bandwidth_gb_s * 1e9 * DRAM_EFFICIENCY,
        l2_bytes_per_s=per_clock * gpu.clock_mhz * 1e6 * gpu.sm_count,
        l2_bytes=float(gpu.l2_bytes),
    )
