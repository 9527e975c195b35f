"""A device on which the assumptions of exact search hold."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from workers.graph.graph import Graph
from workers.schedules.schedule import Stage

_TIMES = (12, 12, 7, 5, 4)
"""How long work takes on so many threads; more threads are never slower."""


class SharedDevice:
    """Latencies of stages, in whole ms so that no order of additions makes two sums differ.

    A stage takes a fixed time, and as long as its longest group or as all its work together, which
    is no more than a group alone takes and grows with the number of groups; and then for every two
    Units that disturb each other from different groups. A merged stage takes as long as its slowest
    Unit and a bit for each. Units, what they share and how groups crowd the device are drawn at
    random.
    """

    def __init__(self, seed: int, graph: Graph, parallelism: int = 1) -> None:
        draw = random.Random(seed)
        names = [unit.name for unit in graph.units]
        self._parallelism = parallelism
        self._fixed = draw.randrange(0, 40)
        self._time = {name: draw.randrange(1, 30) for name in names}
        self._part = {name: draw.choice((0, 1, 2, 4)) for name in names}  # of four
        crowding = [0, 0, *(draw.choice((0, 0, 1, 3)) for _ in names)]
        self._crowding = [sum(crowding[: count + 1]) for count in range(len(names) + 1)]
        self._merged = {name: draw.randrange(0, 12) for name in names}
        self._disturbed: Mapping[frozenset[str], int] = {
            frozenset((one, other)): draw.choice((0, 0, 0, 5, 40))
            for one in names
            for other in names
        }

    def __call__(self, stage: Stage) -> float:
        return float(self._merge(stage) if stage.strategy == "merge" else self._share(stage))

    def _share(self, stage: Stage) -> int:
        own = (max(1, self._parallelism // len(stage.groups)),) * len(stage.groups)
        threads = stage.threads or own
        longest = max(
            4 * sum(self._time[name] for name in group) * self._paces(threads)[number]
            for number, group in enumerate(stage.groups)
        )
        work = sum(self._time[name] * self._part[name] for name in stage.units)
        (least,) = self._paces([self._parallelism])
        crowded = work * (least + self._crowding[len(stage.groups)])
        return 48 * self._fixed + max(longest, crowded) + self._disturbance(stage.groups)

    def _merge(self, stage: Stage) -> int:
        slowest = max(self._time[name] for name in stage.units)
        added = sum(self._merged[name] for name in stage.units)
        return 48 * (self._fixed + slowest + added)

    def _disturbance(self, groups: Sequence[Sequence[str]]) -> int:
        return 48 * sum(
            self._disturbed[frozenset((one, other))]
            for number, group in enumerate(groups)
            for before in groups[:number]
            for one in group
            for other in before
        )

    @staticmethod
    def _paces(threads: Sequence[int]) -> list[int]:
        return [_TIMES[min(count, len(_TIMES) - 1)] for count in threads]
