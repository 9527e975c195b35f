"""What all executables of a CUDA device share."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from workers.devices.base import DeviceError
from workers.devices.cuda.driver import Driver
from workers.devices.cuda.timing import Clocks
from workers.devices.gpu import GpuFacts


@dataclass(slots=True)
class Shared:
    """``lock`` gives the GPU to one run at a time; without it nothing is running there. ``broken``
    is what every use raises once the process can use the GPU no more."""

    name: str
    driver: Driver
    gpu: GpuFacts | None
    lock: Lock = field(default_factory=Lock)
    clocks: Clocks = field(default_factory=Clocks)
    streams: list[Any] = field(default_factory=list)
    broken: DeviceError | None = None
    closed: bool = False

    def refuse_if_broken(self) -> None:
        if self.broken is not None:
            raise self.broken

    def take_streams(self, count: int) -> tuple[Any, ...]:
        """The device's first ``count`` streams, made as far as there are fewer. Executables use
        the same ones: only one of them runs at a time, and each stream that a library has seen
        costs it a workspace."""
        while len(self.streams) < count:
            self.streams.append(self.driver.stream())
        return tuple(self.streams[:count])
