"""The devices of this machine."""

from __future__ import annotations

from workers.devices.base import Device, DeviceError, DeviceFacts
from workers.devices.cpu_facts import read_cpu


def discover() -> tuple[DeviceFacts, ...]:
    """The facts of every device here. Cheap, and imports no torch: for registration."""
    return (read_cpu(),)


def open_device(name: str) -> Device:
    """Open the device of that name. Raises DeviceError for an unknown one."""
    if name == "cpu":
        from workers.devices.cpu import CpuDevice  # noqa: PLC0415  # torch loads only when used

        return CpuDevice()
    known = ", ".join(facts.name for facts in discover())
    raise DeviceError(f"no device {name!r} here; known: {known}")
