"""The facts of the simulated devices, without importing torch or NumPy."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

from workers.devices.base import DeviceError, DeviceFacts
from workers.devices.recorded import RecordedProfiles, read_profiles
from workers.devices.sim.launch_path import PATHS, Issue
from workers.devices.sim.specs import SPECS, Spec
from workers.devices.sim.version import MODEL_VERSION

PREFIX = "sim:"
PROVIDER = "aten"
PROFILES = "PLAIT_SIM_PROFILES"
"""The environment variable that names a file of profiles recorded on real GPUs."""

_UNREADABLE = "unreadable"  # in place of the digest of profiles that cannot be read


def read_simulated() -> tuple[DeviceFacts, ...]:
    """The facts of every GPU that can be simulated. Where recorded profiles cannot be read, the
    device is listed all the same and says so; opening it raises."""
    return tuple(_listed(name) for name in SPECS)


def _listed(name: str) -> DeviceFacts:
    try:
        return facts_of(name)
    except DeviceError:
        return _facts(name, "graph", _UNREADABLE)


def facts_of(name: str, issue: Issue = "graph") -> DeviceFacts:
    """The facts of ``sim:name``. Raises DeviceError for an unknown name and for recorded profiles
    that cannot be read."""
    return _facts(name, issue, recorded_profiles(spec_of(name)).digest)


def spec_of(name: str) -> Spec:
    """The GPU of that name, without the prefix. Raises DeviceError, naming those that there are."""
    if name not in SPECS:
        known = ", ".join(PREFIX + other for other in SPECS)
        raise DeviceError(f"no GPU {name!r} can be simulated; known: {known}")
    return SPECS[name]


def recorded_profiles(spec: Spec) -> RecordedProfiles:
    """What was recorded on this GPU, in the file that PLAIT_SIM_PROFILES names, if it does."""
    path = os.environ.get(PROFILES)
    if not path:
        return RecordedProfiles({}, "")
    try:
        stamp = Path(path).stat().st_mtime_ns
    except OSError:
        stamp = 0  # the reader says what is wrong with it
    return _read(path, stamp, spec.gpu.name)


@cache
def _read(path: str, _stamp: int, gpu: str) -> RecordedProfiles:
    found = read_profiles(Path(path), gpu, PROVIDER)
    return found if found.kernels else RecordedProfiles({}, "")


@cache
def _facts(name: str, issue: Issue, recorded: str) -> DeviceFacts:
    spec = SPECS[name]
    versions = {
        "torch": version("torch"),
        "python": platform.python_version(),
        "simulator": MODEL_VERSION,
    }
    identity = {
        "spec": asdict(spec),
        "issue": issue,
        "path": asdict(PATHS[issue]),
        "recorded": recorded,
        "model": MODEL_VERSION,
    }
    digest = blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=8).hexdigest()
    profiles = ", with recorded kernel profiles" if recorded else ""
    if recorded == _UNREADABLE:
        profiles = f", not usable: the recorded kernel profiles in {PROFILES} cannot be read"
    return DeviceFacts(
        name=PREFIX + name,
        kind="sim",
        description=(
            f"{spec.gpu.name}, simulated: {spec.gpu.sm_count} SMs,"
            f" {spec.gpu.fp32_tflops:.1f} TFLOPS, {spec.gpu.bandwidth_gb_s:.0f} GB/s{profiles}"
        ),
        fingerprint=f"sim-{name}-{digest}",
        parallelism=1,
        memory_bytes=spec.memory_bytes,
        versions=versions,
        simulated=True,
        providers=(PROVIDER,),
        gpu=spec.gpu,
    )
