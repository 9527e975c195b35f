"""The grid tuner: a fixed order over the whole space."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from workers.tuning.tuner import Candidate
from workers.tuning.tuners.ledger import Ledger, checked

if TYPE_CHECKING:
    from workers.tuning.space import DesignSpace


class GridOrder(StrEnum):
    """``spread``: scrambled, so that the first 64 already lie all over the space.
    ``index``: by index, as AutoTVM's grid tuner goes, of which the first 64 differ in little more
    than their last decision."""

    SPREAD = "spread"
    INDEX = "index"


class GridTuner:
    """Proposes the same candidates in the same order whatever the seed and the latencies are, so
    that two measurers can be compared on them (DOPpler, Section 5.1)."""

    def __init__(self, space: DesignSpace, seed: int = 0, order: str = GridOrder.SPREAD) -> None:
        self._ledger = Ledger(
            space, range(space.count) if GridOrder(order) is GridOrder.INDEX else None
        )

    def propose(self, count: int) -> list[Candidate]:
        """The next ``count`` in the order."""
        return self._ledger.rest(count)

    def update(self, candidates: Sequence[Candidate], latencies_ms: Sequence[float]) -> None:
        """Learns nothing. Raises ValueError for answers that are none."""
        checked(candidates, latencies_ms)
