"""What a search measures next. The single Units were measured before a guide is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from workers.schedulers.ios.knowledge import Knowledge

Question = tuple[int, int]
"""The index of a part, and of an option of it."""


class Guide(Protocol):
    """Chooses among the unmeasured options of all parts."""

    def next(self, parts: Sequence[Knowledge], limit: int) -> Sequence[Question]:
        """At most ``limit`` questions, the most promising first; none if nothing is left to ask.

        What was asked before is never asked again. The answers are in ``parts`` at the next call.
        A guide that had nothing left is asked once more after stages were measured again, which
        may have made others promising.
        """
        ...

    @property
    def expected_ms(self) -> float | None:
        """What a model expected of the whole graph's optimum at last; None without a model."""
        ...


class Exhaustive:
    """Everything, as Algorithm 1 does; small stages first, so that there is a good schedule early
    and a search whose time is up has the groups that may run alone."""

    def __init__(self) -> None:
        self._left: Iterator[Question] | None = None

    def next(self, parts: Sequence[Knowledge], limit: int) -> Sequence[Question]:
        if self._left is None:
            self._left = iter(self._order(parts))
        return list(islice(self._left, limit))

    @property
    def expected_ms(self) -> None:
        return None

    @staticmethod
    def _order(parts: Sequence[Knowledge]) -> list[Question]:
        part = [np.full(len(known.options), index) for index, known in enumerate(parts)]
        option = [np.arange(len(known.options)) for known in parts]
        masks = [known.part.space.stages[known.options.stage] for known in parts]
        all_masks = np.concatenate(masks)
        unmeasured = np.concatenate([known.unmeasured() for known in parts])
        all_parts, all_options = np.concatenate(part), np.concatenate(option)
        order = np.lexsort((all_options, all_masks, all_parts, np.bitwise_count(all_masks)))
        return [
            (int(all_parts[position]), int(all_options[position]))
            for position in order
            if unmeasured[position]
        ]
