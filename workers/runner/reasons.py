"""Why the winner of a batch size won, from the runs of winner and baseline and the floors of the
model's graph."""

from __future__ import annotations

import math
import time

from workers.devices.base import CancelledError, DeviceError
from workers.hardware.roofline import Roofline
from workers.measure.explain import Contender, Explanation, floors
from workers.measure.oracle import MeasuringOracle
from workers.measure.run_facts import run_facts
from workers.runner.contest import Contest
from workers.runner.memory import enough_memory
from workers.runner.outcome import ScheduleOutcome
from workers.runner.workplace import BASELINE, Candidate
from workers.schedulers.base import SchedulerError

SECONDS = 5.0
"""To measure the ceilings in, where no search has; without them their floors are not known."""


def explain(
    contest: Contest,
    winner: Candidate,
    speedup: float,
    best: ScheduleOutcome,
    baseline: ScheduleOutcome,
    alternative: str | None = None,
) -> Explanation:
    """What the recorded runs of both show. The floors are of the model's own graph, with what was
    measured of its Units alone on the provider of the job; an ``alternative`` is one that is faster
    than the winner."""
    facts = contest.place.device.facts
    roofline, alone_ms = _known(contest)
    cores = None if facts.kind != "cpu" else facts.parallelism

    def seen(candidate: Candidate, outcome: ScheduleOutcome) -> Contender:
        graph, recorded = candidate.merged.graph, outcome.timeline
        run = run_facts(recorded, graph, candidate.plan, cores) if recorded.spans else None
        return Contender(candidate.scheduler, outcome.measurement.latency_ms, run)

    return Explanation(
        winner=seen(winner, best),
        baseline=seen(contest.candidates[BASELINE], baseline),
        speedup=speedup,
        floors=floors(contest.model.graph, roofline, alone_ms, fixed_ms=0.0),
        simulated=facts.simulated,
        alternative=alternative,
    )


def _known(contest: Contest) -> tuple[Roofline | None, dict[str, float] | None]:
    """The device's ceilings, and the time of each Unit's kernels in a profiled inference; None for
    what cannot be measured."""
    model, place = contest.model, contest.place
    simulated = place.device.facts.simulated
    oracle = MeasuringOracle(
        model.graph,
        model.weights,
        place.device,
        place.index,
        deadline=math.inf if simulated else time.monotonic() + SECONDS,
        provider=model.provider,
    )
    try:
        with enough_memory("the ceilings"):
            roofline: Roofline | None = oracle.roofline()
    except CancelledError:
        raise
    except (SchedulerError, DeviceError):
        roofline = None
    try:
        with enough_memory("the profile"):
            profiles = oracle.unit_profiles()
    except CancelledError:
        raise
    except (SchedulerError, DeviceError):
        return roofline, None
    return roofline, {
        unit: math.fsum(kernel.duration_ms for kernel in kernels)
        for unit, kernels in profiles.items()
    }
