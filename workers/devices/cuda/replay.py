"""Whose each kernel of a CUDA Graph's replay is. Pure.

A graph's launch gives all its kernels one correlation id, so the ids do not tell them apart as they
do for kernels launched one by one. What is known is what each Unit launched then, in what order
the Plan runs Units, and of each record its kernel, its times and its stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.devices.cuda.trace import Record
from workers.schedules.plan import Plan

_MOST_STEPS = 200_000

_ROUNDING_US = 0.01
"""A kernel's start and duration in the trace are whole ns, their sum is rounded."""

_OVERLAP_US = 2.0
"""By how much a kernel may be recorded to start before another ends that it waits for: one that is
launched programmatically, as cuBLAS's can be on Hopper, starts while the one before drains."""

Owned = tuple[tuple[str, Record], ...]
"""Units' names, each with one of its records."""


def match_replay(plan: Plan, launched: Owned, replayed: Sequence[Record]) -> Owned | str:
    """Each record of a replay with its Unit, given what the Units launched outside of a graph, in
    launch order; or in words why that cannot be told."""
    if len(replayed) != len(launched):
        return f"the graph ran {len(replayed)} kernels and copies, its launches {len(launched)}"
    if any(record.node is None for record in replayed):
        return _by_order(plan, launched, replayed)
    numbered = _by_number(launched, replayed)
    if not isinstance(numbered, str) and _in_order(plan, numbered):
        return numbered
    # Nothing promises that an instantiated graph keeps the numbers of the capture.
    ordered = _by_order(plan, launched, replayed)
    return numbered if isinstance(numbered, str) and isinstance(ordered, str) else ordered


def _by_number(launched: Owned, replayed: Sequence[Record]) -> Owned | str:
    """If a graph's nodes are numbered as they were captured, in the order of the launches, the
    n-th node is the n-th launch, and both must be the same kernel."""
    nodes = sorted(replayed, key=lambda record: record.node or 0)
    for (unit, apart), node in zip(launched, nodes, strict=True):
        if _kind(apart) != _kind(node):
            return f"unit {unit!r} launched {apart.name!r}, the graph has {node.name!r} there"
    return tuple((unit, node) for (unit, _), node in zip(launched, nodes, strict=True))


def _by_order(plan: Plan, launched: Owned, replayed: Sequence[Record]) -> Owned | str:
    """Without numbers: every record to a Unit whose next kernel it can be, so that a Unit's kernels
    come in order and all that the Plan puts before it has ended. Units with the same kernels that
    run side by side can be taken for each other, which changes no figure but their names."""
    records = sorted(replayed, key=lambda record: record.start_us)
    for slack in (_ROUNDING_US, _OVERLAP_US):
        found = _Search(plan, launched, records, slack).run()
        if found is not None:
            return tuple(
                (plan.launches[number].unit, record)
                for number, record in zip(found, records, strict=True)
            )
    return f"its kernels fit the Plan's order in no way that {_MOST_STEPS} steps found"


def _in_order(plan: Plan, owned: Owned) -> bool:
    """Whether every launch starts when all that the Plan puts before it is over."""
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    for unit, record in owned:
        starts[unit] = min(starts.get(unit, record.start_us), record.start_us)
        ends[unit] = max(ends.get(unit, record.end_us), record.end_us)
    units = [launch.unit for launch in plan.launches]
    needs = _needs(plan, [unit in starts for unit in units])
    return all(
        ends[units[before]] <= starts[unit] + _OVERLAP_US
        for unit, own in zip(units, needs, strict=True)
        if unit in starts
        for before in own
    )


class _Search:
    """Depth first, over the records by start time. Of several launches that a record can belong to,
    first the one whose stream was last seen on the record's own stream, then the one issued first.
    """

    def __init__(
        self, plan: Plan, launched: Owned, records: Sequence[Record], slack: float
    ) -> None:
        self.records, self._slack = records, slack
        self._streams = [launch.stream for launch in plan.launches]
        position = {launch.unit: number for number, launch in enumerate(plan.launches)}
        self._kinds: list[list[object]] = [[] for _ in plan.launches]
        for unit, record in launched:
            self._kinds[position[unit]].append(_kind(record))
        self._needs = _needs(plan, [bool(kinds) for kinds in self._kinds])
        self._next = [0] * len(plan.launches)
        self._until = [0.0] * len(plan.launches)
        # The device's stream on which each of the Plan's was seen last.
        self._home: dict[int, int | None] = {}

    def run(self) -> list[int] | None:
        """For each record its launch; None if none was found in time."""
        chosen: list[int] = []
        undo: list[tuple[float, int | None]] = []
        options = [self._options(0)]
        for _ in range(_MOST_STEPS):
            if len(chosen) == len(self.records):
                return chosen
            if options[-1]:
                number, record = options[-1].pop(0), self.records[len(chosen)]
                stream = self._streams[number]
                undo.append((self._until[number], self._home.get(stream)))
                self._next[number] += 1
                self._until[number] = max(self._until[number], record.end_us)
                self._home[stream] = record.stream
                chosen.append(number)
                options.append(self._options(len(chosen)))
            elif chosen:
                options.pop()
                number = chosen.pop()
                self._next[number] -= 1
                self._until[number], self._home[self._streams[number]] = undo.pop()
            else:
                return None
        return None

    def _options(self, at: int) -> list[int]:
        if at == len(self.records):
            return []
        record = self.records[at]
        kind = _kind(record)
        fitting = [
            number
            for number, kinds in enumerate(self._kinds)
            if self._next[number] < len(kinds)
            and kinds[self._next[number]] == kind
            and self._until[number] <= record.start_us + self._slack
            and all(self._over(before, record.start_us) for before in self._needs[number])
        ]
        return sorted(fitting, key=lambda n: (self._home.get(self._streams[n]) != record.stream, n))

    def _over(self, number: int, time: float) -> bool:
        done = self._next[number] == len(self._kinds[number])
        return done and self._until[number] <= time + self._slack


def _needs(plan: Plan, has_kernels: Sequence[bool]) -> list[set[int]]:
    """For each launch those with kernels that must be over when it starts: the ones right before
    it on its stream and by events, or right before such a one without kernels, and so on."""
    recorder: dict[int, int] = {}
    last: dict[int, int] = {}
    needs: list[set[int]] = []
    for number, launch in enumerate(plan.launches):
        before = {recorder[event] for event in launch.waits}
        if launch.stream in last:
            before.add(last[launch.stream])
        needs.append(set().union(*({b} if has_kernels[b] else needs[b] for b in before)))
        last[launch.stream] = number
        if launch.records is not None:
            recorder[launch.records] = number
    return needs


def _kind(record: Record) -> tuple[object, ...]:
    """What two launches of the same kernel have in common; copies and fills have other names in a
    graph."""
    if record.category != "kernel":
        return (record.category,)
    return (record.name, record.grid, record.block)
