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
the floors hold. That they do is then put to the test: a few of the stages are measured that would
be next if floors followed from groups alone, which no stage of Inception-v3 on a simulated V100
contradicts. If that changes what can be part of a faster schedule, the search goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from workers.schedulers.ios.guides import Question
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.paths import around_stages, costs, costs_to_go

TRANSITIONS_PER_QUESTION = 16_384
"""A look at all transitions of a part takes a moment, too: about as long as a simulated device
takes for one stage per this many transitions. So many more are asked for after each look."""

AUDIT = 16
"""So many stages of each part are measured that only larger measured stages than a single group
exclude, before the part is done."""


class Exact:
    """Asks for the part of which most of the whole schedule's gap is left."""

    def __init__(self) -> None:
        self._queue: list[Question] = []
        self._audited: dict[int, int] = {}

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
            count = max(limit, parts[index].part.space.transitions // TRANSITIONS_PER_QUESTION)
            if options := _options(parts[index], count):
                return [(index, option) for option in options]
        audits = [(index, self._audit(index, known)) for index, known in enumerate(parts)]
        return [(index, option) for index, options in audits for option in options]

    def _audit(self, index: int, known: Knowledge) -> list[int]:
        """What to measure of a part that seems to be done; nothing if that was measured and the
        part still is."""
        measured = len(known.options) - int(known.unmeasured().sum())
        if self._audited.get(index) == measured:
            return []
        options = _suspects(known)
        self._audited[index] = measured + len(options)
        return options


def _gap(known: Knowledge) -> float:
    """How much faster the whole schedule may become by this part at most; an infinite schedule
    comes first."""
    standing = known.standing
    return (standing.best.latency_ms - standing.bound_ms) * len(known.part.occurrences)


def _options(known: Knowledge, count: int) -> list[int]:
    """About ``count`` options to measure, those for the shortest paths first."""
    chosen: dict[int, None] = {}
    unmeasured = known.unmeasured()
    for stage in _stages(known, count):
        first, last = np.searchsorted(known.options.stage, [stage, stage + 1])
        chosen |= dict.fromkeys(int(option) for option in range(first, last) if unmeasured[option])
        if len(chosen) >= count:
            break
    return list(chosen)


def _stages(known: Knowledge, chunk: int) -> Iterator[int]:
    """For each promising stage, in ascending length of the shortest path through it, its smallest
    part that has unmeasured options: groups alone, then its longest groups together."""
    groups, alone, masks = known.floors.groups, known.floors.of_groups(), known.part.space.stages
    through = known.around + known.floors.of_stages()
    promising = np.unique(known.options.stage[known.promising])
    promising = promising[np.argsort(through[promising], kind="stable")]
    unmeasured = np.zeros(len(masks), dtype=bool)
    unmeasured[known.options.stage[known.unmeasured()]] = True
    for begin in range(0, len(promising), chunk):
        rows = groups.of_stage[promising[begin : begin + chunk]]
        longest_first = np.argsort(-alone[rows], axis=1, kind="stable")
        found = groups.masks[np.take_along_axis(rows, longest_first, axis=1)]
        parts = np.searchsorted(masks, np.bitwise_or.accumulate(found, axis=1))
        yield from parts[np.arange(len(parts)), unmeasured[parts].argmax(axis=1)].tolist()


def _suspects(known: Knowledge) -> list[int]:
    """The unmeasured options on the shortest paths if nothing counts but groups alone."""
    space, floor = known.part.space, known.floors.of_longest_groups()
    around = around_stages(space, costs(space, floor), costs_to_go(space, floor))
    through = (around + floor)[known.options.stage]
    suspects = np.flatnonzero(known.unmeasured() & (through < known.standing.best.latency_ms))
    first = suspects[np.argsort(through[suspects], kind="stable")][:AUDIT]
    return [int(option) for option in first]
