"""What a model of contention knows of a part before it is fitted: its stages' groups, how options
run them, and how long Units take alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from workers.graph.bitsets import bits
from workers.graph.graph import Unit
from workers.graph.operators import is_kernel_free
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.options import Options
from workers.schedulers.ios.space import Indices
from workers.schedulers.ios.stage_groups import Groups

Floats = NDArray[np.float64]

LEAST_MS = 1e-9
"""A clock may be too coarse for what it times; a model of ratios needs something above 0."""

PLAIN, MERGED, OTHER_THREADS = range(3)
"""Kinds of options: concurrent as the device does it, merged, concurrent with other threads."""


@dataclass(frozen=True, eq=False)
class PartFacts:
    """What is known of one part beforehand.

    ``alone[v, u]`` is the latency in ms of Unit ``u`` by itself with threads of variant ``v``, of
    which 0 is all that the device has. Option ``i`` runs stage ``stage[i]`` in the way
    ``kind[i]``; its ``j``-th group has threads of variant ``variant[i, j]``, or where there is no
    ``variant``, of 0.
    """

    units: tuple[Unit, ...]
    alone: Floats
    groups: Groups
    stage: Indices
    kind: NDArray[np.int8]
    variant: NDArray[np.int16] | None = None

    @cached_property
    def members(self) -> Floats:
        """1 where a group (row; the last is empty) has a Unit (column)."""
        numbers = np.arange(len(self.units), dtype=np.uint64)
        return (self.groups.masks[:, None] >> numbers & np.uint64(1)).astype(np.float64)

    @cached_property
    def of_several(self) -> NDArray[np.bool_]:
        """Which options run several Units."""
        several: NDArray[np.bool_] = self.groups.units.sum(axis=0)[self.stage] > 1
        return several

    @cached_property
    def launches(self) -> Floats:
        """How many operators that may launch a kernel each Unit has."""
        counts = [
            sum(not is_kernel_free(operator.target) for operator in unit.operators)
            for unit in self.units
        ]
        return np.array(counts, dtype=np.float64)


def facts_of(known: Knowledge) -> PartFacts:
    """The facts of a part of which all single Units were measured, unless they failed."""
    options, groups = known.options, known.part.groups
    kinds = [
        MERGED if way.strategy == "merge" else OTHER_THREADS if way.threads else PLAIN
        for way in options.ways
    ]
    counts, variant = np.array([options.parallelism]), None
    if any(way.threads for way in options.ways):
        threads = _threads(options, groups)
        counts = np.unique(np.append(threads, counts))[::-1]  # the device's own first
        variant = np.searchsorted(-counts, -threads).astype(np.int16)
    return PartFacts(
        units=tuple(known.graph.units[position] for position in known.part.occurrences[0]),
        alone=_alone(known, counts),
        groups=groups,
        stage=options.stage,
        kind=np.array(kinds, dtype=np.int8)[options.way],
        variant=variant,
    )


def _threads(options: Options, groups: Groups) -> NDArray[np.int64]:
    """How many threads each group of each option has. Of a merged stage, the first group has those
    of all; what is said of groups that a stage does not have means nothing."""
    width, parallelism = groups.of_stage.shape[1], options.parallelism
    of_way = np.array([_padded(way.threads, width) for way in options.ways])[options.way]
    merged = np.array([way.strategy == "merge" for way in options.ways])[options.way]
    concurrent = np.where(merged, 1, groups.count[options.stage])
    own = np.maximum(1, parallelism // concurrent)
    return np.where(of_way == 0, own[:, None], of_way)


def _padded(threads: Sequence[int], width: int) -> tuple[int, ...]:
    return (*threads, *(0,) * (width - len(threads)))


def _alone(known: Knowledge, counts: NDArray[np.int64]) -> Floats:
    """The latency of every Unit (column) by itself with so many threads (row). Between those that
    were measured it is taken to be linear in the time of work that threads share evenly; a Unit of
    which nothing was measured, to be typical."""
    space, options = known.part.space, known.options
    seen: list[dict[float, float]] = [{} for _ in range(space.units)]
    for option in np.flatnonzero(np.bitwise_count(space.stages[options.stage]) == 1):
        way, latency = options.ways[options.way[option]], known.latencies[option]
        if way.strategy == "concurrent" and math.isfinite(latency):
            unit = next(bits(int(space.stages[options.stage[option]])))
            threads = way.threads[0] if way.threads else options.parallelism
            seen[unit][1 / threads] = max(float(latency), LEAST_MS)
    typical = float(np.median([min(points.values()) for points in seen if points] or [1.0]))
    alone = np.full((len(counts), space.units), typical)
    for unit, points in enumerate(seen):
        if points:
            fractions, latencies = np.array(sorted(points.items())).T
            alone[:, unit] = np.interp(1 / counts, fractions, latencies)
    return alone
