"""What the NVIDIA driver says about the GPUs here, without importing torch.

Through libcuda and NVML by ctypes: both come with the driver, so that a machine without one has
neither, and no GPUs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

# CUdevice_attribute, as numbered in cuda.h.
ATTRIBUTES = {
    "warp_size": 10,
    "registers_per_block": 12,
    "clock_khz": 13,
    "sm_count": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "threads_per_sm": 39,
    "capability_major": 75,
    "capability_minor": 76,
    "shared_memory_per_sm": 81,
    "registers_per_sm": 82,
    "shared_memory_per_block": 97,  # what a kernel may have if it asks for it
    "blocks_per_sm": 106,
}

_NAME_BYTES = 256
_VERSION_BYTES = 80  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE

Loader = Callable[[str], Any]
"""Loads a shared library by name; raises OSError where there is none."""


@dataclass(frozen=True, slots=True)
class ProbedGpu:
    """One GPU that the driver shows to this process. ``attributes`` has the names of ATTRIBUTES;
    what the driver would not tell is missing."""

    index: int
    name: str
    uuid: str
    memory_bytes: int
    attributes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Probe:
    """All GPUs, the driver's version (``580.159.04``, or ``unknown``) and that of the newest CUDA
    that it serves (``13.0``)."""

    gpus: tuple[ProbedGpu, ...]
    driver: str
    cuda: str


NOTHING = Probe((), "unknown", "unknown")


def probe(load: Loader = ctypes.CDLL) -> Probe:
    """Ask the driver. No driver, one that does not start, or no GPU: no GPUs. Never raises.

    ``CUDA_VISIBLE_DEVICES`` is honoured, and indices are those that torch counts by.
    """
    try:
        cuda = load("libcuda.so.1")
    except OSError:
        return NOTHING
    try:
        if cuda.cuInit(0) != 0:
            return NOTHING
        count, version = ctypes.c_int(0), ctypes.c_int(0)
        if cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return NOTHING
        cuda.cuDriverGetVersion(ctypes.byref(version))
        found = [_gpu(cuda, index) for index in range(count.value)]
    except (AttributeError, OSError, ValueError):  # a library of that name which is no driver
        return NOTHING
    major, minor = divmod(version.value, 1000)
    gpus = tuple(gpu for gpu in found if gpu is not None)
    return Probe(gpus, _driver_version(load), f"{major}.{minor // 10}")


def _gpu(cuda: Any, index: int) -> ProbedGpu | None:
    device = ctypes.c_int(0)
    if cuda.cuDeviceGet(ctypes.byref(device), index) != 0:
        return None
    name = ctypes.create_string_buffer(_NAME_BYTES)
    memory = ctypes.c_size_t(0)
    if cuda.cuDeviceGetName(name, _NAME_BYTES, device) != 0:
        return None
    if cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device) != 0:
        return None
    return ProbedGpu(
        index=index,
        name=name.value.decode(errors="replace"),
        uuid=_uuid(cuda, device),
        memory_bytes=memory.value,
        attributes=_attributes(cuda, device),
    )


def _attributes(cuda: Any, device: ctypes.c_int) -> dict[str, int]:
    found = {}
    for name, number in ATTRIBUTES.items():
        value = ctypes.c_int(0)
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0:
            found[name] = value.value
    return found


def _uuid(cuda: Any, device: ctypes.c_int) -> str:
    raw = (ctypes.c_ubyte * 16)()
    try:
        told = cuda.cuDeviceGetUuid_v2(ctypes.byref(raw), device) == 0
    except AttributeError:  # a driver before CUDA 11.4
        told = False
    if not told:
        return "unknown"
    return f"GPU-{UUID(bytes=bytes(raw))}"


def _driver_version(load: Loader) -> str:
    try:
        nvml = load("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() != 0:
            return "unknown"
        text = ctypes.create_string_buffer(_VERSION_BYTES)
        told = nvml.nvmlSystemGetDriverVersion(text, _VERSION_BYTES) == 0
        nvml.nvmlShutdown()
    except (AttributeError, OSError):
        return "unknown"
    return text.value.decode(errors="replace") if told else "unknown"
