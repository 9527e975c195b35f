"""The end of a job: verify every candidate, measure them against each other, deliver the winner."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import ExitStack

from backend.jobs.schemas import BatchSummary
from backend.results.filenames import result_filename
from workers.graph.importers import reference_outputs
from workers.graph.importers.source import ModelSource
from workers.graph.random_inputs import random_inputs
from workers.measure.compare import Comparison, compare
from workers.measure.verify import Case, Verification, verify
from workers.runner.outcome import ScheduleOutcome
from workers.runner.problems import VerificationError
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
) -> BatchSummary:
    """Report each candidate's outcome and the winner's artifact.

    A candidate with wrong outputs is reported and cannot win. Raises VerificationError if the
    baseline itself is wrong, because then the import is.
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
        executables = {
            c.scheduler: stack.enter_context(
                place.device.prepare(model.graph, model.weights, c.plan)
            )
            for c in right
        }
        inputs = cases[0].inputs
        simulated = place.device.facts.simulated
        compared = compare(executables, inputs, BASELINE, simulated=simulated)
        reporter.step("verifying", steps - 2, steps, "measuring the leader again")
        winner, final = _decide(right, compared, model, place, cases[0], reporter)
        reporter.step("verifying", steps - 1, steps, "recording timelines")
        for candidate in right:
            place.recorder.result(
                ScheduleOutcome(
                    scheduler=candidate.scheduler,
                    batch_size=batch_size,
                    measurement=compared[candidate.scheduler].measurement,
                    verified=True,
                    max_abs_error=verified[candidate.scheduler].max_abs_error,
                    winner=candidate is winner,
                    schedule=schedule_to_json(candidate.found.schedule, model.key),
                    search=_search_facts(candidate, compared[candidate.scheduler]),
                    timeline=executables[candidate.scheduler].timeline(inputs),
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
    seeds = [secrets.randbits(32) for _ in range(CASES)]
    directory = place.workdir / f"references-{batch_size}"
    references = reference_outputs(
        source, batch_size, seeds, directory, place.limits, model.sequence_length
    )
    return [
        Case(
            inputs=random_inputs(model.graph, seed),
            expected=[reference[f"output_{index}"] for index in range(len(reference))],
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
    found = verify(place.device, model.graph, model.weights, candidate.plan, cases)
    if found.passed:
        return found
    if candidate.scheduler == BASELINE:
        raise VerificationError(
            f"the imported model does not compute what the original does: {found.difference}"
        )
    reporter.warn(f"{candidate.scheduler} is left out, its outputs are wrong: {found.difference}")
    return found


def _decide(
    candidates: list[Candidate],
    compared: Mapping[str, Comparison],
    model: Prepared,
    place: Workplace,
    case: Case,
    reporter: Reporter,
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
        executables = {
            c.scheduler: stack.enter_context(
                place.device.prepare(model.graph, model.weights, c.plan)
            )
            for c in (baseline, leader)
        }
        simulated = place.device.facts.simulated
        again = compare(executables, case.inputs, BASELINE, seed=1, simulated=simulated)
    found = again[leader.scheduler]
    confirmed = found.verdict == "faster"
    reporter.log(
        f"{leader.scheduler} measured against {BASELINE} again: {found.speedup:.3f}× as fast "
        f"({found.low:.3f} to {found.high:.3f}), which {'confirms' if confirmed else 'refutes'} "
        "that it is faster"
    )
    return (leader if confirmed else baseline), again


def _search_facts(candidate: Candidate, comparison: Comparison) -> dict[str, object]:
    """What finding the schedule took, and how it compares with the baseline."""
    return {
        **candidate.search,
        "speedup": comparison.speedup,
        "speedup_low": comparison.low,
        "speedup_high": comparison.high,
        "verdict": comparison.verdict,
    }


def _write_artifact(
    model_name: str, model: Prepared, winner: Candidate, summary: BatchSummary, place: Workplace
) -> None:
    path = place.workdir / result_filename(model_name, summary.batch_size, winner.scheduler, "zip")
    write_artifact(
        path,
        model.graph,
        model.weights,
        winner.found.schedule,
        model.key,
        winner.plan,
        summary.model_dump(),
        place.device.facts.parallelism,
    )
    place.recorder.artifact(summary.batch_size, path)
