"""A tournament: the fastest of many contenders, found within a limited time and then proved.

Successive halving (Karnin, Koren and Somekh, "Almost Optimal Exploration in Multi-Armed Bandits",
ICML 2013): rungs of rounds, each with twice as many as the one before, after each of which
contenders leave. Here one leaves only if it is surely slower than the leader; the slower half go
unproved only where there is no time for all. Those left are prepared afresh and measured once
more, and that last measurement alone decides: the fastest of many looks faster than it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from workers.devices.base import CancelledError, DeviceError
from workers.measure.compare import (
    Ended,
    Rounds,
    rounds_until,
    runs_in_a_turn,
    settled,
    tie_band,
)
from workers.measure.serial import Timed, warm_up
from workers.measure.standings import (
    Rung,
    TournamentResult,
    confidence_among,
    fastest,
    in_words,
    judge,
    surely_slower,
)
from workers.measure.statistics import enough, median, median_ratio

FINAL_SHARE = 0.5
"""Of the time, kept for the final, with what preparing afresh takes."""


@dataclass(frozen=True, slots=True)
class TournamentCare:
    """How carefully to look for the fastest.

    All of it takes no longer than ``limit_s`` of real time, but for what is made in any case: the
    warm-ups and one round of all, and of the final the preparing and twice the fewest rounds that
    can prove anything, since of the fewest not one may be an outlier. Simulated latencies are had
    at once and know no limit.

    ``error`` is the chance that a contender's intervals with all its rivals do not hold, over all
    ``rungs``, and once more in the final. So the truly fastest is taken for surely slower than
    another, on one side of them, with half of it in either.

    Rounds of the final are added until each interval is ``precise`` as in ``compare.Care``: at
    least ``min_rounds``, at most ``max_rounds``.

    With ``proof`` nobody leaves unproved, for want of time: for a few contenders of which each one
    matters. The final then takes the fewest rounds of all that are left if there is time for none.
    """

    limit_s: float = 60.0
    error: float = 0.05
    rungs: int = 4
    precise: float = 0.005
    min_rounds: int = 30
    max_rounds: int = 300
    warm_up_ms: float = 100.0
    proof: bool = False


def ignore_rung(rung: Rung) -> None:
    """Told of a rung, does nothing with it."""


def tournament(
    contenders: Mapping[str, Timed],
    inputs: Mapping[str, Tensor],
    baseline: str,
    prepare_again: Callable[[str], Timed],
    preference: Sequence[str] = (),
    care: TournamentCare | None = None,
    seed: int = 0,
    simulated: bool = False,
    clock: Callable[[], float] = time.perf_counter,
    told: Callable[[Rung], None] = ignore_rung,
) -> TournamentResult:
    """Find the fastest of the contenders; ``baseline`` is one of them, never leaves, and may win.

    **Rungs.** All take turns, in rounds whose order is drawn anew. The first rung has the fewest
    rounds that can prove anything, each next one twice as many, but none more than fit half of the
    time left for rungs (the last: all of it). After each, those leave that are surely slower than
    the leader: the interval of the ratio of the two, from all rounds so far, lies beyond the band
    of ties. Where the next rung's time is too short for as many rounds of all others as the first
    rung should have, the slowest leave until it is not, but never more than half; of those that
    seem within the band of ties, the least preferred first. Rungs end when nobody but the leader
    and the baseline is left, when all intervals are precise, or with their number or their time.

    **Final.** The leader, the baseline and all others for which there is time for ``min_rounds``
    are given by ``prepare_again``, since the same Plan prepared again lies elsewhere in memory;
    what was measured before counts no more. Once it is called, the earlier executable is not used
    again.

    **Ties.** Of the finalists that are surely slower neither than the fastest nor than the
    baseline, the first in ``preference`` wins; those that it does not name come after it, in the
    contenders' order.

    A contender that raises DeviceError leaves with the reason. Raises ValueError if the baseline is
    not among the contenders, CancelledError, and what the baseline raises.
    """
    if baseline not in contenders:
        raise ValueError(f"no contender is named {baseline!r}; there are {sorted(contenders)}")
    ranked = dict.fromkeys([*(name for name in preference if name in contenders), *contenders])
    course = _Course(
        inputs=inputs,
        baseline=baseline,
        preference={name: position for position, name in enumerate(ranked)},
        care=care or TournamentCare(),
        seed=seed,
        simulated=simulated,
        clock=clock,
        left=list(contenders),
        reasons={},
        rungs=[],
        started=clock(),
    )
    early = course.qualify(contenders, told)
    final, ended = course.final(prepare_again)
    return judge(
        early.samples,
        final.samples,
        course.left,
        baseline,
        course.preference,
        course.reasons,
        course.rungs,
        ended,
        course.care.error,
        simulated,
        seed,
    )


@dataclass
class _Course:
    """A tournament under way: who is ``left``, and the ``reasons`` why the others are not."""

    inputs: Mapping[str, Tensor]
    baseline: str
    preference: Mapping[str, int]
    care: TournamentCare
    seed: int
    simulated: bool
    clock: Callable[[], float]
    left: list[str]
    reasons: dict[str, str]
    rungs: list[Rung]
    started: float

    def qualify(self, contenders: Mapping[str, Timed], told: Callable[[Rung], None]) -> Rounds:
        """The rungs, and room made for the final."""
        rounds, cost = self._ready(contenders, self.seed)
        confidence = confidence_among(len(self.left), self.care.error, self.care.rungs)
        first = enough(confidence)
        for number in range(1, self.care.rungs + 1):
            least = 1 if number == 1 else 0
            planned = max(least, cost.rounds(self._share_s(number), first << number - 1))
            if not planned:
                break
            present = tuple(self.left)
            made = self._take(rounds, planned)
            leader = self._leader(rounds)
            self._drop_slower(rounds, leader, confidence)
            decided = self._decided(rounds, leader)
            if not decided and number < self.care.rungs:
                fewest = math.ceil(len(self.left) / 2)
                share = self._share_s(number + 1)
                self._make_room(rounds, leader, cost, first, share, fewest)
            gone = tuple(name for name in present if name not in self.left)
            self.rungs.append(Rung(number, made, present, gone))
            told(self.rungs[-1])
            if decided:
                break
        wanted = self.care.min_rounds
        self._make_room(rounds, self._leader(rounds), cost, wanted, self._until_s(1.0))
        return rounds

    def final(self, prepare_again: Callable[[str], Timed]) -> tuple[Rounds, Ended]:
        """The last measurement, of all that are left."""
        afresh: dict[str, Timed] = {}
        for name in list(self.left):
            with self._attempt(name):
                afresh[name] = prepare_again(name)
        rounds, _ = self._ready(afresh, self.seed + 1)
        ended = rounds_until(
            lambda: self._round(rounds),
            settled=lambda: self._settled(rounds),
            late=lambda: self._until_s(1.0) <= 0,
            least=0 if self.simulated else self.care.min_rounds,
            most=self.care.max_rounds,
            enough=2 * enough(confidence_among(len(self.left), self.care.error)),
        )
        return rounds, ended

    def _take(self, rounds: Rounds, planned: int) -> int:
        """Take rounds of all that are left; how many were made before the time of all rungs was
        up."""
        for made in range(1, planned + 1):
            self._round(rounds)
            if self._until_s(1 - FINAL_SHARE) <= 0:
                return made
        return planned

    def _round(self, rounds: Rounds) -> None:
        for name in rounds.order(self.left):
            with self._attempt(name):
                rounds.turn(name)

    def _leader(self, rounds: Rounds) -> str:
        return fastest(rounds.samples, self.left, self.baseline)

    def _others(self, leader: str) -> list[str]:
        """Who may leave."""
        return [name for name in self.left if name not in (leader, self.baseline)]

    def _decided(self, rounds: Rounds, leader: str) -> bool:
        """Whether more rungs would tell nothing new; true of nobody."""
        return all(
            settled(rounds.samples[leader], rounds.samples[name], self.care.precise, self.seed)
            for name in self._others(leader)
        )

    def _settled(self, rounds: Rounds) -> bool:
        """Whether the final has compared everybody with the fastest and with the baseline as
        precisely as asked for."""
        samples = rounds.samples
        return all(
            settled(samples[reference], samples[name], self.care.precise, self.seed)
            for reference in {self._leader(rounds), self.baseline}
            for name in self.left
        )

    def _drop_slower(self, rounds: Rounds, leader: str, confidence: float) -> None:
        lead = rounds.samples[leader]
        for name in self._others(leader):
            own = rounds.samples[name]
            if surely_slower(own, lead, confidence, self.simulated, self.seed):
                words = in_words(own, lead, confidence, self.seed)
                self._drop(name, f"surely slower than {leader} after {len(own)} rounds: {words}")

    def _make_room(
        self,
        rounds: Rounds,
        leader: str,
        cost: _Cost,
        wanted: int,
        seconds: float,
        fewest: int = 0,
    ) -> None:
        """Drop the slowest until the ``wanted`` rounds of the others fit that time, or no more than
        ``fewest`` are left; nobody, if only proof counts."""
        if self.care.proof:
            return
        lead = rounds.samples[leader]
        ratio = {name: median_ratio(rounds.samples[name], lead) for name in self.left}
        seeming_tie = 1 + tie_band(self.simulated)

        def merit(name: str) -> tuple[float, int]:
            return max(seeming_tie, ratio[name]), self.preference[name]

        slowest_last = sorted(self._others(leader), key=merit)
        while slowest_last and len(self.left) > fewest:
            if cost.rounds(seconds, wanted) >= wanted:
                break
            name = slowest_last.pop()
            self._drop(
                name,
                f"no time to measure it further: {ratio[name]:.3f} times the latency of {leader}"
                f" after {len(lead)} rounds, not proved",
            )

    def _drop(self, name: str, reason: str) -> None:
        self.left.remove(name)
        self.reasons[name] = reason

    @contextmanager
    def _attempt(self, name: str) -> Iterator[None]:
        """Goes on without a contender that fails, unless it is the baseline."""
        try:
            yield
        except DeviceError as error:
            if name == self.baseline or isinstance(error, CancelledError):
                raise
            self._drop(name, f"it failed: {error}")

    def _ready(self, contenders: Mapping[str, Timed], seed: int) -> tuple[Rounds, _Cost]:
        """Contenders warmed up, without those that fail."""
        warm: dict[str, float] = {}
        for name, contender in contenders.items():
            with self._attempt(name):
                warm[name] = warm_up(contender, self.inputs, self.care.warm_up_ms)
        runs = {name: runs_in_a_turn(latency, self.simulated) for name, latency in warm.items()}
        among = {name: contenders[name] for name in warm}
        rounds = Rounds(among, self.inputs, runs, seed, self.simulated)
        return rounds, _Cost(self.left, warm, runs, rounds)

    def _until_s(self, share: float) -> float:
        """Seconds left until that share of the limit has passed."""
        if self.simulated:
            return math.inf
        return self.started + share * self.care.limit_s - self.clock()

    def _share_s(self, number: int) -> float:
        """Seconds for the rung of that number."""
        seconds = self._until_s(1 - FINAL_SHARE)
        return seconds if number == self.care.rungs else seconds / 2


@dataclass(frozen=True)
class _Cost:
    """What a round of those that are ``left`` costs, by their latencies so far."""

    left: Sequence[str]
    warm: Mapping[str, float]
    runs: Mapping[str, int]
    measured: Rounds

    def rounds(self, seconds: float, most: int) -> int:
        """How many rounds fit that time, but no more than ``most``."""
        each_ms = math.fsum(
            self.runs[name] * median(self.measured.samples[name] or [self.warm[name]])
            for name in self.left
        )
        return int(min(most, max(0.0, seconds * 1e3 / each_ms)))
