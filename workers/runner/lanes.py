"""Which devices may work at the same time: those that do not disturb each other's measurements."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Lock

HOST = "host"


def lane_of(device: str) -> str:
    """Simulations keep this machine's CPU busy, so they share the lane of the device ``cpu``. A GPU
    has one of its own."""
    return HOST if device == "cpu" or is_simulated(device) else device


def is_simulated(device: str) -> bool:
    return device.startswith("sim:")


@dataclass
class Lane:
    """``devices`` are those whose doorbell rang ever, ``rung`` is set when one did since it was
    cleared, and whoever works on the lane holds ``busy``."""

    devices: tuple[str, ...] = ()
    rung: Event = field(default_factory=Event)
    busy: Lock = field(default_factory=Lock)


class Lanes:
    """The lanes of one worker."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._lock = Lock()

    def ring(self, device: str) -> Lane:
        """Note that there may be work for ``device``; its lane."""
        with self._lock:
            lane = self._lanes.setdefault(lane_of(device), Lane())
            if device not in lane.devices:
                lane.devices += (device,)
            lane.rung.set()
            return lane
