"""What the tuners with a cost model share: the points that were answered, and the model of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workers.tuning.points import Point, Points
from workers.tuning.tuner import Candidate
from workers.tuning.tuners.ledger import Ledger
from workers.tuning.tuners.model import RankModel, Scores

if TYPE_CHECKING:
    from workers.tuning.space import DesignSpace


class Measured:
    """The answers of a search, with a model that is trained on them when it is next asked.

    Points that the target's postprocessors refused count as failures, so that the model learns to
    keep away from them: AutoTVM measures such configurations and is told of an error.
    """

    def __init__(self, space: DesignSpace) -> None:
        self.space = space
        self.ledger = Ledger(space)
        self._latencies: dict[Point, float] = {}
        self._model = RankModel()
        self._fitted = 0

    def update(self, candidates: Sequence[Candidate], latencies_ms: Sequence[float]) -> None:
        """Take answers. Raises ValueError for answers that are none."""
        points = self.ledger.points(candidates, latencies_ms)
        self._latencies.update(zip(points, latencies_ms, strict=True))

    @property
    def known(self) -> bool:
        """Whether the model can tell points apart; trains it if there is something new."""
        known = len(self._latencies) + len(self.ledger.refused)
        if known != self._fitted:
            points = rows([*self._latencies, *self.ledger.refused])
            latencies = np.full(known, np.inf)
            latencies[: len(self._latencies)] = list(self._latencies.values())
            self._model.fit(self.space.features(points), latencies)
            self._fitted = known
        return self._model.trained

    def scores(self, points: Points) -> Scores:
        """The higher, the faster they are estimated to be."""
        return self._model.predict(self.space.features(points))

    def best(self, count: int) -> Points:
        """The fastest points so far, best first; fewer if fewer have a latency."""
        finite = [point for point, latency in self._latencies.items() if np.isfinite(latency)]
        finite.sort(key=self._latencies.__getitem__)
        return rows(finite[:count]) if finite else np.zeros((0, self.space.knobs), np.int64)

    def random(self, rng: np.random.Generator, count: int) -> list[Candidate]:
        """Propose so many points at random; what chance does not find is taken in order."""
        found: list[Candidate] = []
        for _ in range(_DRAWS):
            if len(found) < count:
                found += self.ledger.first(
                    points_of(self.space.draw(rng, count)), count - len(found)
                )
        return found + self.ledger.rest(count - len(found))


_DRAWS = 16
"""How often a batch is drawn before a space is taken to be nearly used up, or refused."""


def rows(points: Sequence[Point]) -> Points:
    """Points as an array."""
    return np.asarray(points, np.int64)


def points_of(array: Points) -> Iterable[Point]:
    """An array's points."""
    return (tuple(row) for row in array.tolist())


def ranked(points: Points, scores: Scores) -> tuple[Points, Scores]:
    """Each point once, the highest score first; equal ones in the points' order."""
    unique, at = np.unique(points, axis=0, return_index=True)
    order = np.argsort(-scores[at], kind="stable")
    return unique[order], scores[at][order]
