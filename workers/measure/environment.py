"""The environment stamp: under what conditions measurements were taken."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import torch

from workers.devices.base import DeviceFacts
from workers.measure.machine import (
    Facts,
    cgroup_limits,
    cpu_facts,
    gpu_facts,
    load_facts,
    memory_facts,
    settings,
    virtualisation,
)
from workers.measure.noise import Quiet

_LIBRARIES = {
    "mkl": re.compile(r"oneAPI Math Kernel Library Version ([\d.]+)"),
    "onednn": re.compile(r"MKL-DNN v(\S+)"),
    "openmp": re.compile(r"OpenMP \d+ \(a\.k\.a\. OpenMP ([\d.]+)\)"),
    "cpu_capability": re.compile(r"CPU capability usage: (\S+)"),
}
"""What is in ``torch.__config__.show()``."""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the machine was at a moment."""

    taken_at: str
    facts: Facts

    def to_json(self) -> dict[str, Any]:
        return {"taken_at": self.taken_at, **self.facts}


@dataclass(frozen=True, slots=True)
class Environment:
    """The device, the machine, the libraries, and how busy it all was ``before`` and ``after``.

    The mappings hold texts and numbers, and only what could be read; ``noise`` is the noise
    guard's verdict, or None if none watched.
    """

    taken_at: str
    device: str
    fingerprint: str
    simulated: bool
    system: str
    virtualisation: str | None
    cpu: Facts
    gpu: Facts
    memory: Facts
    limits: Facts
    versions: dict[str, str]
    settings: Facts
    after: Load
    before: Load | None = None
    noise: Quiet | None = field(default=None)

    def to_json(self) -> dict[str, Any]:
        """JSON without what is empty. ``asdict`` goes into the nested classes too."""
        data = asdict(self)
        data["after"] = self.after.to_json()
        data["before"] = self.before.to_json() if self.before else None
        return {name: value for name, value in data.items() if value not in (None, {})}


def load_now() -> Load:
    """How busy the machine is now; to be taken before measuring."""
    return Load(_now(), load_facts())


def environment(
    facts: DeviceFacts, before: Load | None = None, noise: Quiet | None = None
) -> Environment:
    """The conditions now, after measuring, to be kept beside the figures taken on the device of
    ``facts``. On a simulated one, the machine is that which simulated."""
    cores = sorted(os.sched_getaffinity(0))
    return Environment(
        taken_at=_now(),
        device=facts.description,
        fingerprint=facts.fingerprint,
        simulated=facts.simulated,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        virtualisation=virtualisation(),
        cpu=cpu_facts(cores),
        gpu=gpu_facts(_gpu_id(facts.name)) if facts.kind == "cuda" else {},
        memory=memory_facts(),
        limits=cgroup_limits(),
        versions={**library_versions(), **facts.versions},
        settings=settings(),
        after=load_now(),
        before=before,
        noise=noise,
    )


def library_versions() -> dict[str, str]:
    """Of what computes: PyTorch, and the libraries that it was built with."""
    told = torch.__config__.show()
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    versions |= {
        name: found.group(1)
        for name, pattern in _LIBRARIES.items()
        if (found := pattern.search(told))
    }
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
        if cudnn := torch.backends.cudnn.version():  # type: ignore[no-untyped-call]  # it is torch's
            versions["cudnn"] = str(cudnn)
    return versions


def _gpu_id(device: str) -> str:
    """How ``nvidia-smi`` knows the GPU that PyTorch calls ``cuda:1``: by its UUID, as the two may
    count in another order. Where PyTorch cannot tell, by its place in CUDA_VISIBLE_DEVICES."""
    number = int(device.partition(":")[2] or 0)
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(number)
        if uuid := getattr(properties, "uuid", None):
            return f"GPU-{uuid}"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return visible[number].strip() if number < len(visible) and visible[number] else str(number)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
