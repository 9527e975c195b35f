"""The environment stamp: under what conditions measurements were taken."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workers.devices.base import DeviceFacts


@dataclass(frozen=True, slots=True)
class Environment:
    """The device, the system, and how busy the machine was (running processes per core)."""

    taken_at: str
    device: str
    fingerprint: str
    system: str
    versions: dict[str, str]
    load_per_core: float

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def environment(facts: DeviceFacts) -> Environment:
    """The conditions now, to be kept beside the figures taken on the device of ``facts``."""
    return Environment(
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        device=facts.description,
        fingerprint=facts.fingerprint,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        versions=dict(facts.versions),
        load_per_core=round(os.getloadavg()[0] / (os.cpu_count() or 1), 2),
    )
