"""The ways in which each stage of a part may be run, of which the search takes the best.

Algorithm 1's GenerateStage (lines 26-36) knows two, concurrent execution and operator merge. On a
CPU there are more: a stage's groups may have different numbers of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from workers.graph.graph import Graph
from workers.schedulers.ios.parts import Part
from workers.schedulers.ios.space import Indices
from workers.schedules.schedule import Stage, Strategy


class Way(NamedTuple):
    """How a stage is run. ``threads`` are those of its groups; empty leaves them to the device."""

    strategy: Strategy = "concurrent"
    threads: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Options:
    """Pairs of a stage and a way to run it, in ascending order of stages, for one stage the plain
    way first. ``stage`` is the index of the stage in the space and ``way`` that of the way in
    ``ways``. A stage may have no option: it cannot be taken then."""

    stage: Indices
    way: Indices
    ways: tuple[Way, ...]

    def __len__(self) -> int:
        return len(self.stage)


def make_options(graph: Graph, part: Part) -> Options:
    """Every stage of the part, concurrently."""
    count = len(part.space.stages)
    return Options(np.arange(count, dtype=np.int32), np.zeros(count, dtype=np.int32), (Way(),))


def stage_of(
    graph: Graph, part: Part, options: Options, option: int, positions: Sequence[int]
) -> Stage:
    """The Stage that an option stands for, at the occurrence of the part at ``positions``."""
    mask = int(part.space.stages[options.stage[option]])
    way = options.ways[options.way[option]]
    stage = part.stage(graph, mask, positions)
    return replace(stage, strategy=way.strategy, threads=way.threads)
