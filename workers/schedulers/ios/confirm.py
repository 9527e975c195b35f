"""The stages that were chosen are measured again, because the fastest of many looks too fast.

Where measurements are noisy, the best schedule is the least of very many sums of one measurement
each, and is made of lucky ones: its prediction is too low (the winner's curse), and schedules that
are faster in truth lose to it. So the stages of the best schedule are measured again, with them the
single Units that they replace, which are what it is compared with in the end. The second answer
takes the place of the first; then another schedule may be the best, whose stages are next. What is
chosen in spite of its second measurement is fast and not lucky. This departs from the paper, which
measures each stage once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from workers.graph.bitsets import bits
from workers.schedulers.base import StageLatency
from workers.schedulers.ios.guides import Question
from workers.schedulers.ios.knowledge import Knowledge

ROUNDS = 3
"""How often the best schedule is measured again at the end of a search. More rounds are a choice
among more again: in trials on Inception-v3 with measurements that scatter by 3 %, ten of them took
twice as long, found schedules from 0.03 % slower to 0.14 % faster, and predicted too little by 1.5
to 2.1 % in place of 0.6 to 1.4 %."""

SHARE = 0.2
"""How much of its time a search may give to measuring again before its end: then a search whose
time is used up has rechecked most of what it answers with."""

PRICE = 5
"""About as long as so many first measurements takes one again."""


class Confirmation:
    """Which options of which parts were measured again, and how lucky they had been."""

    def __init__(self, parts: Sequence[Knowledge]) -> None:
        self._parts = parts
        self._rechecked = [np.zeros(len(known.options), dtype=bool) for known in parts]
        self._failed: dict[Question, StageLatency] = {}
        self._first = self._second = 0.0
        self._next_at = 0.0

    @property
    def rechecked(self) -> int:
        """How many options were measured again."""
        return sum(int(rechecked.sum()) for rechecked in self._rechecked)

    @property
    def luck(self) -> float:
        """By what factor chosen stages took longer the second time, at least 1."""
        return max(1.0, self._second / self._first) if self._first else 1.0

    def grant(self, asked: int) -> int:
        """How many options may be measured again now that ``asked`` were measured. None, unless
        that is a quarter more than at the last time: then the best schedule may be another."""
        if asked < self._next_at:
            return 0
        self._next_at = 1.25 * asked
        return max(0, int(SHARE * asked / PRICE) - self.rechecked)

    def doubtful(self) -> list[Question]:
        """What was measured only once of the best schedules' stages, and then of the single Units
        that stages of several replace."""
        chosen: list[Question] = []
        replaced: list[Question] = []
        for index, known in enumerate(self._parts):
            if math.isfinite(known.standing.best.latency_ms):
                best = known.standing.best.stages
                chosen += [(index, known.best_option(stage)) for stage in best]
                replaced += [(index, known.best_option(stage)) for stage in _alone(known, best)]
        return [
            (index, option)
            for index, option in dict.fromkeys([*chosen, *replaced])
            if not self._rechecked[index][option]
            and math.isfinite(self._parts[index].latencies[option])
        ]

    def learn(self, question: Question, answer: StageLatency) -> None:
        """The oracle's second answer."""
        index, option = question
        known = self._parts[index]
        before = float(known.latencies[option])
        self._rechecked[index][option] = True
        if not math.isfinite(answer.latency_ms):
            self._failed[question] = StageLatency(before)
        chosen = known.options.stage[option] in known.standing.best.stages
        if chosen and math.isfinite(answer.latency_ms):
            self._first += before
            self._second += answer.latency_ms
        if answer.latency_ms != before:
            known.record(option, answer)

    def settle(self) -> None:
        """At the end, what was measured only once is expected to have been as lucky as what was
        chosen before it: it is taken only where it is fast in spite of that. What failed the second
        time counts as measured only once where there is no schedule without it."""
        for (index, option), first in self._failed.items():
            known = self._parts[index]
            if not math.isfinite(known.standing.best.latency_ms):
                known.record(option, first)
                self._rechecked[index][option] = False
        for known in self._parts:
            known.refresh()
        if self.luck == 1.0 or not self.unconfirmed:
            return
        for known, rechecked in zip(self._parts, self._rechecked, strict=True):
            known.expect(np.where(rechecked, known.latencies, known.latencies * self.luck))
            known.refresh()

    @property
    def unconfirmed(self) -> int:
        """How many stages of the best schedules were measured only once."""
        return sum(
            not rechecked[known.best_option(stage)]
            for known, rechecked in zip(self._parts, self._rechecked, strict=True)
            if math.isfinite(known.standing.best.latency_ms)
            for stage in known.standing.best.stages
        )

    def notes(self) -> Iterator[str]:
        """What a reader of the prediction should know."""
        if self._second != self._first:
            yield (
                f"{self.rechecked} stages were measured again; those chosen for being fast took"
                f" {self._second / self._first - 1:+.1%} in sum"
            )
        if self.unconfirmed:
            note = f"stages of the schedule that were measured only once: {self.unconfirmed}"
            more = f", each expected to take {self.luck - 1:.1%} longer"
            yield note + more if self.luck > 1.0 else note


def _alone(known: Knowledge, stages: Sequence[int]) -> list[int]:
    """The stages of single Units for the Units of those ``stages`` that have several."""
    masks = [int(known.part.space.stages[stage]) for stage in stages]
    units = [1 << unit for mask in masks if mask.bit_count() > 1 for unit in bits(mask)]
    found = np.searchsorted(known.part.space.stages, np.array(units, dtype=np.uint64))
    return [int(stage) for stage in found]
