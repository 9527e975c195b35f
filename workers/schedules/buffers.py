"""Memory that launches take turns with: a static plan of it, and when it may be freed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from workers.graph.bitsets import bits
from workers.graph.graph import Graph
from workers.schedules.lifetimes import Lifetime, lifetimes
from workers.schedules.order import happened_before, happens_after
from workers.schedules.plan import Plan


@dataclass(frozen=True, slots=True)
class Buffers:
    """``buffer_of`` says in which buffer the memory of each root lies, ``sizes`` are the buffers'
    bytes. Inputs and weights of the graph have no buffer, nor has what a Unit allocates for itself
    alone."""

    buffer_of: Mapping[str, int]
    sizes: tuple[int, ...]

    @property
    def peak_bytes(self) -> int:
        return sum(self.sizes)


def assign_buffers(plan: Plan, graph: Graph) -> Buffers:
    """Few and small buffers for all that Units allocate for each other.

    Two roots may share a buffer if everything that uses one, under any name, has ended when the
    other is allocated, by stream order and events alone, whatever the streams' speeds. *Greedy by
    size* (Pisarchyk and Lee 2020, Section 4.2): the largest root first, each into the smallest
    buffer in which it conflicts with no other, or into a new one. Needs a valid Plan.
    """
    after = happens_after(plan)
    dead: dict[str, int] = {}  # the launches that start when the root is used no more
    tenants: list[list[Lifetime]] = []
    buffer_of: dict[str, int] = {}
    for life in sorted(lifetimes(plan, graph), key=lambda life: (-life.nbytes, life.maker)):
        dead[life.root] = _later_than_all(life, after)
        for buffer in reversed(range(len(tenants))):  # the smallest first: sizes descend
            if all(
                dead[other.root] >> life.maker & 1 or dead[life.root] >> other.maker & 1
                for other in tenants[buffer]
            ):
                break
        else:
            buffer = len(tenants)
            tenants.append([])
        tenants[buffer].append(life)
        buffer_of[life.root] = buffer
    return Buffers(buffer_of, tuple(held[0].nbytes for held in tenants))


def _later_than_all(life: Lifetime, after: list[int]) -> int:
    """The launches that start after every user of the memory has ended; none if it is returned."""
    if life.returned:
        return 0
    later = -1
    for user in bits(life.users):
        later &= after[user]
    return later


def stream_frees(plan: Plan, graph: Graph) -> tuple[tuple[str, ...], ...]:
    """For each launch, in issue order, the values to drop before it is issued: those whose memory
    may go back to the stream that allocated it.

    An allocator that keeps a list of free memory for each stream gives it out again to the next
    launch of that stream, which may start as soon as what it waits for has ended. So memory is
    dropped only when its stream has waited, by stream order and events, for every launch that uses
    it under any name; all its names are dropped at once. That is at the earliest before the first
    launch of that stream which waits for them; memory for which none does lasts until the end of
    the run, and so do the graph's inputs, weights and outputs. Needs a valid Plan.

    Where a view of another Unit may be a copy that another stream allocated, that stream must have
    waited, too.
    """
    happened = happened_before(plan)
    launches: list[list[int]] = [[] for _ in plan.streams]
    for number, launch in enumerate(plan.launches):
        launches[launch.stream].append(number)

    def first_after(users: int, stream: int) -> int | None:
        """The first launch of the stream that starts after all ``users`` have ended."""
        issued = launches[stream]
        found = bisect_left(issued, True, key=lambda number: not users & ~happened[number])
        return issued[found] if found < len(issued) else None

    frees: list[list[str]] = [[] for _ in plan.launches]
    for life in lifetimes(plan, graph):
        if life.returned:
            continue
        allocating = {
            plan.launches[launch].stream for launch in bits(1 << life.maker | life.copiers)
        }
        drops = [first_after(life.users, stream) for stream in allocating]
        known = [number for number in drops if number is not None]
        if len(known) == len(drops):
            frees[max(known)].extend(life.values)
    return tuple(map(tuple, frees))
