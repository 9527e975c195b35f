"""The end of a job: verify every candidate, measure all against each other, deliver the winner."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from backend.jobs.schemas import BatchSummary, Faster, FloorRead, SkippedContender
from backend.results.filenames import result_filename
from workers.devices.base import CancelledError, DeviceError, Executable, Timeline
from workers.graph.importers import reference_outputs
from workers.graph.importers.source import ModelSource
from workers.graph.random_inputs import random_inputs
from workers.measure.compare import Comparison
from workers.measure.environment import Load, environment, load_now
from workers.measure.noise import Quiet
from workers.measure.standings import Standing
from workers.measure.verify import Case, Verification, fresh_seeds, verify
from workers.runner.contest import Contest
from workers.runner.memory import enough_memory
from workers.runner.outcome import ScheduleOutcome
from workers.runner.packing import pack
from workers.runner.problems import VerificationError
from workers.runner.quiet import Watch
from workers.runner.ranking import Ranking
from workers.runner.reasons import explain
from workers.runner.reporting import Reporter
from workers.runner.workplace import BASELINE, Candidate, Prepared, Skipped, Workplace
from workers.schedules.schedule import schedule_to_json

RECORDED = 5
"""Recorded runs of a Plan where latencies scatter, of which a typical one is shown."""

CASES = 2
"""Fresh random inputs that every schedule is verified on."""


@dataclass(frozen=True, slots=True)
class Entrants:
    """Whom to compare: our candidates, the baseline first and simpler ones before others, as ties
    are broken in this order. With ``alternatives`` also what else the user could run the model
    with, made ready until ``deadline`` (of ``time.monotonic``); ``torch.compile`` has ``assured_s``
    in any case."""

    candidates: Sequence[Candidate]
    skipped: Sequence[Skipped] = ()
    alternatives: bool = False
    deadline: float = math.inf
    assured_s: float = 0.0


def deliver(
    model_name: str,
    source: ModelSource,
    model: Prepared,
    entrants: Entrants,
    place: Workplace,
    reporter: Reporter,
    watch: Watch,
    seed: int = 0,
) -> BatchSummary:
    """Report the outcome of each candidate and alternative, and the winner's artifact.

    A candidate with wrong outputs is reported and cannot win. An alternative can be the fastest,
    which the summary says; what is delivered is the best of our candidates all the same. Raises
    VerificationError if the baseline itself is wrong, because then the import is, and
    NoisyMachineError if the machine was too busy to tell which is fastest.
    """
    candidates = entrants.candidates
    steps = len(candidates) + 4
    batch_size = model.key.batch_size
    reporter.step("verifying", 0, steps, "running the original model in the sandbox")
    cases = _cases(source, model, place, batch_size)
    with ExitStack() as stack:
        contest = Contest(model, place, reporter, stack, skipped=list(entrants.skipped))
        verified: dict[str, Verification] = {}
        for step, candidate in enumerate(candidates, start=1):
            reporter.step("verifying", step, steps, f"{candidate.scheduler} against the original")
            found = _verify(candidate, place, cases, contest)
            if found is not None:
                verified[candidate.scheduler] = found
        contest.enter(one for one in candidates if one.scheduler in verified)
        cores = _cores(place)
        if entrants.alternatives:
            contest.enter_alternatives(
                source, cases[0], cores, entrants.deadline, entrants.assured_s
            )
        reporter.step("verifying", steps - 3, steps, "measuring everything in turns")
        before = load_now()
        ranking, quiet = contest.run(cases[0], cores, watch, seed)
        conditions = _conditions(place, before, quiet)
        winner = contest.candidates[ranking.best]
        reporter.step("verifying", steps - 1, steps, "recording timelines")
        outcomes = _outcomes(contest, ranking, winner, verified, cases[0], conditions)
        for outcome in outcomes:
            place.recorder.result(outcome)
        summary = _summary(contest, ranking, winner, outcomes)
    reporter.log(" ".join(summary.why))
    path = place.workdir / result_filename(model_name, batch_size, winner.scheduler, "zip")
    pack(path, winner, place.device.facts, summary.model_dump())
    place.recorder.artifact(batch_size, path)
    return summary


def _outcomes(
    contest: Contest,
    ranking: Ranking,
    winner: Candidate,
    verified: Mapping[str, Verification],
    case: Case,
    conditions: Mapping[str, Any],
) -> list[ScheduleOutcome]:
    """One for each contender that was measured, in the order of their places."""
    outcomes = []
    for standing in ranking.standings:
        if standing.comparison is None:
            contest.skip(standing.name, standing.dropped or "it was not measured")
            continue
        name, model = standing.name, contest.model
        facts = _standing_facts(standing, standing.comparison, ranking.rungs[name])
        candidate = contest.candidates.get(name)
        started = (contest.starts[name],) if name in contest.starts else ()
        if candidate is None:
            notes = (*contest.alternatives[name].notes, *started)
            outcome = ScheduleOutcome(
                scheduler=name,
                batch_size=model.key.batch_size,
                measurement=standing.comparison.measurement,
                verified=True,
                max_abs_error=contest.errors[name],
                winner=False,
                schedule={},
                search={**facts, "notes": list(notes)},
                timeline=Timeline(()),
                environment=conditions,
                provider=model.provider,
                kind="alternative",
                place=standing.place,
            )
        else:
            executable = contest.executables[name]
            latency_ms = standing.comparison.measurement.latency_ms
            runs = 1 if contest.place.device.facts.simulated else RECORDED
            timeline, lost = _recorded(executable, case, latency_ms, runs)
            delivered = contest.delivered.get(name) if name in ranking.beside else None
            apart = delivered.notes if delivered is not None else ()
            notes = (*candidate.found.notes, *apart, *started, *executable.notes, *lost)
            outcome = ScheduleOutcome(
                scheduler=name,
                batch_size=model.key.batch_size,
                measurement=standing.comparison.measurement,
                verified=True,
                max_abs_error=verified[name].max_abs_error,
                winner=candidate is winner,
                schedule=schedule_to_json(candidate.found.schedule, candidate.key),
                search={**candidate.search, **facts, "notes": list(notes)},
                timeline=timeline,
                environment=conditions,
                provider=candidate.provider,
                place=standing.place,
            )
        outcomes.append(outcome)
    return outcomes


def _recorded(
    executable: Executable, case: Case, latency_ms: float, runs: int
) -> tuple[Timeline, tuple[str, ...]]:
    """Of so many recorded runs the one that took most nearly ``latency_ms``, to be asked for before
    the executable's notes, which say what it is of. What failed in the tournament, and does so
    again, has none; a note says why."""
    try:
        found = [executable.timeline(case.inputs) for _ in range(runs)]
        return min(found, key=lambda one: abs(_duration_ms(one) - latency_ms)), ()
    except CancelledError:
        raise
    except DeviceError as error:
        return Timeline(()), (f"its timeline could not be recorded: {error}",)


def _duration_ms(timeline: Timeline) -> float:
    return max((span.end_ms for span in timeline.spans), default=0.0)


def _standing_facts(standing: Standing, comparison: Comparison, rungs: int) -> dict[str, object]:
    """How a contender compares with the baseline, what its latencies look like, and how far it
    came in the tournament."""
    return {
        "samples": comparison.report.to_json(),
        "comparison_ended": comparison.ended,
        "speedup": comparison.speedup,
        "speedup_low": comparison.low,
        "speedup_high": comparison.high,
        "verdict": comparison.verdict,
        "rung": standing.rung,
        "rungs": rungs,
        "final": standing.final,
        "tied": standing.tied,
        "dropped": standing.dropped,
    }


def _summary(
    contest: Contest,
    ranking: Ranking,
    winner: Candidate,
    outcomes: Sequence[ScheduleOutcome],
) -> BatchSummary:
    rows = {outcome.scheduler: outcome for outcome in outcomes}
    best, baseline = rows[winner.scheduler], rows[BASELINE]
    compared = ranking.of(winner.scheduler).comparison
    speedup = compared.speedup if compared is not None else 1.0
    model, place = contest.model, contest.place
    beaten_by = None
    if ranking.keep is not None:
        other = rows[ranking.keep].measurement.latency_ms
        beaten_by = Faster(name=ranking.keep, latency_ms=other)
    kept = beaten_by.name if beaten_by is not None else None
    explanation = explain(contest, winner, speedup, best, baseline, kept)
    return BatchSummary(
        batch_size=model.key.batch_size,
        winner=winner.scheduler,
        latency_ms=best.measurement.latency_ms,
        baseline_ms=baseline.measurement.latency_ms,
        speedup=speedup,
        simulated=place.device.facts.simulated,
        tied_with=list(ranking.tied_with),
        faster_alternative=beaten_by,
        skipped=[
            SkippedContender(contender=one.contender, reason=one.reason) for one in contest.skipped
        ],
        why=list(explanation.sentences),
        floors=[FloorRead(name=floor.name, ms=floor.ms) for floor in explanation.floors],
        gap=explanation.gap,
    )


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
    candidate: Candidate, place: Workplace, cases: list[Case], contest: Contest
) -> Verification | None:
    """None for a candidate that is left out: its outputs are wrong, or it cannot run."""
    name, merged = candidate.scheduler, candidate.merged
    try:
        with enough_memory(name):
            found = verify(
                place.device, merged.graph, merged.weights, candidate.plan, cases,
                candidate.provider,
            )  # fmt: skip
    except CancelledError:
        raise
    except DeviceError as error:
        if candidate.scheduler == BASELINE:
            raise
        contest.skip(candidate.scheduler, str(error))
        return None
    if found.passed:
        return found
    if candidate.scheduler == BASELINE:
        raise VerificationError(
            f"the imported model does not compute what the original does: {found.difference}"
        )
    contest.skip(candidate.scheduler, f"its outputs are wrong: {found.difference}")
    return None


def _cores(place: Workplace) -> list[int]:
    """The cores that alternatives may use: all that the device's Plans do."""
    facts, cores = place.device.facts, sorted(os.sched_getaffinity(0))
    return cores[: max(1, facts.parallelism)] if facts.kind == "cpu" else cores


def _conditions(place: Workplace, before: Load, quiet: Quiet) -> dict[str, Any]:
    """Under what conditions the results were measured, just now."""
    stamp = environment(place.device.facts, before, quiet).to_json()
    return {**stamp, "noise": {**stamp["noise"], "allowed": place.noise.allow}}
