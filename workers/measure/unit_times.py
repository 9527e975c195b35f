"""How long each Unit takes within the whole model, with the kernels of each provider."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workers.devices.base import Device, DeviceError
from workers.graph.graph import Graph
from workers.graph.random_inputs import random_inputs
from workers.measure.expected import Placed
from workers.measure.statistics import median
from workers.measure.unit_profiles import WARM_UP
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage, StageSchedule

if TYPE_CHECKING:
    from torch import Tensor

RUNS, LONG_ENOUGH_S, FEWEST = 9, 2.0, 3
"""Recorded runs of the model for each provider and number of threads: so many, but no more once
they took that long, if there are a few."""

COMPILED_FOR_THREADS = frozenset({"inductor"})
"""Providers that compile anew for another number of threads, which takes too long for a search:
they are known on all threads of the device only."""


class UnitTimes:
    """Medians of recorded sequential runs of the whole graph, one Unit after the other.

    Providers are compared that way, and not by stages that are measured alone: each finds its
    values in the layouts and caches that its own kernels leave, and a provider costs a few runs
    instead of a measurement for each Unit. ``own`` is the provider that is named None. After
    ``deadline`` (of ``time.monotonic``) nothing more is run, and what is not known is infinite, as
    it is for a provider that cannot run the graph; ``failures`` then says why.
    """

    def __init__(
        self,
        device: Device,
        graph: Graph,
        weights: Mapping[str, Tensor],
        own: str,
        deadline: float = math.inf,
        seed: int = 0,
    ) -> None:
        self._device, self._graph, self._weights, self._own = device, graph, weights, own
        self._deadline, self._inputs = deadline, random_inputs(graph, seed)
        self._known: dict[tuple[str, int], Mapping[str, float]] = {}
        self.failures: dict[str, str] = {}

    def __call__(self, placed: Sequence[Placed]) -> list[float]:
        """The Units' latencies in ms."""
        return [
            self._of(provider or self._own, threads).get(unit, math.inf)
            for unit, threads, provider in placed
        ]

    def _of(self, provider: str, threads: int) -> Mapping[str, float]:
        found = self._known.get((provider, threads))
        if found is None:
            found = self._known[provider, threads] = self._measured(provider, threads)
        return found

    def _measured(self, provider: str, threads: int) -> Mapping[str, float]:
        most = self._device.facts.parallelism
        if time.monotonic() >= self._deadline:
            return {}
        if threads != most and provider in COMPILED_FOR_THREADS:
            return {}
        stages = tuple(Stage(((unit.name,),), threads=(threads,)) for unit in self._graph.units)
        plan = lower(StageSchedule("times", stages), self._graph, most)
        taken: dict[str, list[float]] = {unit.name: [] for unit in self._graph.units}
        try:
            with self._device.prepare(self._graph, self._weights, plan, provider) as executable:
                executable.time(self._inputs, WARM_UP)
                start = time.monotonic()
                for run in range(RUNS):
                    if run >= FEWEST and time.monotonic() - start > LONG_ENOUGH_S:
                        break
                    for span in executable.timeline(self._inputs).spans:
                        taken[span.unit].append(span.end_ms - span.start_ms)
        except DeviceError as error:
            self.failures[provider] = str(error)
            return {}
        return {unit: median(times) for unit, times in taken.items()}
