"""The CPU as a device: streams are threads pinned to cores."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from threading import Lock

import torch
from torch import Tensor

from workers.devices import providers
from workers.devices.allocator import keep_freed_memory
from workers.devices.base import Device, DeviceError, DeviceFacts, Executable
from workers.devices.checks import check_providers
from workers.devices.cpu_executable import CpuExecutable
from workers.devices.cpu_facts import largest_caches, read_cpu
from workers.devices.cpu_surroundings import Scratch
from workers.devices.cpu_workers import Worker
from workers.devices.openmp import release_team
from workers.graph.graph import Graph
from workers.graph.interpreter import CompiledUnit
from workers.schedules.arrangement import Arrangement, Host, arrange
from workers.schedules.plan import Plan
from workers.schedules.validate import validate


class CpuDevice(Device):
    """All cores that this process may use, when it is opened. One Plan runs at a time.

    Worker threads are shared by all executables and live until the device is closed: starting a
    thread, its OpenMP team and its libraries' scratch memory costs more than many a Plan.

    While the device is open, PyTorch operators of the thread that opened it run on one thread:
    a second OpenMP team in the process would slow down those of the workers (see ``openmp``). From
    then on the process keeps the memory that it frees (see ``allocator``).
    """

    def __init__(self) -> None:
        self._caller_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        release_team()
        keep_freed_memory()
        self._facts = read_cpu()
        self._cores = sorted(os.sched_getaffinity(0))
        self._cache_bytes = largest_caches(self._cores)
        self._workers: dict[tuple[int, ...], list[Worker]] = {}
        self._lock = Lock()
        self._scratch = Scratch()
        self._closed = False

    @property
    def facts(self) -> DeviceFacts:
        return self._facts

    @property
    def cache_bytes(self) -> int:
        return self._cache_bytes

    def prepare(
        self,
        graph: Graph,
        weights: Mapping[str, Tensor],
        plan: Plan,
        provider: str = "aten",
    ) -> Executable:
        if self._closed:
            raise DeviceError("the CPU device is closed; open it again")
        check_providers(self._facts, plan, provider)
        validate(plan, graph)
        arrangement = arrange(plan, graph, len(self._cores))
        with self._lock:
            workers = self._staff(arrangement.hosts)
        cores = tuple(self._cores)
        missing = [name for name in graph.weights if name not in weights]
        if missing:
            raise DeviceError(f"graph {graph.name!r} needs weight {missing[0]!r}, which is missing")
        units = _compile(plan.providers(provider), graph, weights, arrangement)
        return CpuExecutable(
            graph, units, weights, arrangement, workers, cores, self._lock, self._scratch
        )

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for workers in self._workers.values():
                for worker in workers:
                    worker.close()
            self._workers.clear()
        torch.set_num_threads(self._caller_threads)

    def _staff(self, hosts: tuple[Host, ...]) -> list[Worker]:
        """A worker for each host, with a team on the host's cores."""
        taken: Counter[tuple[int, ...]] = Counter()
        staff = []
        for host in hosts:
            cores = tuple(self._cores[core] for core in host.cores)
            ready = self._workers.setdefault(cores, [])
            if taken[cores] == len(ready):
                ready.append(Worker(cores))
            staff.append(ready[taken[cores]])
            taken[cores] += 1
        return staff


def _compile(
    chosen: Mapping[str, str],
    graph: Graph,
    weights: Mapping[str, Tensor],
    arrangement: Arrangement,
) -> list[CompiledUnit]:
    """Each Unit compiled by the provider that is ``chosen`` for it, where as many intra-operator
    threads are allowed as its stream has: oneDNN packs weights otherwise for another number of
    them, and then packs them anew at every call."""
    units = []
    makers = {name: providers.create(name) for name in set(chosen.values())}
    before = torch.get_num_threads()
    try:
        for host in arrangement.hosts:
            for step in host.steps:
                if step.threads != torch.get_num_threads():
                    torch.set_num_threads(step.threads)
                unit = graph.unit(step.unit)
                maker = makers[chosen[step.unit]]
                units.append(maker.compile(graph, unit, weights, step.threads))
    finally:
        if before != torch.get_num_threads():
            torch.set_num_threads(before)
        if any(step.threads > 1 for host in arrangement.hosts for step in host.steps):
            release_team()
    return units
