"""DOPpler: candidates measured beside each other, and how far that can be trusted (Section 4).

A batch is measured in rounds of ``d_p`` candidates on each device (Algorithm 1). After a round the
Calibrator (Section 4.3, Algorithm 2) measures what failed and what looks disturbed again in
isolation, calibrates what the tuner is told by what that says, from this round alone as in the
paper or from several (``evidence``), and has REACT choose the next ``d_p``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from workers.measure.effort import USUAL, Effort, never
from workers.measure.measurement import Failure
from workers.measure.parallel import rounds
from workers.measure.parallel.calibrator import (
    CalibratorForm,
    Selection,
    mean_deviation,
    scale_latencies,
    select_remeasurements,
)
from workers.measure.parallel.evidence import Evidence, Pair
from workers.measure.parallel.failures import FailureCount, count_failures
from workers.measure.parallel.pool import MeasuringPool
from workers.measure.parallel.react import (
    ReactPolicy,
    ReactState,
    RoundObservation,
    Transition,
    degree_to_run,
    initial_state,
    react,
)
from workers.measure.parallel.rounds import ParallelRound, Taken, device_latency, wall_latency
from workers.measure.parallel.subject import Outcome, Reading, Subject
from workers.measure.parallel.timeouts import DEFAULT_TIMEOUT, AdaptiveTimeout

SMALLEST = 8
"""Candidates on each device in a round with several in flight. Departure: Algorithm 1 takes d_p.
Of two, as on a CPU of two cores, none is an outlier, and every second process waits for the other
one at the end of each round."""


@dataclass
class DopplerMeasurer:
    """Measures on the devices of ``pool``. ``state`` is REACT's, and may be that of an earlier
    measurer which is gone on with, as may ``evidence``, of what is measured next; ``done`` is how
    many rounds there were. Whatever is measured in isolation is measured in the context of
    ``alone``, which keeps others off the devices."""

    pool: MeasuringPool
    effort: Effort = USUAL
    policy: ReactPolicy = field(default_factory=ReactPolicy)
    timeout: AdaptiveTimeout = DEFAULT_TIMEOUT
    calibrator: CalibratorForm = CalibratorForm.POOLED
    seed: int = 0
    state: ReactState | None = None
    evidence: Evidence = field(default_factory=Evidence)
    done: int = 0
    alone: Callable[[], AbstractContextManager[None]] = nullcontext

    def round_size(self, left: int) -> int:
        """d_p on each device, or what is left; more than one at once make ``SMALLEST`` at least,
        unless each round is to be calibrated by itself."""
        devices = len(self.pool.devices)
        state = self.state or initial_state(self.policy)
        degree = degree_to_run(state, left, devices)
        pooled = self.calibrator is CalibratorForm.POOLED
        return min(left, devices * (max(degree, SMALLEST) if pooled and degree > 1 else degree))

    def measure(
        self,
        subjects: Sequence[Subject],
        told: rounds.Told = rounds.ignore_round,
        expired: Callable[[], bool] = never,
    ) -> list[Taken | None]:
        """In rounds, as ``SubjectMeasurer`` says."""
        taken: list[Taken | None] = []
        while len(taken) < len(subjects) and not expired():
            state = self.state or initial_state(self.policy)
            devices = len(self.pool.devices)
            left = len(subjects) - len(taken)
            degree = degree_to_run(state, left, devices)
            chosen = subjects[len(taken) :][: self.round_size(left)]
            found = self._round(chosen, degree, state)
            self.state = found.react.after if found.react is not None else state
            taken += found.taken
            told(found)
        return taken + [None] * (len(subjects) - len(taken))

    def isolated(self, subjects: Sequence[Subject]) -> list[Taken]:
        """As ``SubjectMeasurer`` says."""
        return [rounds.taken_alone(outcome) for outcome in self._alone(subjects)]

    def _round(self, subjects: Sequence[Subject], degree: int, state: ReactState) -> ParallelRound:
        start = time.monotonic()
        self.done += 1
        timeout = self.timeout.seconds(degree, len(self.pool.devices))
        with self.alone() if degree == 1 else nullcontext():
            first = _all(self.pool.measure(subjects, degree, timeout, self.effort))
        readings = {
            outcome.position: outcome.reading for outcome in first if outcome.reading is not None
        }
        repeated, selection = self._again(subjects, first, readings, degree)
        alone = {
            place: device_latency(outcome.reading)
            for place, outcome in repeated.items()
            if outcome.reading is not None
        }
        remeasured = {place: found for place, found in alone.items() if place in readings}
        delta = self._learn(first, readings, remeasured, degree)
        counted = _count(first, repeated)
        return ParallelRound(
            number=self.done,
            degree_of_parallelism=degree,
            timeout_s=timeout,
            taken=self._told(first, readings, repeated, remeasured, delta, degree),
            outcomes=(*first, *repeated.values()),
            outliers=len(selection.outliers),
            remeasured=len(repeated),
            due_to_parallelism=counted.due_to_parallelism,
            delta_mean=delta,
            duration_s=time.monotonic() - start,
            react=self._react(state, degree, delta, counted),
        )

    def _again(
        self,
        subjects: Sequence[Subject],
        first: Sequence[Outcome],
        readings: Mapping[int, Reading],
        degree: int,
    ) -> tuple[dict[int, Outcome], Selection]:
        """Measured in isolation by place: what parallelism may have failed, and Q of Eq. 3. Nothing
        of a round of one candidate on each device, which was isolated already: a departure, as
        Eq. 3 would measure every such candidate twice. v is for each run, of which the paper makes
        equally many of all candidates, and an Effort fewer of slow ones."""
        if degree == 1:
            return {}, Selection((), ())
        places = list(readings)
        pooled = self.calibrator is CalibratorForm.POOLED
        selection = select_remeasurements(
            [device_latency(reading) for reading in readings.values()],
            [reading.duration_s * 1e3 / len(reading.runs) for reading in readings.values()],
            self.seed + self.done,
            self.evidence.due(degree, len(places), self.policy.tau) if pooled else None,
        )
        failed = [
            outcome.position
            for outcome in first
            if outcome.failure is not None and outcome.failure.repeated
        ]
        chosen = sorted([*failed, *(places[number] for number in selection.candidates)])
        outcomes = self._alone(
            [subjects[place] for place in chosen], [first[place].device for place in chosen]
        )
        repeated = {
            place: replace(outcome, position=place)
            for place, outcome in zip(chosen, outcomes, strict=True)
        }
        return repeated, selection

    def _alone(
        self, subjects: Sequence[Subject], places: Sequence[str] | None = None
    ) -> list[Outcome]:
        timeout = self.timeout.seconds(1)
        if not subjects:
            return []
        with self.alone():
            return _all(self.pool.measure(subjects, 1, timeout, self.effort, places=places))

    def _learn(
        self,
        first: Sequence[Outcome],
        readings: Mapping[int, Reading],
        remeasured: Mapping[int, float],
        degree: int,
    ) -> float:
        """δ_mean, Eq. 4: 0 where nothing ran beside a candidate, NaN where it is unknown."""
        if degree == 1:
            return 0.0
        beside = {place: device_latency(reading) for place, reading in readings.items()}
        pairs = [
            Pair(degree, first[place].device, beside[place], alone)
            for place, alone in remeasured.items()
        ]
        self.evidence = self.evidence.after(len(readings), pairs)
        if self.calibrator is CalibratorForm.POOLED:
            return self.evidence.mean_deviation(degree, len(pairs))
        return mean_deviation(*_numbered(beside, remeasured))

    def _told(
        self,
        first: Sequence[Outcome],
        readings: Mapping[int, Reading],
        repeated: Mapping[int, Outcome],
        remeasured: Mapping[int, float],
        delta: float,
        degree: int,
    ) -> tuple[Taken, ...]:
        """What the tuner is told: calibrated latencies of what was measured in parallel, and what a
        repetition said of what had failed."""
        scaled = self._scaled(first, readings, remeasured, delta, degree)
        taken = []
        for outcome in first:
            place, again = outcome.position, repeated.get(outcome.position)
            if place in readings:
                reading = readings[place]
                beside = device_latency(reading), wall_latency(reading)
                taken.append(Taken(scaled[place], *beside, remeasured.get(place)))
            elif again is not None and again.reading is not None:
                taken.append(rounds.taken_alone(again))
            else:
                taken.append(rounds.failed(again or outcome))
        return tuple(taken)

    def _scaled(
        self,
        first: Sequence[Outcome],
        readings: Mapping[int, Reading],
        remeasured: Mapping[int, float],
        delta: float,
        degree: int,
    ) -> dict[int, float]:
        """In ms by place: as ``Evidence`` has it, or by Eq. 5."""
        beside = {place: device_latency(reading) for place, reading in readings.items()}
        if degree == 1:
            return beside
        if self.calibrator is CalibratorForm.POOLED:
            devices = {first[place].device for place in beside}
            factors = {device: self.evidence.factor(degree, device) for device in devices}
            return {
                place: remeasured.get(place, latency * factors[first[place].device])
                for place, latency in beside.items()
            }
        published = self.calibrator is CalibratorForm.PUBLISHED
        told = scale_latencies(*_numbered(beside, remeasured), delta, published)
        return dict(zip(beside, told, strict=True))

    def _react(
        self, state: ReactState, degree: int, delta: float, counted: FailureCount
    ) -> Transition:
        observed = RoundObservation(degree, delta, counted.due_to_parallelism, counted.successes)
        return react(state, observed, self.policy)


def _all(outcomes: Sequence[Outcome | None]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome is not None]


def _numbered(
    beside: Mapping[int, float], remeasured: Mapping[int, float]
) -> tuple[list[float], dict[int, float]]:
    """The same with the candidates counted from 0, without those that failed."""
    index = {place: number for number, place in enumerate(beside)}
    return list(beside.values()), {index[place]: alone for place, alone in remeasured.items()}


def _count(first: Sequence[Outcome], repeated: Mapping[int, Outcome]) -> FailureCount:
    kinds: list[Failure | None] = [outcome.failure for outcome in first]
    again = {
        place: outcome.failure for place, outcome in repeated.items() if kinds[place] is not None
    }
    return count_failures(kinds, again)
