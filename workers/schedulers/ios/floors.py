"""How fast a stage that was not measured can be at best.

A floor is admissible if no stage is faster than its floor. A search that takes floors for the
latencies of unmeasured stages then underestimates every schedule, and what it finds with measured
stages alone is optimal.
"""

from __future__ import annotations

import math

import numpy as np

from workers.graph.graph import Graph
from workers.schedulers.ios.options import Options
from workers.schedulers.ios.parts import Part
from workers.schedulers.ios.paths import Latencies


class Floors:
    """The floors of one part's options, raised as measurements come in. In ms."""

    def __init__(self, graph: Graph, part: Part, options: Options) -> None:
        self._part, self._options = part, options
        self._floor = np.zeros(len(options))

    def learn(self, option: int, latency_ms: float) -> None:
        """The option was measured; infinity is a failure, which is final."""
        self._floor[option] = latency_ms

    def of_options(self) -> Latencies:
        """The floor of every option; a measured one's is its latency."""
        return self._floor

    def of_stages(self) -> Latencies:
        """The floor of every stage: the least of its options'; infinity if it has none."""
        floor = np.full(len(self._part.space.stages), math.inf)
        np.minimum.at(floor, self._options.stage, self._floor)
        return floor
