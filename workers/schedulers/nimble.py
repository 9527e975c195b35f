"""Nimble's assignment of streams: all the concurrency that a graph has, with the fewest waits.

Kwon, Yu, Jeong and Chun, "Nimble: Lightweight and Parallel GPU Task Scheduling for Deep Learning",
NeurIPS 2020, Section 4.2. docs/streams.md says where this departs from it and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.graph.bitsets import descendants
from workers.graph.graph import Graph
from workers.graph.matching import UNMATCHED, maximum_matching, minimum_cover
from workers.schedulers.base import LatencyOracle, SearchObserver, SearchResult, ignore_progress
from workers.schedules.aliases import dependencies
from workers.schedules.schedule import Placement, StreamSchedule


@dataclass(frozen=True, slots=True)
class NimbleScheduler:
    """Two Units that may run side by side are never on one stream; under this condition no
    assignment needs fewer waits, and none with as few waits has fewer streams. Launches in the
    graph's order. Asks the oracle nothing."""

    @property
    def name(self) -> str:
        return "nimble"

    def schedule(
        self, graph: Graph, oracle: LatencyOracle, observe: SearchObserver = ignore_progress
    ) -> SearchResult:
        successors: list[list[int]] = [[] for _ in graph.units]
        for unit, before in enumerate(dependencies(graph)):
            for predecessor in before:
                successors[predecessor].append(unit)
        found = assign_streams(successors)
        placements = tuple(
            Placement(unit.name, stream)
            for unit, stream in zip(graph.units, found.stream_of, strict=True)
        )
        note = (
            f"{_count(found.streams, 'stream')}, {_count(found.waits, 'synchronisation')},"
            f" degree of logical concurrency {found.concurrency}"
        )
        return SearchResult(StreamSchedule(self.name, placements), predicted_ms=None, notes=(note,))


@dataclass(frozen=True, slots=True)
class Assignment:
    """Streams for the Units of a DAG, numbered by their first Units in topological order.

    ``waits`` between streams are needed and suffice. ``concurrency`` is the degree of logical
    concurrency: the number of Units that can run side by side at most, and so the least number of
    streams that loses none, however many waits it takes.
    """

    stream_of: tuple[int, ...]
    streams: int
    waits: int
    concurrency: int


def assign_streams(successors: Sequence[Sequence[int]]) -> Assignment:
    """Algorithm 1 of the paper, and a second matching, for a DAG given in topological order.

    Where no concurrency is lost, the Units of a stream depend on each other in a chain. Then stream
    order says nothing that the graph does not, and what must be waited for are the edges of the
    *minimum equivalent graph* (step 1) that are not within a stream. One that is joins two Units
    that follow each other there, because a Unit between them would be on a longer way. So the edges
    that need no wait match Units with their next ones, and a maximum matching (steps 2 and 3)
    leaves the fewest waits.

    Its edges make chains. Where the last Unit of one leads to the first of another, no two Units of
    both can run side by side, and one stream does for both. Seen as a whole, an assignment is a
    matching in the transitive closure, every edge of which saves a stream. Wanted is a largest one
    among those with as many edges of the minimum equivalent graph as the first matching has (step
    4). A minimum cover tells them: as many ends of edges as the first matching has edges, one or
    both ends of each edge of the minimum equivalent graph. No matching can do more than match each
    with an edge of its own, so that those wanted are the ones that do: they match the whole cover,
    by edges of the minimum equivalent graph with one end in it, and what else they match by edges
    of the closure with none. Augmenting the first matching by such edges unmatches nothing, and
    ends with a largest one.
    """
    reachable = descendants(successors)
    reduced = minimum_equivalent(successors, reachable)
    first = maximum_matching(reduced)
    second = maximum_matching(_without_more_waits(reduced, reachable, first), first)
    return Assignment(
        stream_of=_chains(second),
        streams=second.count(UNMATCHED),
        waits=sum(mask.bit_count() for mask in reduced) - len(first) + first.count(UNMATCHED),
        concurrency=maximum_matching(reachable, second).count(UNMATCHED),
    )


def minimum_equivalent(
    successors: Sequence[Sequence[int]], reachable: Sequence[int]
) -> tuple[int, ...]:
    """For each Unit the mask of its successors that no longer way leads to: the transitive
    reduction, which is unique (Aho, Garey and Ullman 1972).

    ``reachable`` are the ``descendants`` of the DAG, which is given in topological order.
    """
    reduced = []
    for after in successors:
        kept = implied = 0
        for successor in sorted(after):  # a longer way begins at an earlier successor
            if not implied >> successor & 1:
                kept |= 1 << successor
                implied |= reachable[successor]
        reduced.append(kept)
    return tuple(reduced)


def _without_more_waits(
    reduced: Sequence[int], reachable: Sequence[int], first: Sequence[int]
) -> list[int]:
    """For each Unit the mask of those that may follow it on its stream at no cost in waits."""
    left, right = minimum_cover(reduced, first)
    return [
        reduced[unit] & ~right
        if left >> unit & 1
        else reduced[unit] & right | reachable[unit] & ~right
        for unit in range(len(reduced))
    ]


def _chains(next_of: Sequence[int]) -> tuple[int, ...]:
    """For each Unit the number of the chain that ``next_of`` puts it in."""
    chain_of = [UNMATCHED] * len(next_of)
    chains = 0
    for unit, after in enumerate(next_of):
        if chain_of[unit] == UNMATCHED:
            chain_of[unit] = chains
            chains += 1
        if after != UNMATCHED:
            chain_of[after] = chain_of[unit]
    return tuple(chain_of)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
