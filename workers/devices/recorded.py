"""Kernel profiles recorded on a real GPU: JSON lines, one for each Unit.

Whoever profiles Units on a GPU writes them (``append_profiles``); a simulated device of the same
GPU takes them in place of its kernel models (``read_profiles``). A line::

    {"format": "plait.kernels", "version": 1, "gpu": "NVIDIA H200", "provider": "aten",
     "signature": "<32 hexadecimal digits>", "versions": {"torch": "2.13.0"},
     "kernels": [{"name": "...", "duration_ms": 0.012, "grid": [8, 1, 1], "block": [128, 1, 1],
                  "registers_per_thread": 64, "shared_memory_bytes": 8192}]}
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from workers.devices.base import DeviceError
from workers.graph.graph import Graph
from workers.graph.signature import signature
from workers.hardware.kernel import Kernel

FORMAT = "plait.kernels"
VERSION = 1


@dataclass(frozen=True, slots=True)
class RecordedProfile:
    """The kernels that one Unit launched, in order. ``gpu`` is the name that the driver gives it,
    ``signature`` that of the Unit (``unit_signature``), ``versions`` what it was recorded with."""

    gpu: str
    provider: str
    signature: str
    kernels: tuple[Kernel, ...]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RecordedProfiles:
    """The profiles of one GPU and provider by signature; ``digest`` names exactly these."""

    kernels: Mapping[str, tuple[Kernel, ...]]
    digest: str

    def of(self, signature: str, unit: str) -> tuple[Kernel, ...] | None:
        """The kernels recorded for that structure, as kernels of the Unit ``unit``."""
        found = self.kernels.get(signature)
        return None if found is None else tuple(replace(kernel, unit=unit) for kernel in found)


def unit_signature(graph: Graph, position: int) -> str:
    """What a Unit's profile is found by: its operators, shapes and types, not its name."""
    return signature(graph, [position])


def append_profiles(path: Path, profiles: Iterable[RecordedProfile]) -> None:
    """Add the profiles to the file at ``path``, which is made if need be."""
    lines = [json.dumps(_to_json(profile)) + "\n" for profile in profiles]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(lines)


def read_profiles(path: Path, gpu: str, provider: str) -> RecordedProfiles:
    """The profiles of ``gpu`` and ``provider``; of two with one signature the later counts.

    Raises DeviceError naming the line that is no profile, or the file if it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DeviceError(f"the recorded profiles in {path} cannot be read: {error}") from error
    kernels: dict[str, tuple[Kernel, ...]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            profile = _from_json(json.loads(line))
        except (KeyError, TypeError, ValueError) as error:
            raise DeviceError(
                f"line {number} of {path} is no recorded profile: {error!r}; record it again"
            ) from error
        if (profile.gpu, profile.provider) == (gpu, provider):
            kernels[profile.signature] = profile.kernels
    form = [[key, [_kernel_to_json(k) for k in kernels[key]]] for key in sorted(kernels)]
    digest = blake2b(json.dumps(form).encode(), digest_size=8).hexdigest()
    return RecordedProfiles(kernels, digest)


def _to_json(profile: RecordedProfile) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "gpu": profile.gpu,
        "provider": profile.provider,
        "signature": profile.signature,
        "versions": dict(profile.versions),
        "kernels": [_kernel_to_json(kernel) for kernel in profile.kernels],
    }


def _kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "duration_ms": kernel.duration_ms,
        "grid": kernel.grid,
        "block": kernel.block,
        "registers_per_thread": kernel.registers_per_thread,
        "shared_memory_bytes": kernel.shared_memory_bytes,
    }


def _from_json(data: Mapping[str, Any]) -> RecordedProfile:
    if data["format"] != FORMAT or data["version"] != VERSION:
        raise ValueError(f"format {data['format']!r}, version {data['version']!r}")
    return RecordedProfile(
        gpu=str(data["gpu"]),
        provider=str(data["provider"]),
        signature=str(data["signature"]),
        kernels=tuple(_kernel(kernel) for kernel in data["kernels"]),
        versions=dict(data["versions"]),
    )


def _kernel(data: Mapping[str, Any]) -> Kernel:
    duration = float(data["duration_ms"])
    if not (math.isfinite(duration) and duration >= 0):
        raise ValueError(f"duration_ms is {duration}")
    return Kernel(
        unit="",
        name=str(data["name"]),
        duration_ms=duration,
        grid=_extent(data["grid"]),
        block=_extent(data["block"]),
        registers_per_thread=_count(data["registers_per_thread"]),
        shared_memory_bytes=_count(data["shared_memory_bytes"]),
    )


def _extent(value: Any) -> tuple[int, int, int] | None:
    if value is None:
        return None
    x, y, z = (int(size) for size in value)
    if min(x, y, z) < 1:
        raise ValueError(f"an extent is {value}")
    return x, y, z


def _count(value: Any) -> int | None:
    if value is None:
        return None
    if int(value) < 0:
        raise ValueError(f"a count is {value}")
    return int(value)
