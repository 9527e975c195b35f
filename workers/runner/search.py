"""Running a job's schedulers: which ones, with what options, and what becomes of those that
cannot."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.jobs.schemas import AUTO, JobSpec
from workers import schedulers
from workers.devices.base import CancelledError, DeviceError
from workers.measure.oracle import MeasuringOracle
from workers.runner.memory import enough_memory
from workers.runner.reporting import Reporter, SearchReporter
from workers.runner.workplace import BASELINE, Candidate, Prepared, Skipped, Workplace
from workers.schedulers.base import SchedulerError, SearchResult
from workers.schedules.lower import lower
from workers.schedules.merge import merge_stages
from workers.schedules.schedule import ScheduleError


@dataclass(frozen=True, slots=True)
class Entry:
    """A scheduler with its options, under the name that its candidate gets."""

    name: str
    scheduler: str
    options: Mapping[str, Any] = field(default_factory=dict)


def entries(spec: JobSpec) -> tuple[Entry, ...]:
    """The schedulers of a job, the baseline always first among them. ``auto`` stands for all that
    there are, Opara in its strict form too."""
    options = {"ios": spec.ios.model_dump(), "opara": spec.opara.model_dump()}
    names = [BASELINE, *(name for name in spec.schedulers if name != AUTO)]
    if AUTO in spec.schedulers:
        names += schedulers.names()
    found = [Entry(name, name, options.get(name, {})) for name in dict.fromkeys(names)]
    if AUTO in spec.schedulers and not spec.opara.strict:
        found.append(Entry("opara-strict", "opara", {**options["opara"], "strict": True}))
    return tuple(found)


def search(
    spec: JobSpec, model: Prepared, place: Workplace, reporter: Reporter, deadline: float
) -> tuple[list[Candidate], list[Skipped]]:
    """Run the schedulers until ``deadline`` (of ``time.monotonic``). One that cannot schedule this
    model on this device is skipped with its reason; the baseline's error is raised."""
    candidates: list[Candidate] = []
    skipped: list[Skipped] = []
    parallelism = place.device.facts.parallelism
    for entry in entries(spec):
        started = time.monotonic()
        try:
            with enough_memory(entry.name):
                found = _run(entry, spec, model, place, reporter, deadline)
                seconds = time.monotonic() - started
                candidate = make_candidate(entry.name, found, model, parallelism, seconds)
        except CancelledError:
            raise
        except (SchedulerError, ScheduleError, DeviceError) as error:
            if entry.name == BASELINE:
                raise
            skipped.append(Skipped(entry.name, str(error)))
            reporter.warn(f"{entry.name} is skipped: {error}")
            continue
        candidates.append(candidate)
        for note in found.notes:
            reporter.log(f"{entry.name}: {note}")
    return candidates, skipped


def make_candidate(
    name: str, found: SearchResult, model: Prepared, parallelism: int, seconds: float
) -> Candidate:
    """A finding with its stages merged where it says so, lowered to a Plan."""
    merged = merge_stages(found.schedule, model.graph, model.weights)
    plan = lower(merged.schedule, merged.graph, parallelism)
    return Candidate(name, found, merged, plan, seconds, model.key, model.provider)


def oracle_of(
    name: str,
    spec: JobSpec,
    model: Prepared,
    place: Workplace,
    reporter: Reporter,
    deadline: float,
    others: Sequence[str] = (),
) -> MeasuringOracle:
    """The oracle that answers the scheduler ``name`` until ``deadline``. What it expects of
    schedules, it does with the kernels of ``others``, too."""
    return MeasuringOracle(
        graph=model.graph,
        weights=model.weights,
        device=place.device,
        index=place.index,
        seed=spec.seed,
        deadline=deadline,
        on_round=lambda record: reporter.round(name, record),
        measurer=place.measurer,
        provider=model.provider,
        others=others,
    )


def _run(
    entry: Entry,
    spec: JobSpec,
    model: Prepared,
    place: Workplace,
    reporter: Reporter,
    deadline: float,
) -> SearchResult:
    oracle = oracle_of(entry.name, spec, model, place, reporter, deadline)
    observe = SearchReporter(reporter, entry.name, deadline)
    scheduler = schedulers.create(entry.scheduler, entry.options)
    return scheduler.schedule(model.graph, oracle, observe)
