"""The devices of this machine."""

from __future__ import annotations

from workers.devices.base import Device, DeviceError, DeviceFacts
from workers.devices.cpu_facts import read_cpu
from workers.devices.cuda import facts as cuda_facts
from workers.devices.sim import facts as sim_facts


def discover() -> tuple[DeviceFacts, ...]:
    """The facts of every device here. Cheap, and imports no torch: for registration."""
    return (read_cpu(), *cuda_facts.discover(), *sim_facts.read_simulated())


def open_device(name: str) -> Device:
    """Open the device of that name. Raises DeviceError for an unknown one."""
    if name == "cpu":
        from workers.devices.cpu import CpuDevice  # noqa: PLC0415  # torch loads only when used

        return CpuDevice()
    for facts in cuda_facts.discover():
        if facts.name == name:
            from workers.devices.cuda.device import CudaDevice  # noqa: PLC0415  # the same

            return CudaDevice.open(facts)
    if name.startswith(sim_facts.PREFIX):
        from workers.devices.sim.device import SimDevice  # noqa: PLC0415  # loaded when used

        return SimDevice(name)
    known = ", ".join(facts.name for facts in discover())
    raise DeviceError(f"no device {name!r} here; known: {known}")
