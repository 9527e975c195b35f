"""What the CPU is, without importing torch."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from workers.devices.base import PROVIDERS, DeviceFacts
from workers.devices.cuda.builds import torch_versions

_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "asimd", "sve")
"""Instruction sets that the CPU libraries choose kernels by."""

SETTINGS = (
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "OMP_PROC_BIND",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "MKL_ENABLE_INSTRUCTIONS",
)
"""Environment variables that change how fast the same operator runs."""

_SYSTEM = Path("/sys/devices/system/cpu")
_UNTOLD_CACHE_BYTES = 32 << 20

_KERNELS = 2
"""Raised when a provider calls something else for the same Unit, so that older measurements are
not taken for those of today's."""


def read_cpu() -> DeviceFacts:
    """The facts of the CPU that this process may use: its affinity mask counts, not the machine."""
    cores = len(os.sched_getaffinity(0))
    model, flags = _model_and_flags(Path("/proc/cpuinfo").read_text())
    memory = _memory_bytes(Path("/proc/meminfo").read_text())
    versions = {**torch_versions(), "python": platform.python_version()}
    identity = {
        "machine": platform.machine(),
        "model": model,
        "flags": [flag for flag in _FLAGS if flag in flags],
        "cores": cores,
        "memory_gib": round(memory / 2**30),
        "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ},
        "versions": versions,
        "kernels": _KERNELS,
    }
    digest = blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=8).hexdigest()
    return DeviceFacts(
        name="cpu",
        kind="cpu",
        description=f"{model}, {cores} core{'s' if cores > 1 else ''}",
        fingerprint=f"cpu-{digest}",
        parallelism=cores,
        memory_bytes=memory,
        versions=versions,
        providers=_providers(),
    )


def largest_caches(cores: Iterable[int], system: Path = _SYSTEM) -> int:
    """Bytes of the caches next to memory that these cores use, each once; 32 MiB where Linux does
    not tell."""
    found = {}
    for core in cores:
        levels = []
        for cache in (system / f"cpu{core}/cache").glob("index*"):
            with suppress(OSError, ValueError):
                size = int((cache / "size").read_text().strip().removesuffix("K")) * 1024
                shared = (cache / "shared_cpu_list").read_text().strip()
                levels.append((int((cache / "level").read_text()), shared, size))
        if levels:
            level, shared, size = max(levels)
            found[level, shared] = size
    return sum(found.values()) or _UNTOLD_CACHE_BYTES


def _providers() -> tuple[str, ...]:
    """TorchInductor compiles C++: it needs the compiler that it will look for. ONNX Runtime is
    optional, and so is what makes models for it."""
    there = {
        "aten": True,
        "inductor": shutil.which(os.environ.get("CXX", "g++")) is not None,
        "onnxruntime": all(find_spec(package) for package in ("onnx", "onnxruntime")),
    }
    return tuple(name for name in PROVIDERS if there[name])


def _model_and_flags(cpuinfo: str) -> tuple[str, frozenset[str]]:
    """The first processor's model and instruction sets, from ``/proc/cpuinfo``."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    model = fields.get("model name") or fields.get("cpu part") or platform.machine()
    return model, frozenset(fields.get("flags", fields.get("features", "")).split())


def _memory_bytes(meminfo: str) -> int:
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise ValueError("/proc/meminfo has no MemTotal")
