"""DOPpler: candidates measured beside each other, and how far that can be trusted (Section 4).

A batch is measured in rounds of ``d_p`` candidates on each device (Algorithm 1). After a round the
Calibrator (Section 4.3, Algorithm 2) measures what failed and what looks disturbed again in
isolation, tells the tuner latencies that are scaled by what it learned, and has REACT choose the
next ``d_p``.
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
    RANKED_SHARE,
    REMEASURED_SHARE,
    Scaling,
    Selection,
    mean_deviation,
    scale_latencies,
    select_ranked,
    select_remeasurements,
)
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


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a round is calibrated: ζ of Eq. 3, whose Eq. 5, and K of the final ranking."""

    remeasured_share: float = REMEASURED_SHARE
    scaling: Scaling = Scaling.PAPER
    ranked_share: float = RANKED_SHARE


@dataclass
class DopplerMeasurer:
    """Measures on the devices of ``pool``. ``state`` is REACT's, and may be that of an earlier
    measurer which is gone on with, ``done`` how many rounds there were. Whatever is measured in
    isolation is measured in the context of ``alone``, which keeps others off the devices."""

    pool: MeasuringPool
    effort: Effort = USUAL
    policy: ReactPolicy = field(default_factory=ReactPolicy)
    timeout: AdaptiveTimeout = DEFAULT_TIMEOUT
    calibration: Calibration = Calibration()
    seed: int = 0
    state: ReactState | None = None
    done: int = 0
    alone: Callable[[], AbstractContextManager[None]] = nullcontext

    def round_size(self, left: int) -> int:
        """d_p on each device, or what is left."""
        devices = len(self.pool.devices)
        state = self.state or initial_state(self.policy)
        return min(left, degree_to_run(state, left, devices) * devices)

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
            degree = degree_to_run(state, len(subjects) - len(taken), devices)
            chosen = subjects[len(taken) :][: degree * devices]
            found = self._round(chosen, degree, state)
            self.state = found.react.after if found.react is not None else state
            taken += found.taken
            told(found)
        return taken + [None] * (len(subjects) - len(taken))

    def rank(self, subjects: Sequence[Subject], latencies: Sequence[float]) -> dict[int, Taken]:
        """The top K of all that was tuned, measured again in isolation, by their place, best first
        as they were ("Rank selection")."""
        best = select_ranked(latencies, self.calibration.ranked_share)
        taken = self.isolated([subjects[place] for place in best])
        return dict(zip(best, taken, strict=True))

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
        parallel = [device_latency(reading) for reading in readings.values()]
        index = {place: number for number, place in enumerate(readings)}
        delta = _delta(
            parallel, {index[place]: found for place, found in remeasured.items()}, degree
        )
        counted = _count(first, repeated)
        return ParallelRound(
            number=self.done,
            degree_of_parallelism=degree,
            timeout_s=timeout,
            taken=self._told(first, readings, repeated, remeasured, delta),
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
        Eq. 3 would measure every such candidate twice."""
        if degree == 1:
            return {}, Selection((), ())
        places = list(readings)
        selection = select_remeasurements(
            [device_latency(reading) for reading in readings.values()],
            [reading.duration_s * 1e3 for reading in readings.values()],
            self.seed + self.done,
            self.calibration.remeasured_share,
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

    def _told(
        self,
        first: Sequence[Outcome],
        readings: Mapping[int, Reading],
        repeated: Mapping[int, Outcome],
        remeasured: Mapping[int, float],
        delta: float,
    ) -> tuple[Taken, ...]:
        """What the tuner is told: Eq. 5 of what was measured in parallel, and what a repetition
        said of what had failed."""
        index = {place: number for number, place in enumerate(readings)}
        scaled = scale_latencies(
            [device_latency(reading) for reading in readings.values()],
            {index[place]: found for place, found in remeasured.items()},
            delta,
            self.calibration.scaling,
        )
        taken = []
        for outcome in first:
            place, again = outcome.position, repeated.get(outcome.position)
            if place in readings:
                latency = scaled[index[place]]
                reading = readings[place]
                beside = device_latency(reading), wall_latency(reading)
                taken.append(Taken(latency, *beside, remeasured.get(place)))
            elif again is not None and again.reading is not None:
                taken.append(rounds.taken_alone(again))
            else:
                taken.append(rounds.failed(again or outcome))
        return tuple(taken)

    def _react(
        self, state: ReactState, degree: int, delta: float, counted: FailureCount
    ) -> Transition:
        observed = RoundObservation(degree, delta, counted.due_to_parallelism, counted.successes)
        return react(state, observed, self.policy)


def _all(outcomes: Sequence[Outcome | None]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome is not None]


def _delta(parallel: Sequence[float], remeasured: Mapping[int, float], degree: int) -> float:
    """Eq. 4, and 0 where nothing ran beside a candidate."""
    return 0.0 if degree == 1 else mean_deviation(parallel, remeasured)


def _count(first: Sequence[Outcome], repeated: Mapping[int, Outcome]) -> FailureCount:
    kinds: list[Failure | None] = [outcome.failure for outcome in first]
    again = {
        place: outcome.failure for place, outcome in repeated.items() if kinds[place] is not None
    }
    return count_failures(kinds, again)
