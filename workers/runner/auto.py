"""What ``auto`` tries beyond the schedulers: their schedules combined and refined, and the same
Plans with the kernels of another provider."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from backend.jobs.schemas import JobSpec, Provider
from workers.devices.base import CancelledError, DeviceError
from workers.graph.serialize import graph_hash
from workers.graph.units import regroup
from workers.runner.compiling import Compiling
from workers.runner.memory import enough_memory
from workers.runner.reporting import Reporter
from workers.runner.search import make_candidate, oracle_of
from workers.runner.workplace import BASELINE, Candidate, Prepared, Skipped, Workplace
from workers.schedulers.auto.propose import (
    COMBINED,
    MIXED,
    REFINED,
    Proposals,
    mix_providers,
    propose,
)
from workers.schedulers.base import SearchResult
from workers.schedules.lower import lower
from workers.schedules.merge import Merged
from workers.schedules.schedule import Stage, StageSchedule

COMPILED = "+inductor"
"""Behind a candidate's name: the same Plan with kernels that TorchInductor makes."""

WHOLE: Mapping[Provider, str] = {
    "onnxruntime": "as one model for ONNX Runtime",
    "inductor": "compiled as one unit by TorchInductor, as torch.compile does",
}
"""Providers that are given the whole graph as one Unit, which quickest to make ready comes first,
and what they do with it."""


def proposed(
    found: Sequence[Candidate],
    spec: JobSpec,
    model: Prepared,
    place: Workplace,
    reporter: Reporter,
    deadline: float,
) -> tuple[list[Candidate], list[Skipped], Mapping[str, float]]:
    """Combinations of what the schedulers found, the best refined by local search, and what is
    expected of each candidate in ms."""
    reporter.step("tuning", 0, 0, "combining and refining the schedules found")
    started = time.monotonic()
    oracle = oracle_of(REFINED, spec, model, place, reporter, deadline)
    known = {candidate.scheduler: candidate.found.schedule for candidate in found}
    try:
        with enough_memory(REFINED):
            proposals = propose(
                model.graph,
                oracle,
                known,
                seed=spec.seed,
                expired=lambda: time.monotonic() >= deadline,
            )
    except CancelledError:
        raise
    except DeviceError as error:
        proposals = Proposals((), dict.fromkeys((COMBINED, REFINED), str(error)), {})
    seconds = time.monotonic() - started
    parallelism = place.device.facts.parallelism
    simulated = place.device.facts.simulated
    candidates = []
    for one in proposals.found:
        # Elsewhere what is expected is an estimate, and no latency; infinite, it was not computed.
        predicted = one.expected_ms if simulated and math.isfinite(one.expected_ms) else None
        result = SearchResult(one.schedule, predicted, notes=(one.note,))
        candidates.append(make_candidate(one.name, result, model, parallelism, seconds))
        reporter.log(f"{one.name}: {one.note}")
    skipped = [Skipped(name, reason) for name, reason in proposals.missing.items()]
    for missed in skipped:
        reporter.log(f"{missed.contender} is skipped: {missed.reason}")
    return candidates, skipped, proposals.expected_ms


def compiled(
    found: Sequence[Candidate],
    expected_ms: Mapping[str, float],
    model: Prepared,
    place: Workplace,
    reporter: Reporter,
    deadline: float,
    end: float,
) -> tuple[list[Candidate], list[Skipped]]:
    """The whole graph as one Unit, where the device has the providers: for ONNX Runtime on all
    threads, and on one, which is faster for a small model, and for TorchInductor; and where the job
    does not use TorchInductor's kernels anyway, the baseline and the one of ``found`` that is
    expected to be fastest with these.

    What is begun before ``deadline`` has until ``end``.
    """
    facts = place.device.facts
    wanted = [
        _whole(model, facts.parallelism, provider)
        for provider in WHOLE
        if provider in facts.providers
    ]
    if "onnxruntime" in facts.providers and facts.parallelism > 1:
        wanted.insert(1, _whole(model, facts.parallelism, "onnxruntime", threads=1))
    if "inductor" in facts.providers and model.provider != "inductor":
        here = [one.scheduler for one in found if one.scheduler in expected_ms]
        best = min(here, key=expected_ms.__getitem__, default=BASELINE)
        wanted += [_compiled(one) for one in found if one.scheduler in (BASELINE, best)]
    candidates: list[Candidate] = []
    skipped: list[Skipped] = []
    with Compiling(facts.name, place.workdir / "compiling") as compiling:
        for candidate in wanted:
            reporter.step("tuning", 0, 0, f"compiling {candidate.scheduler}")
            if candidate.provider != "inductor":
                # ONNX Runtime compiles nothing, and takes about a second.
                reason = _unusable(candidate, place)
            elif time.monotonic() >= deadline:
                reason = "no time of the budget was left to compile it; allow more"
            else:
                reason = compiling.missing(candidate, end - time.monotonic())
            if reason is None:
                candidates.append(candidate)
            else:
                skipped.append(Skipped(candidate.scheduler, reason))
                reporter.warn(f"{candidate.scheduler} is skipped: {reason}")
    return candidates, skipped


def mixed(
    found: Sequence[Candidate],
    compiled: Sequence[Candidate],
    spec: JobSpec,
    model: Prepared,
    place: Workplace,
    reporter: Reporter,
    deadline: float,
) -> tuple[list[Candidate], list[Skipped]]:
    """The schedules found, refined with a provider for each Unit by itself. To choose from are the
    job's own kernels, those of ONNX Runtime, which cost nothing to make ready, and those of
    TorchInductor if they are among ``compiled``; nothing to do without either."""
    others = [
        provider
        for provider in place.device.facts.providers
        if provider != model.provider
        and (
            provider != "inductor" or any(one.scheduler == BASELINE + COMPILED for one in compiled)
        )
    ]
    if not others:
        return [], []
    reporter.step("tuning", 0, 0, "choosing the kernels of each unit")
    started = time.monotonic()
    oracle = oracle_of(MIXED, spec, model, place, reporter, deadline, others)
    known = {candidate.scheduler: candidate.found.schedule for candidate in found}
    try:
        with enough_memory(MIXED):
            proposal = mix_providers(
                model.graph,
                oracle,
                known,
                seed=spec.seed,
                expired=lambda: time.monotonic() >= deadline,
            )
    except CancelledError:
        raise
    except DeviceError as error:
        proposal = str(error)
    for provider, reason in oracle.unusable.items():
        reporter.log(f"{MIXED} has no kernels of {provider}: {reason}")
    if isinstance(proposal, str):
        reporter.log(f"{MIXED} is skipped: {proposal}")
        return [], [Skipped(MIXED, proposal)]
    reporter.log(f"{MIXED}: {proposal.note}")
    result = SearchResult(proposal.schedule, None, notes=(proposal.note,))
    seconds = time.monotonic() - started
    return [make_candidate(MIXED, result, model, place.device.facts.parallelism, seconds)], []


def distinct(found: Sequence[Candidate]) -> tuple[list[Candidate], list[Skipped]]:
    """The candidates without those whose Plan an earlier one has: to time it twice tells nothing,
    and a tie takes the most time of all to find out."""
    kept: list[Candidate] = []
    skipped: list[Skipped] = []
    for candidate in found:
        same = next((other for other in kept if _same_plan(candidate, other)), None)
        if same is None:
            kept.append(candidate)
        else:
            skipped.append(Skipped(candidate.scheduler, f"its plan is that of {same.scheduler}"))
    return kept, skipped


def _same_plan(one: Candidate, other: Candidate) -> bool:
    return (
        one.plan == other.plan
        and one.provider == other.provider
        and one.merged.graph == other.merged.graph
    )


def _unusable(candidate: Candidate, place: Workplace) -> str | None:
    """Make the candidate's kernels ready; why not, if not."""
    merged = candidate.merged
    try:
        with enough_memory(candidate.scheduler):
            place.device.prepare(
                merged.graph, merged.weights, candidate.plan, candidate.provider
            ).close()
    except CancelledError:
        raise
    except DeviceError as error:
        return str(error)
    return None


def _compiled(candidate: Candidate) -> Candidate:
    note = f"the plan of {candidate.scheduler} with kernels made by TorchInductor"
    return replace(
        candidate,
        scheduler=candidate.scheduler + COMPILED,
        found=replace(candidate.found, notes=(*candidate.found.notes, note)),
        provider="inductor",
    )


def _whole(
    model: Prepared, parallelism: int, provider: Provider, threads: int | None = None
) -> Candidate:
    graph = regroup(model.graph, [model.graph.operators])
    name, note = f"whole+{provider}", f"the whole graph {WHOLE[provider]}"
    if threads is not None:
        name, note = f"{name} on {threads}", f"{note}, on {threads} thread"
    given = () if threads is None else (threads,)
    units = tuple(unit.name for unit in graph.units)
    schedule = StageSchedule(name, (Stage((units,), threads=given),))
    return Candidate(
        scheduler=name,
        found=SearchResult(schedule, predicted_ms=None, notes=(note,)),
        merged=Merged(schedule, graph, model.weights),
        plan=lower(schedule, graph, parallelism),
        seconds=0.0,
        key=replace(model.key, graph_hash=graph_hash(graph)),
        provider=provider,
    )
