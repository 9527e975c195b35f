"""A job from model to artifact. No database here: reports go to a Recorder, so that the same run
serves a worker's child process and ``plait schedule``."""

from __future__ import annotations

import time
from collections.abc import Sequence

from backend.jobs.schemas import AUTO, JobSpec
from workers.devices.base import DeviceError, DeviceFacts
from workers.graph.importers.source import ModelSource
from workers.graph.serialize import graph_hash
from workers.runner.auto import compiled, distinct, mixed, proposed
from workers.runner.barriers import without_needless_barriers
from workers.runner.delivery import Entrants, deliver
from workers.runner.importing import import_graph
from workers.runner.measuring import measuring
from workers.runner.quiet import Watch
from workers.runner.reporting import Reporter
from workers.runner.search import search
from workers.runner.workplace import Candidate, Prepared, Workplace
from workers.schedules.schedule import ScheduleKey

SEARCHED, REFINED, COMPILING, CHOSEN = 0.4, 0.5, 0.8, 0.85
"""Parts of the budget of an ``auto`` job: until the first, schedulers search; until the second,
what they found is refined; until the third, compiling may begin; until the fourth, each Unit's
kernels are chosen. The rest is for making the user's alternatives ready. What takes less leaves
more for what follows."""

ASSURED = 0.5
"""The part of the budget that ``torch.compile`` may take whatever is left of it: without it nobody
could say that what is delivered is not slower than what most would use."""


def run_job(spec: JobSpec, model_name: str, source: ModelSource, place: Workplace) -> None:
    """Tune every batch size in turn and report the outcome.

    Raises ImportFailure, SchedulerError, DeviceError or NoisyMachineError when the job cannot
    succeed, and whatever the Recorder raises to end it.
    """
    _check_provider(spec, place.device.facts)
    with measuring(spec, place) as equipped:
        _run(spec, model_name, source, equipped)


def _run(spec: JobSpec, model_name: str, source: ModelSource, place: Workplace) -> None:
    summaries = []
    for batch_size in spec.batch_sizes:
        reporter = Reporter(place.recorder, batch_size)
        model = _prepare(spec, source, place, reporter)
        place.recorder.enter_tuning()
        watch = Watch.over(place.device.facts, place.noise, reporter)
        watch.wait()
        entrants = _search(spec, model, place, reporter, watch)
        place.recorder.enter_verifying()
        summaries.append(
            deliver(model_name, source, model, entrants, place, reporter, watch, spec.seed)
        )
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
    spec: JobSpec, model: Prepared, place: Workplace, reporter: Reporter, watch: Watch
) -> Entrants:
    """Everything that competes, within the job's budget; simple ones first."""
    start = time.monotonic()
    if AUTO not in spec.schedulers:
        found, skipped = search(spec, model, place, reporter, start + spec.budget_seconds)
        return Entrants(_lowered(found, spec, model, place, reporter, watch), skipped)
    searched, refined, compiling, chosen, opening = (
        start + share * spec.budget_seconds for share in (SEARCHED, REFINED, COMPILING, CHOSEN, 1.0)
    )
    found, skipped = search(spec, model, place, reporter, searched)
    more, missing, expected_ms = proposed(found, spec, model, place, reporter, refined)
    lowered = _lowered([*found, *more], spec, model, place, reporter, watch)
    candidates, same = distinct(lowered)
    others, without = compiled(candidates, expected_ms, model, place, reporter, compiling, opening)
    both, unmixed = mixed(candidates, others, spec, model, place, reporter, chosen)
    return Entrants(
        [*candidates, *others, *both],
        [*skipped, *missing, *same, *without, *unmixed],
        alternatives=True,
        deadline=opening,
        assured_s=ASSURED * spec.budget_seconds,
    )


def _lowered(
    candidates: Sequence[Candidate],
    spec: JobSpec,
    model: Prepared,
    place: Workplace,
    reporter: Reporter,
    watch: Watch,
) -> list[Candidate]:
    """The same candidates without barriers where that is faster."""
    return [
        without_needless_barriers(candidate, model, place, reporter, watch, spec.seed)
        for candidate in candidates
    ]
