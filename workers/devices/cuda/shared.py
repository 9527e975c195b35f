"""What all executables of a CUDA device share."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from workers.devices.base import DeviceError
from workers.devices.cuda.driver import Driver
from workers.devices.cuda.failures import broken_device
from workers.devices.cuda.timing import Clocks
from workers.hardware.gpu import GpuFacts


@dataclass(slots=True)
class Shared:
    """``lock`` gives the GPU to one run at a time; without it nothing is running there. ``broken``
    is what every use raises once the process can use the GPU no more; ``wrecks`` are then the
    graphs that nobody may destroy."""

    name: str
    driver: Driver
    gpu: GpuFacts | None
    lock: Lock = field(default_factory=Lock)
    clocks: Clocks = field(default_factory=Clocks)
    streams: list[Any] = field(default_factory=list)
    broken: DeviceError | None = None
    wrecks: list[Any] = field(default_factory=list)
    closed: bool = False

    def refuse_if_broken(self) -> None:
        if self.broken is not None:
            raise self.broken

    def settle(self) -> None:
        """Let all that was launched end. What this raises is about the whole process."""
        try:
            self.driver.synchronize()
        except RuntimeError as error:
            self.broken = broken_device(self.name, error)
            raise self.broken from error
        self.clocks.touch()

    def take_streams(self, count: int) -> tuple[Any, ...]:
        """The device's first ``count`` streams, made as far as there are fewer. Executables use
        the same ones: only one of them runs at a time, and each stream that a library has seen
        costs it a workspace."""
        while len(self.streams) < count:
            self.streams.append(self.driver.stream())
        return tuple(self.streams[:count])
