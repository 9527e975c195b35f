"""What drivers say about real GPUs, for tests."""

from __future__ import annotations

from workers.devices.base import DeviceFacts
from workers.devices.cuda.builds import FLAG_DEFAULTS
from workers.devices.cuda.facts import device_facts
from workers.devices.cuda.probe import Probe, ProbedGpu

# Memory 3201 MHz, 132 SMs, 60 MB of L2, 143771 MiB: nvidia-smi and PyTorch on an H200; the rest
# from the CUDA programming guide's table for compute capability 9.0.
H200 = ProbedGpu(
    index=0,
    name="NVIDIA H200",
    uuid="GPU-00000000-0000-0000-0000-000000000000",
    memory_bytes=143771 << 20,
    attributes={
        "warp_size": 32,
        "registers_per_block": 65536,
        "clock_khz": 1_980_000,
        "sm_count": 132,
        "memory_clock_khz": 3_201_000,
        "memory_bus_bits": 6144,
        "l2_bytes": 60 << 20,
        "threads_per_sm": 2048,
        "capability_major": 9,
        "capability_minor": 0,
        "shared_memory_per_sm": 233_472,
        "registers_per_sm": 65536,
        "shared_memory_per_block": 232_448,
        "blocks_per_sm": 32,
    },
)

DRIVER = Probe((H200,), driver="580.159.04", cuda="13.0")

TORCH = {"torch": "2.11.0+cu130", "torch_cuda": "13.0", "cudnn": "9.15.1.9"}


def h200_facts() -> DeviceFacts:
    return device_facts(H200, DRIVER, TORCH, {}, FLAG_DEFAULTS)
