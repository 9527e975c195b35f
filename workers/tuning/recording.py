"""A round of measuring as a record."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from workers.measure.parallel.evidence import Evidence, Pair
from workers.measure.parallel.react import ReactPolicy, Transition, reach
from workers.measure.parallel.rounds import ParallelRound, Taken
from workers.measure.parallel.subject import Outcome, Reading
from workers.measure.processes import PROC, busy_ticks
from workers.measure.statistics import median
from workers.tuning.kernels.pool import Built
from workers.tuning.records import (
    ReactRecord,
    RoundRecord,
    SpanKind,
    SpanRecord,
    TrialRecord,
)
from workers.tuning.tuner import Candidate

Decided = tuple[Candidate, Built, Taken]


def usable_cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


class RoundClock:
    """Seconds since a session began, in which time between a stop and its resumption does not
    count, and how much of the cores was used in a round."""

    def __init__(self, pool_made_s: float) -> None:
        self._zero = time.monotonic()
        self._pool_made_s = pool_made_s
        self._cores = os.sched_getaffinity(0)
        self.begin()

    def go_on_from(self, ended_s: float) -> None:
        """An earlier round ended then."""
        self._zero = time.monotonic() - ended_s

    def begin(self) -> None:
        """A round begins."""
        self._began = time.monotonic()
        self._busy_s = self._busy()

    @property
    def began_s(self) -> float:
        """When the round began."""
        return self._began - self._zero

    def since_start(self, monotonic_s: float) -> float:
        """A time of ``time.monotonic`` as one of the session."""
        return monotonic_s - self._zero

    def of_pool(self, pool_s: float) -> float:
        """A time of the measuring pool as one of the session."""
        return pool_s + self._pool_made_s - self._zero

    def cpu_share(self) -> float | None:
        """How much of the cores was used since the round began, by anybody; None where the system
        does not tell."""
        busy, began = self._busy(), self._busy_s
        passed = time.monotonic() - self._began
        if busy is None or began is None or passed <= 0:
            return None
        return min(1.0, (busy - began) / (passed * len(self._cores)))

    def _busy(self) -> float | None:
        try:
            text = (PROC / "stat").read_text()
        except OSError:
            return None
        return busy_ticks(text, self._cores) / os.sysconf("SC_CLK_TCK")


def record_round(
    *,
    number: int,
    batch: int,
    asked: int,
    program: str,
    first_trial: int,
    decided: Sequence[Decided],
    found: ParallelRound | None,
    policy: ReactPolicy | None,
    clock: RoundClock,
) -> RoundRecord:
    """The record of a round that has just ended. ``found`` is None where nothing could be
    measured, as nothing could be built."""
    trials = _measured_trials(first_trial, decided)
    readings = _readings(found, trials)
    records = tuple(
        _trial(program, first_trial + place, one, readings.get(first_trial + place))
        for place, one in enumerate(decided)
    )
    kinds = Counter(trial.failure.value for trial in records if trial.failure is not None)
    return RoundRecord(
        number=number,
        batch=batch,
        asked=asked,
        program=program,
        degree_of_parallelism=found.degree_of_parallelism if found else 0,
        timeout_s=found.timeout_s if found else 0.0,
        successes=sum(trial.failure is None for trial in records),
        failures=dict(sorted(kinds.items())),
        outliers=found.outliers if found else 0,
        remeasured=found.remeasured if found else 0,
        due_to_parallelism=found.due_to_parallelism if found else 0,
        delta_mean=_known(found.delta_mean) if found else None,
        started_s=clock.began_s,
        ended_s=clock.since_start(time.monotonic()),
        cpu_share=clock.cpu_share(),
        react=_react(found.react, policy) if found and found.react and policy else None,
        trials=records,
        spans=(*_build_spans(first_trial, decided, clock), *_spans(found, trials, clock)),
    )


def learned(evidence: Evidence, record: RoundRecord) -> Evidence:
    """The program's evidence after this round of it: what its measurer had then, too."""
    degree = record.degree_of_parallelism
    if degree <= 1:
        return evidence
    devices = {span.trial: span.device for span in record.spans if span.kind is SpanKind.PARALLEL}
    # What failed beside others was measured alone only, and has the same latency as both.
    beside = [
        trial
        for trial in record.trials
        if trial.device_ms is not None and trial.device_ms != trial.alone_ms
    ]
    pairs = [
        Pair(degree, devices[trial.trial], trial.device_ms, trial.alone_ms)
        for trial in beside
        if trial.device_ms is not None and trial.alone_ms is not None
    ]
    return evidence.after(len(beside), pairs)


def _measured_trials(first_trial: int, decided: Sequence[Decided]) -> list[int]:
    """The trial of each candidate that was measured, in the measurer's order."""
    return [first_trial + place for place, (_, built, _) in enumerate(decided) if built.library]


def _readings(found: ParallelRound | None, trials: Sequence[int]) -> Mapping[int, Reading]:
    """Each trial's first reading."""
    readings: dict[int, Reading] = {}
    for outcome in found.outcomes if found else ():
        if outcome.reading is not None:
            readings.setdefault(trials[outcome.position], outcome.reading)
    return readings


def _trial(program: str, trial: int, decided: Decided, reading: Reading | None) -> TrialRecord:
    candidate, built, taken = decided
    return TrialRecord(
        program=program,
        trial=trial,
        candidate=candidate.key,
        trace=candidate.trace,
        latency_ms=_known(taken.latency_ms),
        device_ms=_known(taken.device_ms),
        wall_ms=_known(taken.wall_ms),
        alone_ms=taken.alone_ms,
        cycles=_median([run.cycles for run in reading.runs]) if reading else None,
        instructions=_median([run.instructions for run in reading.runs]) if reading else None,
        failure=taken.failure,
        reason=taken.reason,
        build_s=built.build_s,
    )


def _median(counts: Sequence[float | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return median(known) if known else None


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _react(step: Transition, policy: ReactPolicy) -> ReactRecord:
    lower, upper = reach(step.after, policy)
    return ReactRecord(
        branch=step.branch.value,
        cause=step.cause.value,
        d_p_before=step.before.d_p,
        adaptive_max_before=step.before.adaptive_max,
        d_p=step.after.d_p,
        adaptive_max=step.after.adaptive_max,
        gamma=step.gamma,
        lower=lower,
        upper=upper,
    )


def _build_spans(
    first_trial: int, decided: Sequence[Decided], clock: RoundClock
) -> Iterator[SpanRecord]:
    for place, (_, built, _) in enumerate(decided):
        yield SpanRecord(
            SpanKind.BUILD,
            built.builder,
            "",
            first_trial + place,
            clock.since_start(built.started_s),
            clock.since_start(built.ended_s),
            built.failure,
        )


def _spans(
    found: ParallelRound | None, trials: Sequence[int], clock: RoundClock
) -> Iterator[SpanRecord]:
    if found is None:
        return
    for place, outcome in enumerate(found.outcomes):
        again = place >= len(found.taken)
        yield _span(outcome, again or found.degree_of_parallelism == 1, trials, clock)


def _span(outcome: Outcome, alone: bool, trials: Sequence[int], clock: RoundClock) -> SpanRecord:
    return SpanRecord(
        SpanKind.ALONE if alone else SpanKind.PARALLEL,
        outcome.worker,
        outcome.device,
        trials[outcome.position],
        clock.of_pool(outcome.started_s),
        clock.of_pool(outcome.ended_s),
        outcome.failure,
    )
