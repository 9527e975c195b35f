"""What a Plan orders: which launches have ended when one starts, and which waits say nothing new.

Sets of launches are bit masks: bit ``i`` stands for the ``i``-th launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from workers.graph.bitsets import bits
from workers.schedules.plan import Launch, Plan


def happened_before(plan: Plan) -> list[int]:
    """For each launch the set of launches that have ended when it starts, as a bit mask.

    Needs events in order, as ``validate`` proves them.
    """
    happened: list[int] = []
    for sources in direct_predecessors(plan):
        before = 0
        for source in sources:
            before |= happened[source] | 1 << source
        happened.append(before)
    return happened


def happens_after(plan: Plan) -> list[int]:
    """For each launch the set of launches that start after it has ended, as a bit mask: the
    transpose of ``happened_before``."""
    after = [0] * len(plan.launches)
    predecessors = direct_predecessors(plan)
    for number in reversed(range(len(after))):
        for source in predecessors[number]:
            after[source] |= after[number] | 1 << number
    return after


def direct_predecessors(plan: Plan) -> list[list[int]]:
    """For each launch those that record what it waits for, and the one before it on its stream."""
    last: dict[int, int] = {}
    recorder: dict[int, int] = {}
    predecessors: list[list[int]] = []
    for number, launch in enumerate(plan.launches):
        sources = [recorder[event] for event in launch.waits]
        if launch.stream in last:
            sources.append(last[launch.stream])
        predecessors.append(sources)
        last[launch.stream] = number
        if launch.records is not None:
            recorder[launch.records] = number
    return predecessors


def with_events(
    placements: Sequence[tuple[str, int]], after: Mapping[int, Iterable[int]]
) -> tuple[Launch, ...]:
    """The launches of (unit, stream) ``placements`` in issue order, each with the fewest waits.

    ``after`` says for some launches, by position, which earlier ones must have ended before. Of
    these it waits for those that no other way leads from: not stream order, not another wait, nor
    any path of both. The waits are then the transitive reduction of the happened-before relation
    without the edges that stream order gives, which is unique (Aho, Garey and Ullman 1972), so
    that no Plan with this relation has fewer. Later launches are tried first, because a wait can
    only be implied by one for a launch issued after it.

    Events are numbered from 0 in the order in which they are recorded.
    """
    last: dict[int, int] = {}
    happened: list[int] = []
    waits: list[list[int]] = []
    for number, (_, stream) in enumerate(placements):
        known = 0
        if stream in last:
            known = happened[last[stream]] | 1 << last[stream]
        needed = []
        for source in sorted(set(after.get(number, ())), reverse=True):
            if not known >> source & 1:
                needed.append(source)
                known |= happened[source] | 1 << source
        happened.append(known)
        waits.append(needed[::-1])
        last[stream] = number
    awaited = 0
    for needed in waits:
        for source in needed:
            awaited |= 1 << source
    event = {source: number for number, source in enumerate(bits(awaited))}
    return tuple(
        Launch(unit, stream, tuple(event[source] for source in waits[number]), event.get(number))
        for number, (unit, stream) in enumerate(placements)
    )
