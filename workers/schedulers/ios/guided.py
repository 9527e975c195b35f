"""Guided search: few stages are measured, those that a model expects to be good.

The single Units, the stages of the greedy schedule and some at random are measured. A model
(``contention``, corrected by ``resemblance``) is fitted to all that was measured and says for every
other option what it expects and how far it may be off. Where corrections by resemblance make
forecasts worse, it does without (``track_record``). What may be part of a better schedule
(``outlook``) is measured, the model is fitted again, and so on until no schedule is hoped to be
better than the best measured one, until nothing better was found for long, or until as much was
measured as may be. What is found is not proven to be the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from workers.schedulers.ios.contention import Contention, Sample
from workers.schedulers.ios.facts import LEAST_MS, PartFacts, facts_of
from workers.schedulers.ios.guides import Question
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.outlook import TOLERANCE, Outlook, look
from workers.schedulers.ios.track_record import TrackRecord

SHARE, LEAST = 0.02, 8
"""At most this share of a part's options is measured, but so many for each Unit in any case: the
shares of Units that the model learns are as many as Units, and a part of 20 has a few thousand
stages, of which 2 % would be five or six for each."""

PATIENCE = 4.0
"""A part is left alone once this many times as much was measured as when its best schedule was
found. On RandWire's largest block, of which 3,756 may be measured, better schedules were still
found after two to three times as much."""

_RANDOM = 0.5
"""As many options for each Unit are measured at random before the first fit. Most stages of a space
are poor ones: with 1.0 more was measured and less found."""

_LEAST_WANTED, _MOST_WANTED = 8, 32
"""Options of a part to measure between two looks, an eighth of those measured in between. With half
as many, the search took twice as long and found less: it then rather refines what it has."""

_HOPEFUL = 0.6
"""Of what may be measured: until then, a model that was fitted to little is not trusted that
nothing better is left. With 1.0, 29 searches of blocks of NASNet-A-Large measured 159 options on
average in place of 141, and found the same."""


class Guided:
    """Looks at all parts at once, as one model is fitted to all of them. ``share``, ``least`` and
    ``patience`` are as above; ``seed`` decides what is measured before the first fit."""

    def __init__(
        self,
        share: float = SHARE,
        least: int = LEAST,
        patience: float = PATIENCE,
        seed: int = 0,
    ) -> None:
        self._share, self._least, self._patience = share, least, patience
        self._random = np.random.default_rng(seed)
        self._queue: list[Question] = []
        self._outlooks: list[Outlook | None] = []
        self._records: list[TrackRecord] = []
        self._found: list[tuple[float, int]] = []
        self._facts: list[PartFacts] = []
        self._model: Contention | None = None
        self._expected: float | None = None

    @property
    def model(self) -> Contention | None:
        """What was fitted at the last look; none before the first."""
        return self._model

    @property
    def expected_ms(self) -> float | None:
        """What the model expected of the optimum at the last look."""
        return self._expected

    def next(self, parts: Sequence[Knowledge], limit: int) -> Sequence[Question]:
        if not self._queue:
            self._queue = self._look(parts) if self._facts else self._first_look(parts)
        batch, self._queue = self._queue[:limit], self._queue[limit:]
        return batch

    def _first_look(self, parts: Sequence[Knowledge]) -> list[Question]:
        """Stages of all kinds to fit to: greedy ones and random ones."""
        self._facts = [facts_of(known) for known in parts]
        self._outlooks = [None] * len(parts)
        self._records = [TrackRecord() for _ in parts]
        self._found = [(math.inf, 0)] * len(parts)
        questions: list[Question] = []
        for index, known in enumerate(parts):
            unmeasured = np.flatnonzero(known.unmeasured())
            count = min(math.ceil(_RANDOM * known.part.space.units), len(unmeasured))
            drawn = self._random.choice(unmeasured, count, replace=False)
            chosen = dict.fromkeys([*_greedy(known), *sorted(drawn.tolist())])
            questions += [(index, option) for option in chosen][: self._left(index, known)]
        return questions or self._look(parts)

    def _left(self, index: int, known: Knowledge) -> int:
        """How many options of a part may still be measured."""
        return max(0, self._most(index, known) - _measured(known))

    def _most(self, index: int, known: Knowledge) -> int:
        """How many options of a part may be measured, and besides, Units alone with other threads
        than all, which always are."""
        most = max(self._share * len(known.options), self._least * known.part.space.units)
        return int(most) + int((~self._facts[index].of_several).sum()) - known.part.space.units

    def _look(self, parts: Sequence[Knowledge]) -> list[Question]:
        """Fit, and then what to measure of every part."""
        for known in parts:
            known.refresh()
        samples: list[Sample] = []
        for index, known in enumerate(parts):
            options = np.flatnonzero(np.isfinite(known.latencies))
            if len(options):
                samples.append((index, options, np.maximum(known.latencies[options], LEAST_MS)))
        if not samples:
            return []
        model = self._model = self._model or Contention(self._facts)
        model.fit(samples)
        # What is settled is looked at again only when nothing else is left: a look takes a while.
        settled = [outlook is not None and not outlook.wanted for outlook in self._outlooks]
        questions: list[Question] = []
        for chosen in (False, True):
            for index in (index for index, is_so in enumerate(settled) if is_so == chosen):
                questions += self._look_at(index, parts[index], model)
            if questions:
                break
        self._expected = sum(
            outlook.expected * len(known.part.occurrences)
            for outlook, known in zip(self._outlooks, parts, strict=True)
            if outlook is not None
        )
        return questions

    def _look_at(self, index: int, known: Knowledge, model: Contention) -> list[Question]:
        left = self._left(index, known)
        last, record = self._outlooks[index], self._records[index]
        if last is not None and last.forecast is not None:
            record.score(last.forecast, known.latencies)
        outlook = self._outlooks[index] = look(
            known,
            self._facts[index],
            model.expected(index),
            model.deviation,
            min(
                left,
                self._left_until_better(index, known),
                max(_LEAST_WANTED, min(_MOST_WANTED, _measured(known) // 8)),
            ),
            hopeful=left > (1 - _HOPEFUL) * self._most(index, known),
            corrected=record.for_corrections,
        )
        return [(index, option) for option in outlook.wanted]

    def _left_until_better(self, index: int, known: Knowledge) -> int:
        """How many options of a part may be measured until something better is found. A schedule
        that is slower when measured again starts this anew, as another has to be found."""
        best, at = self._found[index]
        now, measured = known.standing.best.latency_ms, _measured(known)
        if not best * (1 - TOLERANCE) <= now <= best:
            at = measured
            self._found[index] = now, at
        patience = self._patience * (at + known.part.space.units)
        return int(min(len(known.options), max(0.0, patience - measured)))


def _measured(known: Knowledge) -> int:
    """How many options of a part were measured."""
    return int((~known.unmeasured()).sum())


def _greedy(known: Knowledge) -> list[int]:
    """The unmeasured stages of the greedy schedule, run plainly, as far as the space has them."""
    space = known.part.space
    level = [0] * space.units
    for unit, successors in enumerate(space.successors):
        for after in successors:
            level[after] = max(level[after], level[unit] + 1)
    masks = [0] * (max(level) + 1)
    for unit, number in enumerate(level):
        masks[number] |= 1 << unit
    stages = np.flatnonzero(np.isin(space.stages, np.array(masks, dtype=np.uint64)))
    options = np.searchsorted(known.options.stage, stages)
    within = options[options < len(known.options)]
    plain = within[np.isin(known.options.stage[within], stages)]
    return [int(option) for option in plain if known.unmeasured()[option]]
