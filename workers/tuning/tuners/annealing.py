"""AutoTVM's tuner: simulated annealing against a model that ranks (Chen et al., "Learning to
Optimize Tensor Programs", NeurIPS 2018, Sections 3 and 4, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workers.tuning.points import Points, PointSpace
from workers.tuning.tuner import Candidate
from workers.tuning.tuners.measured import Measured, points_of, ranked
from workers.tuning.tuners.model import Scores

if TYPE_CHECKING:
    from workers.tuning.space import DesignSpace


Positions = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Annealing:
    """The search's parameters. ``chains`` Markov chains run for ``steps`` while the temperature
    falls from ``temperature`` to 0 in the model's scores (the published code's 128, 500 and 1; 250
    steps here find as much in half the time). A share ``epsilon`` of a batch is random (0.05). Of
    the ``pool`` · batch best points those are taken that add up to the highest score and the most
    different options, ``diversity`` each for a score range of 1 (Eq. 3, λ and α; the paper gives
    neither's value)."""

    chains: int = 128
    steps: int = 250
    temperature: float = 1.0
    epsilon: float = 0.05
    pool: int = 3
    diversity: float = 0.02


_PATIENCE = 16
"""How many times a batch's points are tried before the rest of a batch is random."""


class AnnealingTuner:
    """Proposes the points that the model takes for the fastest of those that its chains visit."""

    def __init__(self, space: DesignSpace, seed: int, options: Annealing | None = None) -> None:
        self._space = space
        self._options = options or Annealing()
        self._rng = np.random.default_rng(seed)
        self._measured = Measured(space)
        # The chains go on where they were when the model is trained anew (Section 4).
        self._chains = space.draw(self._rng, self._options.chains)

    def propose(self, count: int) -> list[Candidate]:
        """Random points until something has a latency, then what the chains find."""
        if not self._measured.known:
            return self._measured.random(self._rng, count)
        found = self._measured.ledger.first(
            points_of(self._chosen(count)), count - int(self._options.epsilon * count)
        )
        return found + self._measured.random(self._rng, count - len(found))

    def update(self, candidates: Sequence[Candidate], latencies_ms: Sequence[float]) -> None:
        """Learn how fast they are. Raises ValueError for answers that are none."""
        self._measured.update(candidates, latencies_ms)

    def _chosen(self, count: int) -> Points:
        """Points to propose, best first: as many as stay if postprocessors refuse some."""
        visited, scores = self._visited()
        new = [not self._measured.ledger.tried(point) for point in points_of(visited)]
        points, scores = visited[new][: _PATIENCE * count], scores[new][: _PATIENCE * count]
        pool = self._options.pool * count
        first = diverse(points[:pool], scores[:pool], count, self._options.diversity)
        others = np.setdiff1d(np.arange(len(points)), first)
        return np.asarray(points[np.concatenate([first, others])])

    def _visited(self) -> tuple[Points, Scores]:
        """Anneal, and give everything that was visited, best first."""
        points = self._chains
        scores = self._measured.scores(points)
        visited, seen = [points], [scores]
        for temperature in np.linspace(
            self._options.temperature, 0, self._options.steps, endpoint=False
        ):
            moved = mutated(self._space, points, self._rng)
            estimated = self._measured.scores(moved)
            gain = np.minimum((estimated - scores) / temperature, 0)
            accepted = self._rng.random(len(points)) < np.exp(gain)
            points = np.where(accepted[:, None], moved, points)
            scores = np.where(accepted, estimated, scores)
            visited.append(moved)
            seen.append(estimated)
        self._chains = points
        return ranked(np.concatenate(visited), np.concatenate(seen))


def mutated(space: PointSpace, points: Points, rng: np.random.Generator) -> Points:
    """Each point with one knob, which may be the sketch, set to another option at random."""
    sizes = space.sizes[points[:, 0]]
    knob = np.argmax(rng.random(points.shape) * (sizes > 1), axis=1)
    at = np.arange(len(points))
    size = sizes[at, knob]
    moved = points.copy()
    moved[at, knob] = (points[at, knob] + rng.integers(1, np.maximum(size, 2))) % size
    return space.clipped(moved)


def diverse(points: Points, scores: Scores, count: int, weight: float) -> Positions:
    """Which of ``points`` to take: greedily the one that adds most to the sum of the scores, taken
    to 0 … 1, plus ``weight`` for every option that none before it has (Chen et al., Eq. 3, the
    greedy maximisation of a submodular function)."""
    if not len(points):
        return np.zeros(0, np.int64)
    value = (scores - scores.min()) / (np.ptp(scores) or 1.0)
    left = np.ones(len(points), bool)
    new = np.ones(points.shape, bool)
    chosen: list[int] = []
    for _ in range(min(count, len(points))):
        best = int(np.argmax(np.where(left, value + weight * new.sum(axis=1), -np.inf)))
        chosen.append(best)
        left[best] = False
        new &= points != points[best]
    return np.asarray(chosen, np.int64)
