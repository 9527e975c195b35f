"""What each GPU here is, as a device: pure functions of what the driver says."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from hashlib import blake2b

from workers.devices.base import DeviceFacts
from workers.devices.cuda.builds import torch_flags, torch_versions
from workers.devices.cuda.probe import Probe, ProbedGpu, probe
from workers.hardware.gpu import GpuFacts

FP32_LANES = {
    (3, 0): 192, (3, 2): 192, (3, 5): 192, (3, 7): 192,
    (5, 0): 128, (5, 2): 128, (5, 3): 128,
    (6, 0): 64, (6, 1): 128, (6, 2): 128,
    (7, 0): 64, (7, 2): 64, (7, 5): 64,
    (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128, (10, 3): 128, (11, 0): 128, (12, 0): 128, (12, 1): 128,
}  # fmt: skip
"""32-bit floating-point multiply-adds that one SM ends in a clock cycle, by compute capability
(CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions")."""

SETTINGS = (
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "TORCH_CUDNN_V8_API_DISABLED",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDNN_CONVOLUTION_BWD_FILTER_ALGO",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
)
"""Environment variables that change how fast the same operator runs."""


def discover() -> tuple[DeviceFacts, ...]:
    """The facts of every GPU of this machine, none without a driver. Imports no torch.

    A PyTorch built without CUDA cannot use a GPU, so there is no device for it.
    """
    found = probe()
    if not found.gpus:
        return ()
    versions = torch_versions()
    if "torch_cuda" not in versions:
        return ()
    settings = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    return tuple(device_facts(gpu, found, versions, settings, torch_flags()) for gpu in found.gpus)


def device_facts(
    gpu: ProbedGpu,
    found: Probe,
    torch: Mapping[str, str],
    settings: Mapping[str, str],
    flags: Mapping[str, bool | str],
) -> DeviceFacts:
    """The facts of one of the probe's GPUs, under versions of torch and settings."""
    versions = {
        **torch,
        "cuda": found.cuda,
        "driver": found.driver,
        "python": platform.python_version(),
    }
    facts, notes = gpu_facts(gpu)
    identity = {
        "model": gpu.name,
        "attributes": dict(gpu.attributes),
        "memory_gib": round(gpu.memory_bytes / 2**30),
        "settings": dict(settings),
        "flags": dict(flags),
        "versions": versions,
    }
    digest = blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=8).hexdigest()
    parts = [gpu.name]
    if facts is not None:
        parts.append(f"{facts.sm_count} SMs")
    parts.append(f"{gpu.memory_bytes / 2**30:.0f} GiB")
    return DeviceFacts(
        name=f"cuda:{gpu.index}",
        kind="cuda",
        description="; ".join([", ".join(parts), *notes]),
        fingerprint=f"cuda-{digest}",
        parallelism=1,
        memory_bytes=gpu.memory_bytes,
        versions=versions,
        providers=("aten", "inductor"),
        gpu=facts,
    )


def gpu_facts(gpu: ProbedGpu) -> tuple[GpuFacts | None, tuple[str, ...]]:
    """What the GPU is made of, and notes on what is not known, in words.

    Peak FP32 is 2 × lanes × SMs × clock; bandwidth is 2 × memory clock × bus width, which holds
    for every double-data-rate memory. Both are 0 where a number for them is missing.
    """
    known = gpu.attributes
    needed = (
        "capability_major", "capability_minor", "sm_count", "threads_per_sm", "registers_per_sm",
        "shared_memory_per_sm", "registers_per_block", "shared_memory_per_block",
    )  # fmt: skip
    missing = [name for name in needed if name not in known]
    if missing:
        return None, (f"the driver does not tell {', '.join(missing)}",)
    notes = []
    capability = (known["capability_major"], known["capability_minor"])
    lanes = FP32_LANES.get(capability, 0)
    clock = known.get("clock_khz", 0)
    peak = 2 * lanes * known["sm_count"] * clock * 1e3 / 1e12
    if not peak:
        version = ".".join(map(str, capability))
        notes.append(f"peak FP32 rate unknown (compute capability {version}, {clock} kHz)")
    bandwidth = 2 * known.get("memory_clock_khz", 0) * 1e3 * known.get("memory_bus_bits", 0) / 8e9
    if not bandwidth:
        notes.append("memory bandwidth unknown")
    facts = GpuFacts(
        name=gpu.name,
        compute_capability=capability,
        sm_count=known["sm_count"],
        clock_mhz=clock / 1e3,
        fp32_tflops=peak,
        bandwidth_gb_s=bandwidth,
        l2_bytes=known.get("l2_bytes", 0),
        threads_per_sm=known["threads_per_sm"],
        blocks_per_sm=known.get("blocks_per_sm", 16),
        registers_per_sm=known["registers_per_sm"],
        shared_memory_per_sm=known["shared_memory_per_sm"],
        registers_per_block=known["registers_per_block"],
        shared_memory_per_block=known["shared_memory_per_block"],
        warp_size=known.get("warp_size", 32),
    )
    return facts, tuple(notes)
