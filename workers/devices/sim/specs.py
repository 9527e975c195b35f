"""The GPUs that can be simulated: one table, each number with where it was published.

Limits per SM are from the CUDA C++ programming guide, table "Technical Specifications per Compute
Capability": 3.7, 6.0 and 7.0 of CUDA 11, 7.5, 8.0 and 9.0 of CUDA 13 (there Section 5.1, tables 30
and 31). float32 lanes are those of its table "Throughput of Native Arithmetic Instructions". Peak
FP32 is 2 · cores · clock at the clock given, as the datasheets compute it.

"Not confirmed" marks what was not found in a document of NVIDIA's when this table was checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workers.hardware.gpu import GpuFacts


@dataclass(frozen=True, slots=True)
class Limits:
    """What the programming guide's table says of one compute capability, for one SM.

    ``shared_memory_per_block`` is the most that a kernel may ask for ("opt-in")."""

    threads: int
    blocks: int
    registers: int
    registers_per_block: int
    shared_memory: int
    shared_memory_per_block: int
    fp32_lanes: int


_KIB = 1024

LIMITS: Mapping[tuple[int, int], Limits] = MappingProxyType(
    {
        # 3.x left the guide after CUDA 11; its table there.
        (3, 7): Limits(2048, 16, 128 * _KIB, 64 * _KIB, 112 * _KIB, 48 * _KIB, 192),
        (6, 0): Limits(2048, 32, 64 * _KIB, 64 * _KIB, 64 * _KIB, 48 * _KIB, 64),
        (7, 0): Limits(2048, 32, 64 * _KIB, 64 * _KIB, 96 * _KIB, 96 * _KIB, 64),
        (7, 5): Limits(1024, 16, 64 * _KIB, 64 * _KIB, 64 * _KIB, 64 * _KIB, 64),
        (8, 0): Limits(2048, 32, 64 * _KIB, 64 * _KIB, 164 * _KIB, 163 * _KIB, 64),
        (9, 0): Limits(2048, 32, 64 * _KIB, 64 * _KIB, 228 * _KIB, 227 * _KIB, 128),
    }
)


@dataclass(frozen=True, slots=True)
class Spec:
    """A GPU with its memory and the sources of its numbers."""

    gpu: GpuFacts
    memory_bytes: int
    source: str


def _spec(
    name: str,
    compute_capability: tuple[int, int],
    sm_count: int,
    clock_mhz: float,
    bandwidth_gb_s: float,
    l2_kib: int,
    memory_gb: int,
    source: str,
) -> Spec:
    limits = LIMITS[compute_capability]
    return Spec(
        GpuFacts(
            name=name,
            compute_capability=compute_capability,
            sm_count=sm_count,
            clock_mhz=clock_mhz,
            fp32_tflops=2 * limits.fp32_lanes * sm_count * clock_mhz / 1e6,
            bandwidth_gb_s=bandwidth_gb_s,
            l2_bytes=l2_kib * _KIB,
            threads_per_sm=limits.threads,
            blocks_per_sm=limits.blocks,
            registers_per_sm=limits.registers,
            shared_memory_per_sm=limits.shared_memory,
            registers_per_block=limits.registers_per_block,
            shared_memory_per_block=limits.shared_memory_per_block,
        ),
        memory_gb << 30,
        source,
    )


SPECS: Mapping[str, Spec] = MappingProxyType(
    {
        # One of the board's two GK210: 13 SMX, 2,496 cores, 12 GB at 240 GB/s, up to 875 MHz.
        "k80": _spec(
            "Tesla K80", (3, 7), 13, 875, 240, 1536, 12,
            "NVIDIA Tesla K80 board specification BD-07317-001 (a board has two of these GPUs; the"
            " clock is the highest boost clock; by itself it takes 824 MHz); SMs, cores, L2 and 384"
            " bits at 2,505 MHz (240 GB/s): deviceQuery of a Tesla K80",
        ),
        "p100": _spec(
            "Tesla P100-SXM2-16GB", (6, 0), 56, 1480, 732, 4096, 16,
            "NVIDIA Tesla P100 whitepaper WP-08019: 56 SMs, 1480 MHz boost, 4096 KB of L2;"
            " bandwidth: 4096 bits at 715 MHz (the whitepaper rounds to 720 GB/s)",
        ),
        "v100": _spec(
            "Tesla V100-SXM2-16GB", (7, 0), 80, 1530, 900, 6144, 16,
            "NVIDIA Tesla V100 GPU architecture whitepaper WP-08608, table 1 (boost 1530 MHz)",
        ),
        "rtx2080super": _spec(
            "NVIDIA GeForce RTX 2080 SUPER", (7, 5), 48, 1815, 496, 4096, 8,
            "NVIDIA product page of the GeForce RTX 2080 SUPER (3,072 cores, boost 1,815 MHz,"
            " 15.5 Gbps on 256 bits); L2: 4 MiB as deviceQuery has it of an RTX 2080, which has the"
            " same chip, TU104; not confirmed for this board",
        ),
        "rtx2080ti": _spec(
            "NVIDIA GeForce RTX 2080 Ti", (7, 5), 68, 1545, 616, 5632, 11,
            "NVIDIA Turing GPU architecture whitepaper WP-09183, table of the RTX 2080 Ti"
            " (reference board, 1545 MHz, not Founders Edition, 1635 MHz)",
        ),
        "a100": _spec(
            "NVIDIA A100-PCIE-40GB", (8, 0), 108, 1410, 1555, 40960, 40,
            "NVIDIA A100 Tensor Core GPU architecture whitepaper, table 4, pages 36 and 37; limits"
            " of an SM: table 5. It is of the SXM4 board; the PCIe board's datasheet has the same"
            " peaks and 1,555 GB/s, at less power",
        ),
        "h100": _spec(
            "NVIDIA H100 80GB HBM3", (9, 0), 132, 1980, 3350, 51200, 80,
            "NVIDIA H100 Tensor Core GPU architecture whitepaper, table 3, pages 39 and 40;"
            " limits of an SM: table 4; product page: 67 TFLOPS FP32, from which the clock follows,"
            " and 3.35 TB/s",
        ),
        "h200": _spec(
            "NVIDIA H200", (9, 0), 132, 1980, 4800, 51200, 141,
            "NVIDIA H200 datasheet: 67 TFLOPS FP32, from which the clock follows, 4.8 TB/s, 141 GB;"
            " SMs and L2 as the H100's, of which it has the chip (L2 not confirmed)",
        ),
    }
)  # fmt: skip
