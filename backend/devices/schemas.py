"""Wire forms of a device."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

_SEED = re.compile(r"0|[1-9][0-9]{0,8}")


class TunerOffer(BaseModel):
    """A tuner of kernels, and one line on it."""

    name: str
    title: str
    description: str


class WorkloadOffer(BaseModel):
    """A tensor program that has a name."""

    name: str
    family: str
    title: str
    sizes: dict[str, int]
    gflops: float


class FamilyOffer(BaseModel):
    """Tensor programs that differ by their sizes alone; ``sizes`` stand for those not given."""

    title: str
    sizes: dict[str, int]


class KernelOffer(BaseModel):
    """Which kernels can be tuned, and how."""

    tuners: list[TunerOffer]
    workloads: list[WorkloadOffer]
    families: dict[str, FamilyOffer]


class Capabilities(BaseModel):
    """What can be asked of a device. Of each of ``zoo_families`` there is a model ``FAMILY_SEED``
    for every seed, of which ``zoo`` lists a few. ``providers`` implement its operators. ``kernels``
    is null where none are tuned."""

    schedulers: list[str] = []
    zoo: list[str] = []
    zoo_families: list[str] = []
    formats: list[str] = []
    providers: list[str] = ["aten"]
    kernels: KernelOffer | None = None

    def has_model(self, name: str) -> bool:
        """Whether the zoo has a model of that name."""
        family, _, seed = name.rpartition("_")
        drawn = family in self.zoo_families and _SEED.fullmatch(seed) is not None
        return drawn or name in self.zoo


class DeviceRead(BaseModel):
    """``online`` means that its worker has made progress lately."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    kind: str
    description: str
    fingerprint: str
    facts: dict[str, Any]
    capabilities: Capabilities
    worker: str
    last_progress_at: datetime
    online: bool
