"""Guided search: few stages are measured, those that a model expects to be good.

A model (``contention``, corrected by ``resemblance``) is fitted to all that was measured and says
for every other option what it expects and how far it may be off. For each, the dynamic program says
how fast the best schedule with it would be: with measured latencies where there are any, and what
is expected elsewhere. What is uncertain is given the chance to be good: some standard deviations
are taken off, more of them for the option itself than for the others of its schedule, which are not
all lucky at once. The options of the fastest such schedules are measured, the model is fitted
again, and so on until no schedule is hoped to be better than the best measured one by more than
``TOLERANCE``, until nothing better was found for long, or until ``share`` of a part's options were
measured.

No expectation is below the floor of its option. What is found is not proven to be the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.graph.bitsets import bits
from workers.schedulers.ios.contention import Contention, PartFacts, Sample
from workers.schedulers.ios.guides import Question
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.paths import Latencies, around_stages, costs, costs_to_go
from workers.schedulers.ios.resemblance import Resemblance
from workers.schedulers.ios.space import Space

TOLERANCE = 0.002
"""A schedule that may be faster by this part is not looked for: measurements scatter by more."""

PATIENCE = 4.0

OPTIMISM, OPTIMISM_AROUND = 2.0, 0.5
"""By how many standard deviations an unmeasured option is taken to be faster than expected, and the
others of its schedule."""

_LEAST_WANTED, _MOST_WANTED = 8, 32
"""Options of a part to measure between two looks, an eighth of those measured in between."""

_SURE = 0.6
"""Of what may be asked for: so much is asked for before nothing is hoped for any more."""

_LEAST_DEVIATION = 0.01
"""Of what is expected: no model is better than that."""

_RESEMBLED, _RESEMBLING = 250, 6_000
"""Measured options that errors are carried over from, and unmeasured ones to, of a part: those of
the best paths."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Of one part: what the model expects of its best schedule, in ms, and what to measure."""

    expected: float
    wanted: tuple[int, ...]


class Guided:
    """Looks at all parts at once, as one model is fitted to all of them.

    At most ``share`` of a part's options are asked for, but ``least`` for each of its Units if that
    is more. A part for which ``patience`` times as much was measured as when its best schedule was
    found, and as many for each Unit, is left alone. ``seed`` decides what is measured before the
    first fit, as many as there are Units.
    """

    def __init__(
        self,
        share: float = 0.02,
        least: int = 8,
        patience: float = PATIENCE,
        seed: int = 0,
    ) -> None:
        self._share, self._least, self._patience = share, least, patience
        self._random = np.random.default_rng(seed)
        self._queue: list[Question] = []
        self._outlooks: list[Outlook | None] = []
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
        self._facts = [_facts(known) for known in parts]
        self._outlooks = [None] * len(parts)
        self._found = [(math.inf, 0)] * len(parts)
        questions: list[Question] = []
        for index, known in enumerate(parts):
            unmeasured = np.flatnonzero(known.unmeasured())
            count = min(known.part.space.units, len(unmeasured), self._left(known))
            drawn = self._random.choice(unmeasured, count, replace=False)
            chosen = dict.fromkeys([*_greedy(known), *sorted(drawn.tolist())])
            questions += [(index, option) for option in chosen][: self._left(known)]
        return questions or self._look(parts)

    def _left(self, known: Knowledge) -> int:
        """How many options of a part may still be asked for."""
        return max(0, self._most(known) - int((~known.unmeasured()).sum()))

    def _most(self, known: Knowledge) -> int:
        """How many options of a part may be measured."""
        return int(max(self._share * len(known.options), self._least * known.part.space.units))

    def _look(self, parts: Sequence[Knowledge]) -> list[Question]:
        """Fit, and then what to measure of every part."""
        for known in parts:
            known.refresh()
        samples: list[Sample] = []
        for index, known in enumerate(parts):
            options = np.flatnonzero(np.isfinite(known.latencies))
            if len(options):
                samples.append((index, options, _positive(known.latencies[options])))
        if not samples:
            return []
        model = self._model = self._model or Contention(self._facts)
        model.fit(samples)
        # What is settled is looked at again only when nothing else is left: a look takes a while.
        open_parts = [
            index
            for index, outlook in enumerate(self._outlooks)
            if outlook is None or outlook.wanted
        ]
        settled = [index for index in range(len(parts)) if index not in open_parts]
        questions = self._look_at(open_parts, parts, model) or self._look_at(settled, parts, model)
        self._expected = sum(
            outlook.expected * len(known.part.occurrences)
            for outlook, known in zip(self._outlooks, parts, strict=True)
            if outlook is not None
        )
        return questions

    def _look_at(
        self, indices: Sequence[int], parts: Sequence[Knowledge], model: Contention
    ) -> list[Question]:
        questions: list[Question] = []
        for index in indices:
            known = parts[index]
            outlook = self._outlooks[index] = _outlook(
                known,
                self._facts[index],
                model.expected(index),
                model.deviation,
                min(self._left(known), self._left_until_better(index, known)),
                self._left(known) <= (1 - _SURE) * self._most(known),
            )
            questions += [(index, option) for option in outlook.wanted]
        return questions

    def _left_until_better(self, index: int, known: Knowledge) -> int:
        """How many options of a part may be asked for until something better is found."""
        best, at = self._found[index]
        measured = int((~known.unmeasured()).sum())
        if known.standing.best.latency_ms < best * (1 - TOLERANCE):
            at = measured
            self._found[index] = known.standing.best.latency_ms, at
        return int(min(1e9, max(0.0, self._patience * (at + known.part.space.units) - measured)))


def _outlook(
    known: Knowledge, facts: PartFacts, expected: Latencies, deviation: float, left: int, sure: bool
) -> Outlook:
    """Where a part stands, given what the model expects of its options and how far it is off; at
    most ``left`` may be asked for, and if the model is not ``sure``, it hopes for more."""
    space, stage, unmeasured = known.part.space, known.options.stage, known.unmeasured()
    best = known.standing.best.latency_ms
    if not unmeasured.any():
        return Outlook(best, ())
    floor = known.floors.of_options()
    mean = np.where(unmeasured, np.maximum(expected, floor), known.latencies)
    scatter = np.where(unmeasured, max(deviation, _LEAST_DEVIATION), 0.0)
    least = np.where(unmeasured, floor, 0.0)

    def hoped(deviations: float) -> Latencies:
        latencies: Latencies = np.maximum(mean * np.exp(-deviations * scatter), least)
        return latencies

    through = _around(space, stage, hoped(OPTIMISM)) + hoped(OPTIMISM)
    near = _first(through, unmeasured & (through < best), _RESEMBLING)
    like = _first(through, np.isfinite(known.latencies), _RESEMBLED)
    if len(near) and len(like):
        errors = np.log(_positive(known.latencies[like]) / expected[like])
        weights = facts.alone[0][:, None]
        off, deviations = Resemblance(
            (facts.groups.units[:, stage[like]] * weights).T, facts.kind[like], errors
        ).expected((facts.groups.units[:, stage[near]] * weights).T, facts.kind[near])
        mean[near] = np.maximum(expected[near] * np.exp(off), floor[near])
        scatter[near] = np.maximum(deviations, _LEAST_DEVIATION)
    likely = min(best, float(costs(space, _of_stages(space, stage, mean))[-1]))
    measured = int((~unmeasured).sum())
    count = min(left, max(_LEAST_WANTED, min(_MOST_WANTED, measured // 8)))
    # A model that was fitted to little is too sure of itself: then all may be lucky at once.
    for around in (OPTIMISM_AROUND,) if sure else (OPTIMISM_AROUND, OPTIMISM):
        through = _around(space, stage, hoped(around)) + hoped(OPTIMISM)
        wanted = _first(through, unmeasured & (through < best * (1 - TOLERANCE)), count)
        if len(wanted):
            break
    return Outlook(likely, tuple(wanted.tolist()))


def _around(space: Space, stage: NDArray[np.int32], latencies: Latencies) -> Latencies:
    """For every option the length of the best path with it, without itself."""
    fastest = _of_stages(space, stage, latencies)
    around = around_stages(space, costs(space, fastest), costs_to_go(space, fastest))
    return around[stage]


def _of_stages(space: Space, stage: NDArray[np.int32], latencies: Latencies) -> Latencies:
    """For every stage the least latency of its options."""
    fastest = np.full(len(space.stages), math.inf)
    np.minimum.at(fastest, stage, latencies)
    return fastest


def _first(order: Latencies, chosen: NDArray[np.bool_], count: int) -> NDArray[np.intp]:
    """At most ``count`` of the chosen, the least by ``order`` first, equal ones as they come."""
    found = np.flatnonzero(chosen)
    return found[np.argsort(order[found], kind="stable")[:count]]


def _positive(latencies: Latencies) -> Latencies:
    """A clock may be too coarse for what it times; a model of ratios needs something above 0."""
    return np.maximum(latencies, 1e-9)


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
    unmeasured = known.unmeasured()
    found = []
    for mask in masks:
        position = int(np.searchsorted(space.stages, np.uint64(mask)))
        if position < len(space.stages) and int(space.stages[position]) == mask:
            first, last = np.searchsorted(known.options.stage, [position, position + 1])
            found += [int(option) for option in range(first, min(last, first + 1))]
    return [option for option in found if unmeasured[option]]


def _facts(known: Knowledge) -> PartFacts:
    """What the single Units' latencies say. One that is not known is taken to be typical."""
    space, options, groups = known.part.space, known.options, known.floors.groups
    threads = sorted({count for way in options.ways for count in way.threads})
    alone = np.full((1 + len(threads), space.units), math.nan)
    for option in np.flatnonzero(np.bitwise_count(space.stages[options.stage]) == 1):
        way, mask = options.ways[options.way[option]], int(space.stages[options.stage[option]])
        if way.strategy == "concurrent" and math.isfinite(known.latencies[option]):
            variant = 1 + threads.index(way.threads[0]) if way.threads else 0
            alone[variant, next(bits(mask))] = known.latencies[option]
    finite = alone[0][np.isfinite(alone[0])]
    typical = float(np.median(finite)) if len(finite) else 1.0
    alone[0] = np.where(np.isnan(alone[0]), typical, alone[0])
    alone = _positive(np.where(np.isnan(alone), alone[0], alone))
    kinds = [1 if way.strategy == "merge" else 2 if way.threads else 0 for way in options.ways]
    variants = None
    if threads:
        of_way = np.zeros((len(options.ways), groups.of_stage.shape[1]), dtype=np.int8)
        for number, way in enumerate(options.ways):
            of_way[number, : len(way.threads)] = [1 + threads.index(t) for t in way.threads]
        variants = of_way[options.way]
    return PartFacts(
        units=tuple(known.graph.units[position] for position in known.part.occurrences[0]),
        alone=alone,
        groups=groups,
        stage=options.stage,
        kind=np.array(kinds, dtype=np.int8)[options.way],
        variant=variants,
    )
