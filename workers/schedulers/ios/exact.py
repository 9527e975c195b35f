"""Exact search: the optimum of the exhaustive dynamic program, with few stages measured.

With every unmeasured stage at its floor (``floors``), the shortest path over the DP's states is a
lower bound of all schedules. A stage that only paths longer than the best measured schedule go
through need never be measured. The others are taken in ascending length of the shortest path
through them, as A* takes its nodes; but not each is measured itself. A floor that is raised raises
those of all stages that contain the one measured, so the smallest unmeasured part of the stage's
longest groups is measured first, and the stage itself only if all of these were not enough. (On a
block of NASNet-A-Large with 5,535 stages, on a simulated V100, this took 1,611 measurements, and
asking for the stages themselves 4,018.)

When no unmeasured stage can be part of a faster schedule, the best measured schedule is optimal, if
the floors hold. They are then put to the test. Some stages could still be part of a faster schedule
if floors followed from groups alone; of these, the ones are measured that need to be below their
floor by the least for that. A few are, where nothing contradicts the floors. Otherwise the search
of the part goes on until groups alone exclude all that is left, or a third of all that was measured
of the part was measured since its schedule was last improved.

So what is found is the exhaustive optimum if the floors hold, and where they do not, if groups
alone prove it (``Standing.bound_holds``). Otherwise nothing is promised. On a simulated V100 groups
alone proved it for SqueezeNet and Inception-v3. For blocks of NASNet-A-Large they exclude hardly
anything and proved nothing; what was found with 27,867 of 127,803 stages was the optimum all the
same, and so it was in five searches of blocks with random factors on all kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from workers.schedulers.ios.guides import Question
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.paths import around_stages, costs, costs_to_go

TRANSITIONS_PER_QUESTION = 8_192
"""A look at all transitions of a part takes a moment, too: about as long as a simulated device
takes for one stage per this many transitions. So many more are asked for after each look."""

AUDIT = 64
"""So many stages of a part are measured to find out whether its floors hold."""

PERSISTENCE = 0.5
"""Where the floors do not hold, so many more, as a part of what was measured of the part when its
best schedule last became faster."""

SCATTER = 0.01
"""Contradictions of up to so much are no reason to measure more: measurements scatter."""


class Exact:
    """Asks for the part of which most of the whole schedule's gap is left."""

    def __init__(self) -> None:
        self._queue: list[Question] = []
        self._improved: dict[int, tuple[float, int]] = {}

    def next(self, parts: Sequence[Knowledge], limit: int) -> Sequence[Question]:
        if not self._queue:
            self._queue = self._questions(parts, limit)
        batch, self._queue = self._queue[:limit], self._queue[limit:]
        return batch

    @property
    def expected_ms(self) -> None:
        return None

    def _questions(self, parts: Sequence[Knowledge], limit: int) -> list[Question]:
        """What is asked after one look at all parts: of the part whose gap, times its occurrences,
        is the widest, or if there is no gap to close, what is audited."""
        for known in parts:
            known.refresh()
        for index in sorted(range(len(parts)), key=lambda index: (-_gap(parts[index]), index)):
            if options := _options(parts[index], _at_once(parts[index], limit)):
                return [(index, option) for option in options]
        return [
            (index, option)
            for index, known in enumerate(parts)
            for option in self._audit(index, known, limit)
        ]

    def _audit(self, index: int, known: Knowledge, limit: int) -> list[int]:
        """What to measure next of a part that seems to be done; nothing if it is."""
        measured = len(known.options) - int(known.unmeasured().sum())
        best, (before, since) = known.standing.best, self._improved.get(index, (math.inf, 0))
        if best.latency_ms < before:
            since = measured
        self._improved[index] = best.latency_ms, since
        more = AUDIT + (int(PERSISTENCE * since) if known.floors.worst > SCATTER else 0)
        left = since + more - measured
        return _suspects(known, min(left, _at_once(known, limit))) if left > 0 else []


def _at_once(known: Knowledge, limit: int) -> int:
    """How many options to ask for after one look."""
    return max(limit, known.part.space.transitions // TRANSITIONS_PER_QUESTION)


def _gap(known: Knowledge) -> float:
    """How much faster the whole schedule may become by this part at most; an infinite schedule
    comes first."""
    standing = known.standing
    return (standing.best.latency_ms - standing.bound_ms) * len(known.part.occurrences)


def _options(known: Knowledge, count: int) -> list[int]:
    """About ``count`` options to measure, those for the shortest paths first."""
    chosen: list[int] = []
    seen: set[int] = set()
    unmeasured = known.unmeasured()
    for stage in _stages(known, count):
        if stage in seen:
            continue
        seen.add(stage)
        first, last = np.searchsorted(known.options.stage, [stage, stage + 1])
        chosen += [int(option) for option in range(first, last) if unmeasured[option]]
        if len(chosen) >= count:
            break
    return chosen


def _stages(known: Knowledge, chunk: int) -> Iterator[int]:
    """For each promising stage, in ascending length of the shortest path through it, its smallest
    part that has unmeasured options: groups alone, then its longest groups together."""
    groups, alone, masks = known.part.groups, known.floors.of_groups(), known.part.space.stages
    through = known.around + known.floors.of_stages()
    wanted = np.zeros(len(masks), dtype=bool)
    wanted[known.options.stage[known.promising]] = True
    promising = np.flatnonzero(wanted)
    promising = promising[np.argsort(through[promising], kind="stable")]
    unmeasured = np.zeros(len(masks), dtype=bool)
    unmeasured[known.options.stage[known.unmeasured()]] = True
    for begin in range(0, len(promising), chunk):
        rows = groups.of_stage[promising[begin : begin + chunk]]
        longest_first = np.argsort(-alone[rows], axis=1, kind="stable")
        found = groups.masks[np.take_along_axis(rows, longest_first, axis=1)]
        parts = np.searchsorted(masks, np.bitwise_or.accumulate(found, axis=1))
        yield from parts[np.arange(len(parts)), unmeasured[parts].argmax(axis=1)].tolist()


def _suspects(known: Knowledge, count: int) -> list[int]:
    """Of the unmeasured options that could be part of a faster schedule if nothing counted but
    groups alone, those that need to be below their floor by the least part for that, if everything
    else is at its own."""
    space, floor = known.part.space, known.floors.of_longest_groups()
    around = around_stages(space, costs(space, floor), costs_to_go(space, floor))
    stage, best = known.options.stage, known.standing.best.latency_ms
    suspects = np.flatnonzero(known.unmeasured() & ((around + floor)[stage] < best))
    wanted = best - known.around[stage[suspects]]
    floors = np.maximum(known.floors.of_options()[suspects], np.finfo(float).tiny)
    first = suspects[np.argsort(-wanted / floors, kind="stable")][:count]
    return [int(option) for option in first]
