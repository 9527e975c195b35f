"""An NVIDIA GPU as a device."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from workers.devices.base import Device, DeviceError, DeviceFacts
from workers.devices.checks import check_providers
from workers.devices.cuda.driver import Driver
from workers.devices.cuda.executable import CudaExecutable
from workers.devices.cuda.failures import reason_of
from workers.devices.cuda.placement import placed
from workers.devices.cuda.shared import Shared
from workers.devices.cuda.torch_driver import TorchDriver
from workers.devices.providers import create
from workers.graph.graph import Graph
from workers.schedules.plan import Plan
from workers.schedules.validate import validate


class CudaDevice(Device):
    """One GPU of this process, called as torch calls it. One Plan runs on it at a time."""

    def __init__(self, facts: DeviceFacts, driver: Driver) -> None:
        self._facts = facts
        self._shared = Shared(facts.name, driver, facts.gpu)

    @staticmethod
    def open(facts: DeviceFacts) -> CudaDevice:
        """Open the GPU that ``discover`` found. Raises DeviceError if PyTorch cannot use it."""
        if not torch.cuda.is_available():
            raise DeviceError(
                f"{facts.name} is there, but this PyTorch ({torch.__version__}) cannot use it;"
                " install one that was built for a CUDA that the driver serves"
                f" ({facts.versions['cuda']} or older)"
            )
        index = int(facts.name.removeprefix("cuda:"))
        return CudaDevice(facts, TorchDriver(index, facts.gpu))

    @property
    def facts(self) -> DeviceFacts:
        return self._facts

    def prepare(
        self,
        graph: Graph,
        weights: Mapping[str, Tensor],
        plan: Plan,
        provider: str = "aten",
        *,
        capture: bool = True,
        cold: bool = False,
    ) -> CudaExecutable:
        """As the interface says. Without ``capture`` every run launches kernel by kernel; with
        ``cold`` the L2 cache is flushed before each timed run."""
        name = self._facts.name
        if self._shared.closed:
            raise DeviceError(f"the device {name} is closed; open it again")
        check_providers(self._facts, plan, provider)
        for weight in graph.weights:
            if weight not in weights:
                raise DeviceError(f"graph {graph.name!r} needs weight {weight!r}, which is missing")
        validate(plan, graph)
        here = placed(graph, name)
        with self._shared.lock:
            self._shared.refuse_if_broken()
            with self._shared.driver.session():
                streams = self._shared.take_streams(max(1, len(plan.streams)))
                self._shared.driver.use(streams[0])
                held = self._upload(graph, weights)
            # Compiling may try kernels, and lays weights out on torch's default stream: not while
            # another Plan runs, and it must have ended before a stream of ours reads them.
            chosen = plan.providers(provider)
            makers = {maker: create(maker, name) for maker in set(chosen.values())}
            units = {
                unit.name: makers[chosen[unit.name]].compile(here, unit, held, 1)
                for unit in here.units
            }
            with self._shared.driver.session():
                self._shared.settle()
        constants = {name: held[name] for name in graph.outputs if name in held}
        return CudaExecutable(self._shared, here, plan, units, constants, streams, capture, cold)

    def close(self) -> None:
        with self._shared.lock:
            if self._shared.closed:
                return
            self._shared.closed = True
            self._shared.streams.clear()
            if self._shared.broken is None:  # else every call fails, and the process must end
                self._shared.driver.close()

    def _upload(self, graph: Graph, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        try:
            return {name: self._shared.driver.upload(weights[name]) for name in graph.weights}
        except torch.OutOfMemoryError as error:
            raise DeviceError(
                f"the weights of graph {graph.name!r} do not fit into the memory of"
                f" {self._facts.name}: {reason_of(error)}"
            ) from error
