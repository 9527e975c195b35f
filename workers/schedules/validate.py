"""The validator: proves a Plan right before it runs."""

from __future__ import annotations

from workers.graph.graph import Graph
from workers.schedules.plan import Plan


class PlanError(ValueError):
    """A Plan that would compute something else than its graph, or never end."""


def validate(plan: Plan, graph: Graph) -> None:
    """Prove that running ``plan`` computes ``graph``; raises PlanError with the first violation.

    Proved are: every Unit is launched exactly once, on a stream that exists; events are dense,
    recorded once, and recorded by an earlier launch than any that waits for them, so that issue
    order is an order in which no launch waits for ever; every value is computed by one Unit; and
    every Unit starts after the Units it reads from have ended, by stream order and events alone.

    Reads and writes cannot collide beyond that: a Unit writes only its own outputs, and an
    output is read only by Units that are ordered after it.
    """
    position = _launched_once(plan, graph)
    _events_in_order(plan)
    _written_once(graph)
    happened = happened_before(plan)
    for launch, before in zip(plan.launches, happened, strict=True):
        for predecessor in graph.predecessors[graph.index[launch.unit]]:
            name = graph.units[predecessor].name
            if not before >> position[name] & 1:
                raise PlanError(
                    f"unit {launch.unit!r} on stream {launch.stream} may start before unit"
                    f" {name!r} on stream {plan.launches[position[name]].stream}, which it reads,"
                    " has ended; it must wait for an event recorded after it"
                )


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


def happened_before(plan: Plan) -> list[int]:
    """For each launch the set of launches that have ended when it starts, as a bit mask.

    Needs events in order, as ``validate`` proves them.
    """
    last: dict[int, int] = {}
    recorder: dict[int, int] = {}
    happened: list[int] = []
    for number, launch in enumerate(plan.launches):
        sources = [recorder[event] for event in launch.waits]
        if launch.stream in last:
            sources.append(last[launch.stream])
        before = 0
        for source in sources:
            before |= happened[source] | 1 << source
        happened.append(before)
        last[launch.stream] = number
        if launch.records is not None:
            recorder[launch.records] = number
    return happened
