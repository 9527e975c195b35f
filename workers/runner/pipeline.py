"""A job from model to artifact. No database here: reports go to a Recorder, so that the same run
serves a worker's child process and ``plait schedule``."""

from __future__ import annotations

import time

from backend.jobs.schemas import JobSpec
from workers.devices.base import DeviceError, DeviceFacts
from workers.graph.importers.source import ModelSource
from workers.graph.serialize import graph_hash
from workers.measure.oracle import MeasuringOracle
from workers.runner.barriers import without_needless_barriers
from workers.runner.delivery import deliver
from workers.runner.importing import import_graph
from workers.runner.quiet import Watch
from workers.runner.reporting import Reporter, SearchReporter
from workers.runner.workplace import BASELINE, Candidate, Prepared, Workplace
from workers.schedulers import create
from workers.schedulers.base import SearchResult
from workers.schedules.lower import lower
from workers.schedules.merge import merge_stages
from workers.schedules.schedule import ScheduleKey


def run_job(spec: JobSpec, model_name: str, source: ModelSource, place: Workplace) -> None:
    """Tune every batch size in turn and report the outcome.

    Raises ImportFailure, SchedulerError, DeviceError or NoisyMachineError when the job cannot
    succeed, and whatever the Recorder raises to end it.
    """
    _check_provider(spec, place.device.facts)
    summaries = []
    for batch_size in spec.batch_sizes:
        reporter = Reporter(place.recorder, batch_size)
        model = _prepare(spec, source, place, reporter)
        place.recorder.enter_tuning()
        watch = Watch.over(place.device.facts, place.noise, reporter)
        watch.wait()
        candidates = [
            without_needless_barriers(candidate, model, place, reporter, watch, spec.seed)
            for candidate in _search(spec, model, place, reporter)
        ]
        place.recorder.enter_verifying()
        summaries.append(deliver(model_name, source, model, candidates, place, reporter, watch))
    place.recorder.succeed(summaries)


def _check_provider(spec: JobSpec, facts: DeviceFacts) -> None:
    """The service has refused such a job already, unless the device has changed since."""
    if spec.provider not in facts.providers:
        raise DeviceError(
            f"device {facts.name} has kernels of {', '.join(facts.providers)}, not of"
            f" {spec.provider}; choose another provider or device"
        )


def _prepare(spec: JobSpec, source: ModelSource, place: Workplace, reporter: Reporter) -> Prepared:
    graph, weights = import_graph(spec, source, reporter, place.workdir, place.limits)
    facts = place.device.facts
    key = ScheduleKey(
        graph_hash=graph_hash(graph),
        device_fingerprint=facts.fingerprint,
        dtype=graph.values[graph.outputs[0]].dtype,
        batch_size=reporter.batch_size,
        versions=facts.versions,
    )
    return Prepared(graph, weights, key, spec.provider, spec.sequence_length)


def _search(
    spec: JobSpec, model: Prepared, place: Workplace, reporter: Reporter
) -> list[Candidate]:
    """Run the schedulers, the baseline always among them, within the job's budget."""
    deadline = time.monotonic() + spec.budget_seconds
    names = [BASELINE, *(name for name in spec.schedulers if name != BASELINE)]
    candidates = []
    for name in names:
        started = time.monotonic()
        found = _run_scheduler(name, spec, model, place, reporter, deadline)
        seconds = time.monotonic() - started
        parallelism = place.device.facts.parallelism
        candidates.append(make_candidate(name, found, model, parallelism, seconds))
        for note in found.notes:
            reporter.warn(f"{name}: {note}")
    return candidates


def make_candidate(
    name: str, found: SearchResult, model: Prepared, parallelism: int, seconds: float
) -> Candidate:
    """A finding with its stages merged where it says so, lowered to a Plan."""
    merged = merge_stages(found.schedule, model.graph, model.weights)
    plan = lower(merged.schedule, merged.graph, parallelism)
    return Candidate(name, found, merged, plan, seconds)


def _run_scheduler(
    name: str,
    spec: JobSpec,
    model: Prepared,
    place: Workplace,
    reporter: Reporter,
    deadline: float,
) -> SearchResult:
    options = spec.ios.model_dump() if name == "ios" else {}
    oracle = MeasuringOracle(
        graph=model.graph,
        weights=model.weights,
        device=place.device,
        index=place.index,
        seed=spec.seed,
        deadline=deadline,
        on_round=lambda record: reporter.round(name, record),
        provider=spec.provider,
    )
    observe = SearchReporter(reporter, name, deadline)
    return create(name, options).schedule(model.graph, oracle, observe)
