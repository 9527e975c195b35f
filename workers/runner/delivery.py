"""The end of a job: verify every candidate, measure them against each other, deliver the winner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from backend.jobs.schemas import BatchSummary
from backend.results.filenames import result_filename
from workers.devices.base import Executable
from workers.devices.providers import kernels_of
from workers.graph.importers import reference_outputs
from workers.graph.importers.source import ModelSource
from workers.graph.random_inputs import random_inputs
from workers.measure.compare import Comparison, compare
from workers.measure.environment import Load, environment, load_now
from workers.measure.noise import Quiet
from workers.measure.verify import Case, Verification, fresh_seeds, verify
from workers.runner.outcome import ScheduleOutcome
from workers.runner.problems import VerificationError
from workers.runner.quiet import Watch
from workers.runner.reporting import Reporter
from workers.runner.workplace import BASELINE, Candidate, Prepared, Workplace
from workers.schedules.artifact import write_artifact
from workers.schedules.schedule import schedule_to_json

CASES = 2
"""Fresh random inputs that every schedule is verified on."""


def deliver(
    model_name: str,
    source: ModelSource,
    model: Prepared,
    candidates: list[Candidate],
    place: Workplace,
    reporter: Reporter,
    watch: Watch,
) -> BatchSummary:
    """Report each candidate's outcome and the winner's artifact.

    A candidate with wrong outputs is reported and cannot win. Raises VerificationError if the
    baseline itself is wrong, because then the import is, and NoisyMachineError if the machine was
    too busy to tell which is fastest.
    """
    steps = len(candidates) + 4
    batch_size = model.key.batch_size
    reporter.step("verifying", 0, steps, "running the original model in the sandbox")
    cases = _cases(source, model, place, batch_size)
    verified = {}
    for step, candidate in enumerate(candidates, start=1):
        reporter.step("verifying", step, steps, f"{candidate.scheduler} against the original")
        verified[candidate.scheduler] = _verify(candidate, model, place, cases, reporter)
    right = [c for c in candidates if verified[c.scheduler].passed]
    reporter.step("verifying", steps - 3, steps, "measuring the schedules in turns")
    with ExitStack() as stack:
        executables = _prepare(right, model, place, stack)
        inputs = cases[0].inputs
        simulated = place.device.facts.simulated
        before = load_now()
        compared, quiet = watch.measure(
            lambda: compare(executables, inputs, BASELINE, simulated=simulated)
        )
        conditions = _conditions(place, before, quiet)
        reporter.step("verifying", steps - 2, steps, "measuring the leader again")
        winner, final = _decide(right, compared, model, place, cases[0], reporter, watch)
        reporter.step("verifying", steps - 1, steps, "recording timelines")
        for candidate in right:
            executable = executables[candidate.scheduler]
            timeline = executable.timeline(inputs)  # before the notes, which say what it is of
            facts = _search_facts(candidate, compared[candidate.scheduler], executable.notes)
            place.recorder.result(
                ScheduleOutcome(
                    scheduler=candidate.scheduler,
                    batch_size=batch_size,
                    measurement=compared[candidate.scheduler].measurement,
                    verified=True,
                    max_abs_error=verified[candidate.scheduler].max_abs_error,
                    winner=candidate is winner,
                    schedule=schedule_to_json(candidate.found.schedule, model.key),
                    search=facts,
                    timeline=timeline,
                    environment=conditions,
                    provider=model.provider,
                )
            )
    best, baseline = final[winner.scheduler], final[BASELINE]
    summary = BatchSummary(
        batch_size=batch_size,
        winner=winner.scheduler,
        latency_ms=best.measurement.latency_ms,
        baseline_ms=baseline.measurement.latency_ms,
        speedup=best.speedup,
        simulated=simulated,
    )
    _write_artifact(model_name, model, winner, summary, place)
    return summary


def _cases(source: ModelSource, model: Prepared, place: Workplace, batch_size: int) -> list[Case]:
    """Inputs that nobody has seen before, with what the original model makes of them."""
    seeds = fresh_seeds(CASES)
    directory = place.workdir / f"references-{batch_size}"
    references = reference_outputs(
        source, batch_size, seeds, directory, place.limits, model.sequence_length
    )
    return [
        Case(
            inputs=random_inputs(model.graph, seed),
            expected=[reference[f"output_{index}"] for index in range(len(reference))],
            seed=seed,
        )
        for seed, reference in zip(seeds, references, strict=True)
    ]


def _verify(
    candidate: Candidate,
    model: Prepared,
    place: Workplace,
    cases: list[Case],
    reporter: Reporter,
) -> Verification:
    merged = candidate.merged
    found = verify(
        place.device, merged.graph, merged.weights, candidate.plan, cases, model.provider
    )
    if found.passed:
        return found
    if candidate.scheduler == BASELINE:
        raise VerificationError(
            f"the imported model does not compute what the original does: {found.difference}"
        )
    reporter.warn(f"{candidate.scheduler} is left out, its outputs are wrong: {found.difference}")
    return found


def _prepare(
    candidates: Iterable[Candidate], model: Prepared, place: Workplace, stack: ExitStack
) -> dict[str, Executable]:
    """The candidates ready to run, until ``stack`` is closed."""
    return {
        c.scheduler: stack.enter_context(
            place.device.prepare(c.merged.graph, c.merged.weights, c.plan, model.provider)
        )
        for c in candidates
    }


def _conditions(place: Workplace, before: Load, quiet: Quiet) -> dict[str, Any]:
    """Under what conditions the results were measured, just now."""
    stamp = environment(place.device.facts, before, quiet).to_json()
    return {**stamp, "noise": {**stamp["noise"], "allowed": place.noise.allow}}


def _decide(
    candidates: list[Candidate],
    compared: Mapping[str, Comparison],
    model: Prepared,
    place: Workplace,
    case: Case,
    reporter: Reporter,
    watch: Watch,
) -> tuple[Candidate, Mapping[str, Comparison]]:
    """The winner, and the comparison that decided it.

    The fastest of several looks faster than it is (the winner's curse), and one comparison in forty
    finds a difference where there is none. So the leader is measured against the baseline once
    more, both prepared afresh, and wins only if it is faster beyond its interval both times.
    """
    baseline = next(c for c in candidates if c.scheduler == BASELINE)
    faster = [c for c in candidates if compared[c.scheduler].verdict == "faster"]
    if not faster:
        return baseline, compared
    leader = min(faster, key=lambda c: compared[c.scheduler].measurement.latency_ms)
    with ExitStack() as stack:
        executables = _prepare((baseline, leader), model, place, stack)
        simulated = place.device.facts.simulated
        again, _ = watch.measure(
            lambda: compare(executables, case.inputs, BASELINE, seed=1, simulated=simulated)
        )
    found = again[leader.scheduler]
    confirmed = found.verdict == "faster"
    reporter.log(
        f"{leader.scheduler} measured against {BASELINE} again: {found.speedup:.3f}× as fast "
        f"({found.low:.3f} to {found.high:.3f}), which {'confirms' if confirmed else 'refutes'} "
        "that it is faster"
    )
    return (leader if confirmed else baseline), again


def _search_facts(
    candidate: Candidate, comparison: Comparison, notes: Sequence[str]
) -> dict[str, object]:
    """What finding the schedule took, how it compares with the baseline, and what its latencies
    look like. ``notes`` are the executable's."""
    return {
        **candidate.search,
        "notes": [*candidate.found.notes, *notes],
        "samples": comparison.report.to_json(),
        "comparison_ended": comparison.ended,
        "speedup": comparison.speedup,
        "speedup_low": comparison.low,
        "speedup_high": comparison.high,
        "verdict": comparison.verdict,
    }


def _write_artifact(
    model_name: str, model: Prepared, winner: Candidate, summary: BatchSummary, place: Workplace
) -> None:
    path = place.workdir / result_filename(model_name, summary.batch_size, winner.scheduler, "zip")
    merged = winner.merged
    write_artifact(
        path,
        merged.graph,
        merged.weights,
        winner.found.schedule,
        model.key,
        winner.plan,
        summary.model_dump(),
        place.device.facts.parallelism,
        model.provider,
        kernels_of(merged.graph, model.provider, place.device.facts),
    )
    place.recorder.artifact(summary.batch_size, path)
