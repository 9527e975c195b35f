"""The ways in which each stage of a part may be run, of which the search takes the best.

Algorithm 1's GenerateStage (lines 26-36) knows two, concurrent execution and operator merge. On a
CPU there are more: a stage's groups may have different numbers of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workers.graph.bitsets import bits
from workers.graph.graph import Graph
from workers.schedulers.ios.parts import Part
from workers.schedulers.ios.space import Indices, Masks
from workers.schedulers.ios.threads import Counts, allotments, for_one_group
from workers.schedules.mergeable import families, mergeable
from workers.schedules.schedule import Stage, Strategy

Strategies = Literal["both", "parallel", "merge"]
"""The paper's IOS-Both, IOS-Parallel and IOS-Merge (Section 6.1)."""

Threads = Literal["searched", "device"]
"""Whether other threads are tried than those that a device gives to the groups of a stage."""


class Way(NamedTuple):
    """How a stage is run. ``threads`` are those of its groups; empty leaves them to the device."""

    strategy: Strategy = "concurrent"
    threads: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Options:
    """Pairs of a stage and a way to run it, in ascending order of stages, for one stage the plain
    way first. ``stage`` is the index of the stage in the space and ``way`` that of the way in
    ``ways``. A stage may have no option: it cannot be taken then. The device has ``parallelism``
    threads."""

    stage: Indices
    way: Indices
    ways: tuple[Way, ...]
    parallelism: int = 1

    def __len__(self) -> int:
        return len(self.stage)


def make_options(
    graph: Graph,
    part: Part,
    strategies: Strategies = "both",
    parallelism: int = 1,
    threads: Threads = "searched",
) -> Options:
    """Every way in which each stage of the part may be run on a device of ``parallelism`` threads.

    Of one stage the ways without merging come first, and with either those on the device's own
    threads, so that these win where latencies are equal. IOS-Merge "only takes the 'operator merge'
    strategy": a stage is one Unit or a merge of several, and one whose Units cannot be merged has
    no option.
    """
    stages = part.space.stages
    every = np.arange(len(stages), dtype=np.int32)
    concurrent = every[np.bitwise_count(stages) == 1] if strategies == "merge" else every
    merged = every[:0] if strategies == "parallel" else every[mergeable_stages(graph, part)]
    searched = threads == "searched" and parallelism > 1
    found = [_one_way(Way(), concurrent)]
    if searched:
        found += _with_threads(graph, part, concurrent, parallelism)
    found.append(_one_way(Way("merge"), merged))
    if searched:
        found += [_one_way(Way("merge", (own,)), merged) for own in for_one_group(parallelism)]
    return replace(_together(found), parallelism=parallelism)


def _one_way(way: Way, stages: Indices) -> Options:
    return Options(stages, np.zeros_like(stages), (way,))


def _together(found: Sequence[Options]) -> Options:
    """All of several Options, of which no two have a way in common."""
    before = np.cumsum([0, *(len(some.ways) for some in found)]).tolist()
    stage = np.concatenate([some.stage for some in found])
    way = np.concatenate([some.way + first for some, first in zip(found, before, strict=False)])
    order = np.lexsort((way, stage))
    ways = tuple(way for some in found for way in some.ways)
    return Options(stage[order], way[order], ways)


def mergeable_stages(graph: Graph, part: Part) -> NDArray[np.bool_]:
    """Which stages can be merged. Only sets within one family can, and of those with the same
    frames one is tried for all."""
    stages = part.space.stages
    names = [graph.units[position].name for position in part.occurrences[0]]
    bit = {name: np.uint64(1 << unit) for unit, name in enumerate(names)}
    found = np.zeros(len(stages), dtype=bool)
    for family in families(graph, names):
        frames = [np.bitwise_or.reduce([bit[name] for name in units]) for units in family]
        outside = ~np.bitwise_or.reduce(frames)
        inside = np.flatnonzero((stages & outside == 0) & (np.bitwise_count(stages) > 1))
        present = np.zeros(len(inside), dtype=np.uint64)
        for number, frame in enumerate(frames):
            present |= (stages[inside] & frame != 0).astype(np.uint64) << np.uint64(number)
        _, example, kind = np.unique(present, return_index=True, return_inverse=True)
        can = [
            mergeable(graph, [names[unit] for unit in bits(int(stages[inside[first]]))]) is None
            for first in example
        ]
        found[inside] = np.array(can, dtype=bool)[kind]
    return found


def _with_threads(graph: Graph, part: Part, stages: Indices, parallelism: int) -> Iterator[Options]:
    """Which of ``stages`` may be run with which threads other than the device's own."""
    groups = part.groups
    units = [graph.units[position] for position in part.occurrences[0]]
    flops = _sums(groups.masks, [unit.flops for unit in units])
    bytes_moved = _sums(groups.masks, [unit.bytes_moved for unit in units])
    counts = groups.count[stages]
    for count in np.unique(counts[counts < parallelism]).tolist():
        chosen = stages[counts == count]
        own = groups.of_stage[chosen, :count]
        found = allotments(flops[own], bytes_moved[own], parallelism)
        other = (found != max(1, parallelism // count)).any(axis=2)
        stage = np.broadcast_to(chosen, other.shape)[other]
        ways, way = _distinct(found[other], parallelism)
        pairs = np.unique(stage.astype(np.int64) * len(ways) + way)
        yield Options(
            (pairs // len(ways)).astype(np.int32),
            (pairs % len(ways)).astype(np.int32),
            tuple(Way(threads=tuple(threads)) for threads in ways.tolist()),
        )


def _distinct(rows: Counts, largest: int) -> tuple[Counts, Counts]:
    """The distinct rows in ascending order, and the number among them of each row."""
    number = first = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        joined = number * (largest + 1) + column
        _, first, number = np.unique(joined, return_index=True, return_inverse=True)
    return rows[first], number


def _sums(masks: Masks, values: Sequence[int]) -> Counts:
    """For each set of Units the sum of their values."""
    total = np.zeros(len(masks), dtype=np.int64)
    for unit, value in enumerate(values):
        total[masks >> np.uint64(unit) & np.uint64(1) == 1] += value
    return total


def stage_of(
    graph: Graph, part: Part, options: Options, option: int, positions: Sequence[int]
) -> Stage:
    """The Stage that an option stands for, at the occurrence of the part at ``positions``."""
    mask = int(part.space.stages[options.stage[option]])
    way = options.ways[options.way[option]]
    stage = part.stage(graph, mask, positions)
    return replace(stage, strategy=way.strategy, threads=way.threads)
