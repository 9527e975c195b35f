"""Fewer streams than Algorithm 1 wants, with nothing lost unless there are still too many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workers.schedulers.opara.clocks import Clocks


def reuse(
    streams: Sequence[int],
    order: Sequence[int],
    predecessors: Sequence[Sequence[int]],
    work: Sequence[int],
    most: int,
) -> list[int]:
    """Streams of Algorithm 1 put together, so that at most ``most`` are left.

    In launch ``order``, a stream that begins goes where it conflicts with nothing: on one whose
    Units are all launched and have ended before it begins, because the last of them is an ancestor
    or waited for by one; else on one not used yet. So nothing is ordered that was not, unless there
    are ``most`` already. Then it goes where the least ``work`` (positive, in ns) may run at the
    same time: what was launched there and need not have ended, and what is still to come there,
    some of which may depend on it after all. Of equal ones the first is taken.
    """
    wanted = max(streams, default=-1) + 1
    coming = [0] * wanted
    for unit, stream in enumerate(streams):
        coming[stream] += work[unit]
    position = [0] * len(order)
    for number, unit in enumerate(order):
        position[unit] = number
    most = min(most, wanted)
    clocks = Clocks(work, most)
    to_come = np.zeros(most, np.int64)
    used = 0
    onto = [-1] * wanted
    placed = [0] * len(order)
    for unit in order:
        stream, needed = streams[unit], predecessors[unit]
        if onto[stream] < 0:
            conflict = (clocks.totals + to_come - clocks.before(needed))[:used]
            best = int(conflict.argmin()) if used else 0
            if used < most and (not used or conflict[best]):
                best, used = used, used + 1
            onto[stream] = best
            to_come[best] += coming[stream]
        placed[unit] = onto[stream]
        to_come[placed[unit]] -= work[unit]
        clocks.put(unit, placed[unit], sorted(needed, key=position.__getitem__))
    return placed


def waits(
    streams: Sequence[int], order: Sequence[int], predecessors: Sequence[Sequence[int]]
) -> int:
    """How often a stream waits for another, waits left out that others imply: as many as
    ``workers.schedules.lower`` leaves, in time and memory linear in the Units."""
    position = [0] * len(order)
    for number, unit in enumerate(order):
        position[unit] = number
    clocks = Clocks([1] * len(order), max(streams, default=-1) + 1)
    return sum(
        clocks.put(unit, streams[unit], sorted(predecessors[unit], key=position.__getitem__))
        for unit in order
    )
