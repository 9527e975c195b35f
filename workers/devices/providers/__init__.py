"""Who implements the operators of a Unit. A scheduler sees only Units; the job chooses."""

from __future__ import annotations

from workers.devices.base import PROVIDERS, DeviceError
from workers.devices.providers.base import KernelProvider


def create(name: str, device: str = "cpu") -> KernelProvider:
    """The provider of that name for a device as torch calls it (``cpu``, ``cuda:0``), on which
    weights and inputs must lie. Raises DeviceError for an unknown name."""
    if name == "aten":
        from workers.devices.providers.aten import AtenProvider  # noqa: PLC0415  # torch when used

        return AtenProvider(device)
    if name == "inductor":
        from workers.devices.providers.inductor import InductorProvider  # noqa: PLC0415  # the same

        return InductorProvider(device)
    raise DeviceError(f"no kernel provider {name!r}; known: {', '.join(PROVIDERS)}")
