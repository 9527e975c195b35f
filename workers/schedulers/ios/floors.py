"""How fast a stage that was not measured can be at best.

A floor is admissible if no stage is faster than its floor. A search that takes floors for the
latencies of unmeasured stages then underestimates every schedule, and what it finds with measured
stages alone is optimal. The floors here follow from latencies that were measured and from two
assumptions on the device:

- *Less is no slower*: a stage that loses one of its groups, or a Unit whose group stays connected,
  is not slower than before. Hence a stage takes as long as its longest group alone, as any two of
  its groups, and so on. Of merged stages the same is assumed among each other, and that none is
  faster than one of its Units alone.
- *Chains add up*: the Units of a group run one after the other. So a group takes as long as its
  Units alone, or as a part of it and another, but for what every measurement takes whatever is
  measured, which is at most the latency c of the fastest Unit: L(ab) ≥ L(a) + L(b) - c.

Both speak of the fastest way to run a stage, merged or not, whatever its threads. A stage says
nothing of larger ones beyond its own floor before all ways to run it were measured. Where threads
are divided among groups, a stage without one Unit may not have the division that suited it; it
then has to lose whole groups, which leaves the others at least as many threads.

Work over the device's peak is no part of this. On a simulated V100 at batch 1 the FLOPs of a stage
of NASNet-A-Large take about 6 % of its latency at the peak, and its bytes 11 % at full bandwidth,
but its longest group 60 %: such a floor is hardly ever the highest. And it need not hold, where
a convolution is computed with fewer FLOPs (Winograd) or a cache keeps what a Unit reads.

Measurements may contradict the assumptions: they scatter, and where a GPU hands out blocks as it
goes, two groups can be in each other's way that a third one keeps apart (on a simulated V100, two
convolutions of Inception-v3 take half as long with a pooling beside them). Three things follow. A
stage that a larger one was faster than vouches for no more than the larger one's latency. What was
contradicted is counted. And there are two lower floors than those of both assumptions: ``doubted``
ones are as far below as the worst contradiction was, and those of ``of_longest_groups`` follow from
groups alone, of which no stage of the four networks of IOS on a simulated V100 was faster.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from workers.graph.graph import Graph
from workers.schedulers.ios.options import Options
from workers.schedulers.ios.parts import Part
from workers.schedulers.ios.paths import Latencies
from workers.schedulers.ios.space import Space
from workers.schedulers.ios.stage_groups import Groups
from workers.schedulers.ios.substages import substages

_ROUNDING = 1e-9
"""Relative difference by which floors that add and subtract latencies may be off."""


class Floors:
    """The floors of one part's options, raised as measurements come in. In ms.

    Floors fall only where measurements contradict the assumptions.
    """

    def __init__(self, graph: Graph, part: Part, options: Options) -> None:
        self._part, self._groups, self._options = part, part.groups, options
        merged = np.array([way.strategy == "merge" for way in options.ways])[options.way]
        self._kinds = [kind for kind in (~merged, merged) if kind.any()]
        self._latency = np.full(len(options), math.nan)
        self._floor = np.zeros(len(options))
        self._contradicted = np.zeros(len(part.space.stages))
        self._stale = False

    def learn(self, option: int, latency_ms: float) -> None:
        """The option was measured; infinity is a failure, which is final and says nothing of other
        stages."""
        self._latency[option] = self._floor[option] = latency_ms
        self._stale = True

    @property
    def violations(self) -> int:
        """How many measured stages are slower than a larger one, or faster than their parts add up
        to."""
        return int((self._contradictions() > 0).sum())

    @property
    def worst(self) -> float:
        """Of the violations, the largest difference as a part of the larger latency."""
        return float(self._contradictions().max(initial=0.0))

    @property
    def groups_hold(self) -> bool:
        """Whether no group alone was slower than a stage with it, or faster than its Units."""
        return not (self._contradictions()[self._groups.count == 1] > 0).any()

    def of_options(self) -> Latencies:
        """The floor of every option; a measured one's is its latency."""
        if self._stale:
            self._update()
            self._stale = False
        return self._floor

    def of_stages(self) -> Latencies:
        """The floor of every stage: the least of its options'; infinity if it has none."""
        return self._least(self.of_options(), np.ones(len(self._options), dtype=bool))

    def of_longest_groups(self) -> Latencies:
        """The floor that the longest group alone gives each stage; a stage of which everything
        was measured has its latency."""
        longest = np.append(self.of_stages()[self._alone], 0.0)[self._groups.of_stage].max(axis=1)
        fastest = self._least(self._latency, np.isfinite(self._latency))
        settled = ~self._have(np.isnan(self._latency))
        return np.where(settled, fastest, np.minimum(fastest, longest))

    def doubted(self) -> Latencies:
        """The floor of every stage if what was not measured contradicts the assumptions as much as
        the worst that was; none is below that of the longest group."""
        floor, open_ended = self.of_stages(), self._have(np.isnan(self._latency))
        floor[open_ended] *= 1 - self.worst
        return np.where(open_ended, np.maximum(floor, self.of_longest_groups()), floor)

    def of_groups(self) -> Latencies:
        """The floors of the groups' ``masks``; minus infinity for the last one, which is empty."""
        return np.append(self.of_stages()[self._alone], -math.inf)

    @cached_property
    def _alone(self) -> NDArray[np.int64]:
        return np.searchsorted(self._part.space.stages, self._groups.masks[:-1])

    @cached_property
    def _bounds(self) -> Bounds:
        divides_threads = any(len(way.threads) > 1 for way in self._options.ways)
        return Bounds(self._part.space, self._groups, units=not divides_threads)

    def _contradictions(self) -> Latencies:
        self.of_options()
        return self._contradicted

    def _update(self) -> None:
        """Concurrent and merged stages are bounded each by their own; groups, one or the other."""
        unmeasured = np.isnan(self._latency)
        measured = np.isfinite(self._latency)
        fastest = [self._least(self._latency, kind & measured) for kind in self._kinds]
        left = [self._have(kind & unmeasured) for kind in self._kinds]
        one_group = self._groups.count == 1
        fastest_of_any, left_of_any = np.minimum.reduce(fastest), np.logical_or.reduce(left)
        self._contradicted = np.zeros(len(one_group))
        for kind, own, unmeasured_left in zip(self._kinds, fastest, left, strict=True):
            bound, contradicted = self._bounds.of_stages(
                np.where(one_group, fastest_of_any, own),
                np.where(one_group, left_of_any, unmeasured_left),
            )
            np.maximum(self._contradicted, contradicted, out=self._contradicted)
            chosen = kind & unmeasured
            self._floor[chosen] = bound[self._options.stage[chosen]]

    def _least(self, latencies: Latencies, chosen: NDArray[np.bool_]) -> Latencies:
        """For every stage the least of its chosen options'; infinity if there is none."""
        least = np.full(len(self._part.space.stages), math.inf)
        np.minimum.at(least, self._options.stage[chosen], latencies[chosen])
        return least

    def _have(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which stages have a chosen option."""
        stages = self._options.stage[chosen]
        return np.bincount(stages, minlength=len(self._part.space.stages)) > 0


class Bounds:
    """What follows for all stages of a space from those that were measured, by both assumptions;
    without ``units`` stages of several groups lose only whole groups."""

    def __init__(self, space: Space, groups: Groups, units: bool = True) -> None:
        self._pairs = substages(space, groups, units)
        self._single = np.flatnonzero(np.bitwise_count(space.stages) == 1)
        self._one_group = np.flatnonzero(groups.count == 1)
        self._has_unit = space.stages[self._one_group, None] & space.stages[self._single] != 0

    def of_stages(
        self, fastest: Latencies, unmeasured_left: NDArray[np.bool_]
    ) -> tuple[Latencies, Latencies]:
        """A latency that no way to run a stage is below, for every stage, from smaller ones; and by
        which part of the larger latency a stage that was measured in all ways is slower than a
        larger one, or faster than this.

        ``fastest`` is the least measured latency of each stage, infinite without one;
        ``unmeasured_left`` says whether the stage has ways that were not measured.
        """
        vouched = self._vouched(fastest)
        open_ended = unmeasured_left | np.isinf(fastest)
        least = np.where(open_ended, 0.0, vouched)
        alone = least[self._single]
        common = float(alone.min(where=alone > 0, initial=math.inf))
        bound = np.zeros(len(fastest))
        if math.isfinite(common):
            beyond = np.where(alone > 0, alone - common, 0.0)
            some = self._has_unit @ (alone > 0)
            bound[self._one_group] = np.where(some, self._has_unit @ beyond + common, 0.0)
            bound[self._single] = 0.0
            least = np.where(open_ended, np.minimum(vouched, bound), vouched)
        for begin, end, starts in self._pairs.layered():
            left, wholes = self._pairs.left[begin:end], self._pairs.whole[starts]
            bound[wholes] = np.maximum(
                bound[wholes], np.maximum.reduceat(least[left], starts - begin)
            )
            chained, unit = self._pairs.chained(begin, end)
            np.maximum.at(
                bound,
                self._pairs.whole[chained],
                least[self._pairs.left[chained]] + np.maximum(least[unit] - common, 0.0),
            )
            least[wholes] = np.where(
                open_ended[wholes], np.minimum(vouched[wholes], bound[wholes]), vouched[wholes]
            )
        return bound, np.where(open_ended, 0.0, _difference(vouched, fastest, bound))

    def _vouched(self, fastest: Latencies) -> Latencies:
        """The least latency of each stage and of all that contain it."""
        vouched = fastest.copy()
        for begin, end, _ in reversed(list(self._pairs.layered())):
            np.minimum.at(
                vouched, self._pairs.left[begin:end], vouched[self._pairs.whole[begin:end]]
            )
        return vouched


def _difference(vouched: Latencies, fastest: Latencies, bound: Latencies) -> Latencies:
    """How far the three are from ascending to the second and then descending."""
    least, most = np.minimum(vouched, fastest), np.maximum(bound, fastest)
    part = 1 - np.divide(least, most, out=np.ones_like(most), where=np.isfinite(most) & (most > 0))
    return np.where(part > _ROUNDING, part, 0.0)
