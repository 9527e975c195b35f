"""The validator: proves a Plan right before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from workers.graph.bitsets import bits
from workers.graph.graph import Graph
from workers.schedules.aliases import dependencies
from workers.schedules.buffers import Buffers
from workers.schedules.lifetimes import Lifetime, lifetimes
from workers.schedules.order import happened_before
from workers.schedules.plan import Plan

__all__ = ["PlanError", "happened_before", "validate"]


class PlanError(ValueError):
    """A Plan that would compute something else than its graph, or never end."""


def validate(plan: Plan, graph: Graph, buffers: Buffers | None = None) -> None:
    """Prove that running ``plan`` computes ``graph``; raises PlanError with the first violation.

    Proved are, whatever the speed of each stream and Unit:

    - *Coverage*: every Unit is launched exactly once, on a stream that exists.
    - *Progress*: events are dense, recorded once, and recorded by an earlier launch than any that
      waits for them, so that issue order is an order in which no launch waits for ever.
    - *Order*: every value is computed by one Unit, and every Unit starts after the Units that it
      depends on have ended, by stream order and events alone. It depends on those whose outputs it
      reads and, if Units write in place, on those that stand before it in the graph and use the
      same memory under whatever name.
    - *Memory*, if ``buffers`` are given: every root that Units allocate has a buffer that is large
      enough, and a launch that allocates in a buffer starts after every launch that uses what lay
      there before has ended. Nothing is written over an output of the graph.

    Without ``buffers`` memory needs no proof: what a launch allocates is its own until all that
    reads it has ended.
    """
    position = _launched_once(plan, graph)
    _events_in_order(plan)
    _written_once(graph)
    happened = happened_before(plan)
    needed = dependencies(graph)
    for launch, before in zip(plan.launches, happened, strict=True):
        for predecessor in needed[graph.index[launch.unit]]:
            name = graph.units[predecessor].name
            if not before >> position[name] & 1:
                raise PlanError(
                    f"unit {launch.unit!r} on stream {launch.stream} may start before unit"
                    f" {name!r} on stream {plan.launches[position[name]].stream}, on which it"
                    " depends, has ended; it must wait for an event recorded after it"
                )
    if buffers is not None:
        _no_races(plan, lifetimes(plan, graph), happened, buffers)


def _launched_once(plan: Plan, graph: Graph) -> dict[str, int]:
    """The launch of each Unit."""
    position: dict[str, int] = {}
    for number, launch in enumerate(plan.launches):
        if launch.unit not in graph.index:
            raise PlanError(
                f"launch {number} runs {launch.unit!r}, which graph {graph.name!r} lacks"
            )
        if launch.unit in position:
            raise PlanError(
                f"unit {launch.unit!r} is launched twice, by launches {position[launch.unit]}"
                f" and {number}"
            )
        if not 0 <= launch.stream < len(plan.streams):
            raise PlanError(
                f"launch {number} ({launch.unit!r}) is on stream {launch.stream} of"
                f" {len(plan.streams)}"
            )
        position[launch.unit] = number
    for unit in graph.units:
        if unit.name not in position:
            raise PlanError(f"unit {unit.name!r} is never launched")
    for number, stream in enumerate(plan.streams):
        if stream.threads < 1:
            raise PlanError(f"stream {number} has {stream.threads} threads; it needs one or more")
    return position


def _events_in_order(plan: Plan) -> None:
    recorded: set[int] = set()
    for number, launch in enumerate(plan.launches):
        for event in launch.waits:
            if event not in recorded:
                raise PlanError(
                    f"launch {number} ({launch.unit!r}) waits for event {event}, which no earlier"
                    " launch records"
                )
        if launch.records is not None:
            if launch.records in recorded:
                raise PlanError(
                    f"launch {number} ({launch.unit!r}) records event {launch.records} again"
                )
            recorded.add(launch.records)
    for event in range(len(recorded)):
        if event not in recorded:
            raise PlanError(f"events are not dense: {event} is never recorded")


def _written_once(graph: Graph) -> None:
    writer: dict[str, str] = {}
    for unit in graph.units:
        for name in unit.outputs:
            if name in writer:
                raise PlanError(
                    f"units {writer[name]!r} and {unit.name!r} both write value {name!r}"
                )
            writer[name] = unit.name


def _no_races(
    plan: Plan, lives: Sequence[Lifetime], happened: Sequence[int], buffers: Buffers
) -> None:
    """Who comes after whom in a buffer is told by launch order. It is enough to compare
    neighbours: what uses the earlier has ended when the next is allocated, which is itself among
    the users of the next."""
    tenants: dict[int, list[Lifetime]] = {}
    unknown = set(buffers.buffer_of).difference(life.root for life in lives)
    if unknown:
        raise PlanError(f"value {min(unknown)!r} has a buffer, but no unit allocates it for others")
    for life in lives:
        if life.root not in buffers.buffer_of:
            raise PlanError(f"value {life.root!r} has no buffer")
        number = buffers.buffer_of[life.root]
        if not 0 <= number < len(buffers.sizes):
            raise PlanError(f"value {life.root!r} is in buffer {number} of {len(buffers.sizes)}")
        if buffers.sizes[number] < life.nbytes:
            raise PlanError(
                f"value {life.root!r} has {life.nbytes} bytes, its buffer {number}"
                f" only {buffers.sizes[number]}"
            )
        tenants.setdefault(number, []).append(life)
    for number, held in tenants.items():
        held.sort(key=lambda life: life.maker)
        for life, following in pairwise(held):
            writer = plan.launches[following.maker]
            where = f"value {following.root!r} into buffer {number}"
            if life.returned:
                raise PlanError(
                    f"unit {writer.unit!r} on stream {writer.stream} writes {where}, which holds"
                    f" {life.root!r} for an output of the graph"
                )
            running = life.users & ~happened[following.maker]
            if running >> following.maker & 1:
                raise PlanError(
                    f"unit {writer.unit!r} on stream {writer.stream} writes {where} while it uses"
                    f" {life.root!r} there; give it another buffer"
                )
            if running:
                other = plan.launches[next(bits(running))]
                raise PlanError(
                    f"unit {writer.unit!r} on stream {writer.stream} may write {where} before unit"
                    f" {other.unit!r} on stream {other.stream}, which uses {life.root!r} there, has"
                    " ended; give it another buffer or an event to wait for"
                )
