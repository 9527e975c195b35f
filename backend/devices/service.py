"""Which devices there are, and which of them are being worked."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from backend.db.tables import Device
from backend.devices.schemas import Capabilities, DeviceRead
from backend.settings import Settings


def silence_allowed(settings: Settings) -> timedelta:
    """How long a worker may stay silent: the sweep rings it every ``sweep_seconds``, and one or
    two of those may be lost or late."""
    return timedelta(seconds=max(3 * settings.sweep_seconds, settings.lease_seconds))


def describe(device: Device, settings: Settings, now: datetime | None = None) -> DeviceRead:
    """The device's wire form; ``online`` if its worker has made progress lately."""
    silence = (now or datetime.now(UTC)) - device.last_progress_at
    return DeviceRead(
        name=device.name,
        kind=device.kind,
        description=device.description,
        fingerprint=device.fingerprint,
        facts=device.facts,
        capabilities=Capabilities.model_validate(device.capabilities),
        worker=device.worker,
        last_progress_at=device.last_progress_at,
        online=silence <= silence_allowed(settings),
    )


def zoo(devices: Iterable[Device]) -> dict[str, list[str]]:
    """The devices that offer each zoo model, by the model's name."""
    offered: dict[str, list[str]] = {}
    for device in devices:
        for name in Capabilities.model_validate(device.capabilities).zoo:
            offered.setdefault(name, []).append(device.name)
    return dict(sorted(offered.items()))


def formats(devices: Iterable[Device]) -> frozenset[str]:
    """The file formats that at least one device reads."""
    return frozenset().union(
        *(Capabilities.model_validate(device.capabilities).formats for device in devices)
    )
