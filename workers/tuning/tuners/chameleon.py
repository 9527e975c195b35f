"""Chameleon's tuner: an agent explores against the cost model, and clusters of what it visited say
what is measured (Ahn et al., "Chameleon: Adaptive Code Optimization for Expedited Deep Neural
Network Compilation", ICLR 2020, Section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.cluster.vq import kmeans2

from workers.tuning.points import Point, Points
from workers.tuning.tuner import Candidate
from workers.tuning.tuners.measured import Measured, points_of, ranked, rows
from workers.tuning.tuners.ppo import Agent, Array, Rollout

if TYPE_CHECKING:
    from workers.tuning.space import DesignSpace


@dataclass(frozen=True, slots=True)
class Exploring:
    """The search's parameters: ``rollouts`` per batch of ``agents`` beside each other that take
    ``steps``; the ``trajectory``'s best points are clustered, into ``least`` clusters (the paper's
    8) or as many more as still shrink the loss by the factor ``knee``, whose value the paper does
    not give."""

    rollouts: int = 12
    agents: int = 64
    steps: int = 20
    trajectory: int = 512
    least: int = 8
    knee: float = 1.02


class ChameleonTuner:
    """Proposes fewer candidates than it is asked for where fewer stand for all that it visited:
    saving measurements is what adaptive sampling is for."""

    def __init__(self, space: DesignSpace, seed: int, options: Exploring | None = None) -> None:
        self._space = space
        self._options = options or Exploring()
        self._rng = np.random.default_rng(seed)
        self._measured = Measured(space)
        self._agent = Agent(space.knobs, self._rng)

    def propose(self, count: int) -> list[Candidate]:
        """Random points until something has a latency, then one of each cluster."""
        if not self._measured.known:
            return self._measured.random(self._rng, count)
        trajectory = self._explored()
        found: list[Candidate] = []
        for cluster in self._clusters(trajectory, count):
            found += self._measured.ledger.first(self._synthesised(cluster), 1)
        return found or self._measured.random(self._rng, count)

    def update(self, candidates: Sequence[Candidate], latencies_ms: Sequence[float]) -> None:
        """Learn how fast they are. Raises ValueError for answers that are none."""
        self._measured.update(candidates, latencies_ms)

    def _explored(self) -> Points:
        """Adaptive exploration (Section 4.1): the best points that the agents visited. They learn
        while they go, and half of them start where it is fast, the others anywhere."""
        visited: list[Points] = []
        estimates: list[Array] = []
        for _ in range(self._options.rollouts):
            points = self._starts()
            states, actions, rewards = [], [], []
            for _ in range(self._options.steps):
                states.append(self._state(points))
                actions.append(self._agent.act(states[-1]))
                points = self._space.clipped(points + actions[-1] - 1)
                rewards.append(self._measured.scores(points))
                visited.append(points)
            estimates += rewards
            self._agent.learn(
                Rollout(np.stack(states), np.stack(actions), np.stack(rewards), self._state(points))
            )
        points, _ = ranked(np.concatenate(visited), np.concatenate(estimates))
        return points[: self._options.trajectory]

    def _starts(self) -> Points:
        points = self._space.draw(self._rng, self._options.agents)
        best = self._measured.best(self._options.agents // 2)
        points[: len(best)] = best
        return points

    def _state(self, points: Points) -> Array:
        """Every knob from -1, its first option, to 1, its last."""
        last = np.maximum(self._space.sizes[points[:, 0]] - 1, 1)
        return 2 * points / last - 1

    def _clusters(self, points: Points, count: int) -> Iterator[Points]:
        """Adaptive sampling (Section 4.2, Algorithm 1): the points of each cluster, those nearest
        to its centroid first. Best cluster first, as ``points`` are."""
        features = self._space.features(points).astype(np.float64)
        labels, distances = clustered(
            features, self._options.least, count, self._options.knee, self._rng
        )
        for label in dict.fromkeys(labels.tolist()):
            members = np.flatnonzero(labels == label)
            yield points[members[np.argsort(distances[members], kind="stable")]]

    def _synthesised(self, cluster: Points) -> Iterator[Point]:
        """What stands for a cluster: the point nearest to its centroid, and, if that was proposed
        before, the most frequent option of every knob (sample synthesis), then the next nearest."""
        nearest, *others = points_of(cluster)
        yield nearest
        yield from points_of(self._space.clipped(rows([mode(cluster)])))
        yield from others


def clustered(
    features: Array, least: int, most: int, knee: float, rng: np.random.Generator
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Array]:
    """Each row's cluster, and its distance from the centroid: k-means with as many clusters, from
    ``least`` to ``most``, as are worth it. One more is not if it does not divide the loss, the sum
    of squared distances, by ``knee`` (Algorithm 1)."""
    most = min(most, len(features))
    best = (np.zeros(len(features), np.int64), np.zeros(len(features)))
    previous = np.inf
    for clusters in range(min(least, most), most + 1):
        centroids, labels = kmeans2(features, clusters, iter=10, minit="++", rng=rng)
        distances = np.linalg.norm(features - centroids[labels], axis=1)
        loss = float((distances**2).sum())
        if knee * loss >= previous:
            break
        best, previous = (labels.astype(np.int64), distances), loss
    return best


def mode(points: Points) -> Point:
    """The most frequent option of each knob, the smallest of equally frequent ones."""
    return tuple(int(np.bincount(column).argmax()) for column in points.T)
