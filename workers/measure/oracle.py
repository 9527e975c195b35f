"""The LatencyOracle that measures: behind it are a device, a measurer and the ProfileIndex."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from torch import Tensor

from workers.devices.base import Device, DeviceError
from workers.graph.graph import Graph
from workers.graph.signature import Signatures
from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel
from workers.hardware.roofline import Roofline
from workers.measure.expected import CpuExpectation, GpuExpectation, Placed
from workers.measure.layouts import Layout, read_layouts
from workers.measure.measurement import Measurement, Round
from workers.measure.profile_index import MemoryIndex, ProfileIndex, ProfileKey
from workers.measure.recheck import TURNS, measure_in_turns
from workers.measure.roofline import measured_roofline
from workers.measure.serial import Candidate, Measurer, SerialMeasurer
from workers.measure.subgraph import subgraph
from workers.measure.surroundings import Neighbourhood
from workers.measure.unit_profiles import profile_units
from workers.measure.unit_times import UnitTimes
from workers.schedulers.base import BUDGET, SchedulerError, StageLatency
from workers.schedules.alone import Alone
from workers.schedules.lower import lower
from workers.schedules.merge import merge_stages
from workers.schedules.mergeable import mergeable
from workers.schedules.schedule import Schedule, Stage, StageSchedule


def ignore_round(record: Round) -> None:
    """Told of rounds, does nothing with them."""


class MeasuringOracle:
    """Answers with measurements on ``device``, each taken at most once ever.

    A stage is measured as a graph of its own, from its fork to its join, on random inputs that lie
    in memory as they do in the whole model, which is run once for that. Its key in ``index`` is
    structural: equal stages of different blocks, models and jobs are one entry. A
    stage of strategy ``merge`` is measured merged; one that cannot be is infinite with the reason.
    After ``deadline`` (of ``time.monotonic``) only the index answers; the rest is infinite with
    the reason ``budget``. That and other failures that may not repeat (``Failure.lasting``) are
    remembered by this oracle alone, and such failures from elsewhere are measured again.

    Kernels are those of ``provider``. Schedules may name ``others``: what is expected then comes
    from whole runs of the model with the kernels of each (``workers.measure.unit_times``).
    """

    def __init__(
        self,
        graph: Graph,
        weights: Mapping[str, Tensor],
        device: Device,
        index: ProfileIndex,
        seed: int = 0,
        deadline: float = math.inf,
        on_round: Callable[[Round], None] = ignore_round,
        measurer: Measurer | None = None,
        provider: str = "aten",
        others: Sequence[str] = (),
    ) -> None:
        self._graph, self._weights = graph, weights
        self._signatures = Signatures(graph)
        self._device, self._index = device, index
        self._deadline, self._on_round = deadline, on_round
        self._alone_measurer = SerialMeasurer(device, seed=seed)
        self._measurer = measurer or self._alone_measurer
        self._provider, self._others = provider, tuple(others)
        self._failed = MemoryIndex()
        self.unusable: Mapping[str, str] = {}
        """The providers that cannot run the model as it is expected, by name, and why."""
        self.measured = 0
        """Stages that were measured; the others were known."""
        self.looked_up = 0
        """Stages that the index, or an equal stage of the same batch, answered."""
        self.rechecked = 0
        """Stages that were measured again; neither of the two above counts them."""

    @property
    def parallelism(self) -> int:
        return self._device.facts.parallelism

    def stage_latencies(self, stages: Sequence[Stage]) -> Sequence[StageLatency]:
        refused = [self._refusal(stage) for stage in stages]
        keys = [
            None if reason else self._key(stage)
            for stage, reason in zip(stages, refused, strict=True)
        ]
        wanted = {key: stage for key, stage in zip(keys, stages, strict=True) if key is not None}
        known = self._known(list(wanted))
        missing = {key: self._candidate(stage) for key, stage in wanted.items() if key not in known}
        if missing:
            known |= self._measure(missing)
        self.looked_up += len(keys) - keys.count(None) - len(missing)
        return [
            StageLatency(math.inf, reason)
            if key is None
            else StageLatency(known[key].latency_ms, known[key].reason)
            for key, reason in zip(keys, refused, strict=True)
        ]

    def recheck(self, stages: Sequence[Stage]) -> Sequence[StageLatency]:
        """Measure stages again in turns, each at most once ever, and answer from that alone: what
        was measured first is what they were chosen for. It stays in the index as it is, so that a
        search that is repeated takes the same way; the second look is an entry of its own, whose
        context ends in ``rechecked``. Computed latencies are not computed again.
        """
        looked_up = self.looked_up
        first = self.stage_latencies(stages)
        self.looked_up = looked_up
        if self._device.facts.simulated:
            return first
        keys = [
            _rechecked(self._key(stage)) if math.isfinite(answer.latency_ms) else None
            for stage, answer in zip(stages, first, strict=True)
        ]
        wanted = {key: stage for key, stage in zip(keys, stages, strict=True) if key is not None}
        known = self._known(list(wanted))
        if missing := {key: stage for key, stage in wanted.items() if key not in known}:
            known |= self._measure_again(missing)
        return [
            answer
            if key is None
            else StageLatency(known[key].latency_ms, known[key].reason)
            if key in known
            else replace(answer, reason=BUDGET)
            for key, answer in zip(keys, first, strict=True)
        ]

    @property
    def providers(self) -> Sequence[str | None]:
        return (None, *self._others)

    @property
    def gpu(self) -> GpuFacts | None:
        return self._device.facts.gpu

    def roofline(self) -> Roofline:
        try:
            return measured_roofline(self._graph.values[self._graph.outputs[0]].dtype, self._alone)
        except DeviceError as error:
            raise SchedulerError(str(error)) from error

    def unit_profiles(self) -> Mapping[str, tuple[Kernel, ...]]:
        return self._profiles

    @cached_property
    def _profiles(self) -> Mapping[str, tuple[Kernel, ...]]:
        try:
            return profile_units(self._device, self._graph, self._weights, self._provider)
        except DeviceError as error:
            raise SchedulerError(f"the model cannot be profiled: {error}") from error

    def schedule_latencies(self, schedules: Sequence[Schedule]) -> Sequence[StageLatency]:
        """Measured each time they are asked for: a whole model is compared with others in one
        sitting (``workers.measure.compare``) and its latency is not for later."""
        candidates = [self._whole(schedule) for schedule in schedules]
        batch = self._measurer.measure(candidates, lambda: time.monotonic() >= self._deadline)
        return [StageLatency(found.latency_ms, found.reason) for found in batch.measurements]

    def expected_latencies(self, schedules: Sequence[Schedule]) -> Sequence[float]:
        if self._device.facts.simulated:
            return [answer.latency_ms for answer in self.schedule_latencies(schedules)]
        return self._expectation(schedules)

    @cached_property
    def _expectation(self) -> Callable[[Sequence[Schedule]], Sequence[float]]:
        facts = self._device.facts
        if facts.gpu is not None:
            try:
                profiles = {None: self.unit_profiles()} | {
                    other: profile_units(self._device, self._graph, self._weights, other)
                    for other in self._others
                }
                return GpuExpectation(facts.gpu, self._graph, profiles)
            except DeviceError as error:
                raise SchedulerError(f"nothing is known of what to expect: {error}") from error
        bytes_per_s = self.roofline().bytes_per_s
        if not self._others:
            return CpuExpectation(self._graph, facts.parallelism, self._units_alone, bytes_per_s)
        times = UnitTimes(self._device, self._graph, self._weights, self._provider, self._deadline)
        self.unusable = times.failures
        known: dict[str | None, dict[str, Layout]] = {}

        def layouts(provider: str | None) -> dict[str, Layout]:
            if provider not in known:
                known[provider] = read_layouts(
                    self._device, self._graph, self._weights, provider or self._provider
                )
            return known[provider]

        return CpuExpectation(self._graph, facts.parallelism, times, bytes_per_s, layouts)

    def _units_alone(self, placed: Sequence[Placed]) -> list[float]:
        stages = [Stage(((unit,),), threads=(threads,)) for unit, threads, _ in placed]
        return [answer.latency_ms for answer in self.stage_latencies(stages)]

    def _whole(self, schedule: Schedule) -> Candidate:
        graph, weights = self._graph, self._weights
        if isinstance(schedule, StageSchedule) and any(
            stage.strategy == "merge" for stage in schedule.stages
        ):
            merged = merge_stages(schedule, graph, weights)
            schedule, graph, weights = merged.schedule, merged.graph, merged.weights
        plan = lower(schedule, graph, self.parallelism)
        return Candidate(graph, weights, plan, self._provider)

    def _alone(self, graph: Graph) -> Measurement:
        """A graph of one Unit that has nothing to do with the model."""
        (unit,) = graph.units
        plan = lower(StageSchedule("alone", (Stage(((unit.name,),)),)), graph, self.parallelism)
        key = ProfileKey(
            device_fingerprint=self._device.facts.fingerprint,
            provider=self._provider,
            context=f"alone threads={self.parallelism}",
            signature=Signatures(graph).of([0]),
        )
        candidate = Candidate(graph, {}, plan, self._provider)
        return self._known([key]).get(key) or self._measure({key: candidate})[key]

    def _known(self, keys: Sequence[ProfileKey]) -> dict[ProfileKey, Measurement]:
        found = self._index.lookup(keys)
        lasting = {key: m for key, m in found.items() if m.failure is None or m.failure.lasting}
        return self._failed.lookup(keys) | lasting

    def _measure(self, missing: Mapping[ProfileKey, Candidate]) -> dict[ProfileKey, Measurement]:
        """Measure a batch. Each measurement is kept as soon as it is taken, for the next process if
        this one is killed; computed ones cost less than keeping does, and are kept together."""
        keys = list(missing)
        fresh: dict[ProfileKey, Measurement] = {}

        def taken(position: int, measurement: Measurement) -> None:
            fresh[keys[position]] = measurement
            self.measured += 1
            if not self._device.facts.simulated:
                self._keep(fresh)

        before = self.measured
        batch = self._measurer.measure(
            list(missing.values()), lambda: time.monotonic() >= self._deadline, taken
        )
        self._keep(fresh)
        if self.measured > before:
            for found in batch.rounds:
                self._on_round(found)
        return dict(zip(keys, batch.measurements, strict=True))

    def _measure_again(self, missing: Mapping[ProfileKey, Stage]) -> dict[ProfileKey, Measurement]:
        """Empty if there was no time. What fewer turns than all say holds for this search alone."""
        found, turns = measure_in_turns(
            self._alone_measurer,
            [self._candidate(stage) for stage in missing.values()],
            lambda: time.monotonic() >= self._deadline,
            self._on_round,
        )
        self.rechecked += len(found)
        fresh = dict(zip(missing, found, strict=False))
        if turns == TURNS:
            self._keep(dict(fresh))
        return fresh

    def _keep(self, fresh: dict[ProfileKey, Measurement]) -> None:
        """Move the measurements to where they belong; ``fresh`` is empty then."""
        for index, lasting in ((self._index, True), (self._failed, False)):
            entries = {
                key: found
                for key, found in fresh.items()
                if (found.failure is None or found.failure.lasting) is lasting
            }
            if entries:
                index.record(entries)
        fresh.clear()

    def _refusal(self, stage: Stage) -> str | None:
        """Why the stage cannot be run at all, if it cannot: nothing to measure or to remember."""
        return mergeable(self._graph, stage.units) if stage.strategy == "merge" else None

    def _candidate(self, stage: Stage) -> Candidate:
        """The stage as a graph of its own, with the Units that lead in to it where that matters.
        One that is merged is rewritten first. Where latencies are computed, a part of the whole
        graph will do."""
        if self._computed is not None and stage.strategy == "concurrent":
            return Candidate(self._graph, {}, self._computed.plan(stage), self._provider)
        before = self._before(stage)
        alike = bool(self._neighbourhood and self._neighbourhood.alike(stage.units))
        threads = self._threads(stage)[:1] if alike else ()
        leads = (Stage(((unit,),), threads=threads) for unit in before)
        schedule: Schedule = StageSchedule("stage", (*leads, stage))
        part = subgraph(self._graph, [*before, *stage.units])
        weights = {name: self._weights[name] for name in part.weights if name in self._weights}
        if stage.strategy == "merge":
            merged = merge_stages(schedule, part, weights)
            schedule, part, weights = merged.schedule, merged.graph, dict(merged.weights)
        layouts = {name: self._layouts[name] for name in part.inputs if name in self._layouts}
        plan = lower(schedule, part, self.parallelism)
        surroundings = self._neighbourhood.of(stage.units) if self._neighbourhood else None
        return Candidate(part, weights, plan, self._provider, layouts, surroundings)

    def _key(self, stage: Stage) -> ProfileKey:
        """The structure of the Units, how they are grouped, each group's threads, the layouts of
        inputs that are not contiguous, and what surrounds the stage where that matters. A merged
        stage is one Unit on all threads, unless the stage gives that one's."""
        positions = [self._graph.index[name] for name in stage.units]
        groups = "|".join(str(len(group)) for group in stage.groups)
        threads = self._threads(stage)
        return ProfileKey(
            device_fingerprint=self._device.facts.fingerprint,
            provider=self._provider,
            context=f"{stage.strategy} threads={'+'.join(map(str, threads))}"
            f"{self._layouts_of(stage)}"
            f"{self._neighbourhood.words(stage.units) if self._neighbourhood else ''}",
            signature=f"{self._signatures.of(positions)}:{groups}",
        )

    @cached_property
    def _computed(self) -> Alone | None:
        """Makes Plans of stages; None where the device runs them to measure them."""
        if self._device.latencies_ms(self._graph, ()) is None:
            return None
        return Alone(self._graph, self.parallelism)

    def _threads(self, stage: Stage) -> tuple[int, ...]:
        """Of each group."""
        count = 1 if stage.strategy == "merge" else len(stage.groups)
        shared = (max(1, self.parallelism // count),) * count
        return stage.threads if len(stage.threads) == count else shared

    @cached_property
    def _neighbourhood(self) -> Neighbourhood | None:
        """None where caches make no difference."""
        if not self._device.cache_bytes:
            return None
        return Neighbourhood(self._graph, self._signatures, self._device.cache_bytes)

    @cached_property
    def _layouts(self) -> dict[str, Layout]:
        return read_layouts(self._device, self._graph, self._weights, self._provider)

    def _before(self, stage: Stage) -> tuple[str, ...]:
        """The Units that run before the stage whenever it is timed."""
        return self._neighbourhood.lead_in(stage.units) if self._neighbourhood else ()

    def _layouts_of(self, stage: Stage) -> str:
        """In words for the key: which of the inputs, by position, lies how."""
        if not self._layouts:
            return ""
        found = [
            f"{position}:{''.join(map(str, self._layouts[name]))}"
            for position, name in enumerate(self._inputs_of(stage))
            if name in self._layouts
        ]
        return f" layouts={','.join(found)}" if found else ""

    def _inputs_of(self, stage: Stage) -> Sequence[str]:
        """What the Units that run before the stage, and then its own, read and do not compute, in
        the order of the signatures."""
        units = [self._graph.unit(name) for name in (*self._before(stage), *stage.units)]
        made = {name for unit in units for name in unit.outputs}
        return [*dict.fromkeys(n for unit in units for n in unit.inputs if n not in made)]


def _rechecked(key: ProfileKey) -> ProfileKey:
    """Of the measurement in turns of what ``key`` stands for."""
    return replace(key, context=f"{key.context} rechecked")
