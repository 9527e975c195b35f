"""The order in which a whole space is gone through: a permutation of its indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import gcd

_GOLDEN = (5**0.5 - 1) / 2


def stride(count: int) -> int:
    """The whole number next to count · 0.618… (the golden ratio's) that has no factor in common
    with ``count``, so that steps of it meet every index once. Among all steps this ratio leaves
    the smallest gaps after any number of them (Kronecker's sequence)."""
    near = max(1, round(count * _GOLDEN))
    return next(
        step
        for distance in range(count + 1)
        for step in (near + distance, near - distance)
        if step >= 1 and gcd(step, count) == 1
    )


def spread(counts: Sequence[int]) -> Iterator[int]:
    """Every index once of sketches of ``counts`` points; the first few lie all over each sketch.

    The sketches take turns until they are used up: in proportion to their sizes, which differ by
    factors of hundreds, the small ones would hardly ever be met.
    """
    walks = [
        _walk(first, count)
        for first, count in zip(accumulate(counts, initial=0), counts, strict=False)
    ]
    while walks:
        for walk in list(walks):
            index = next(walk, None)
            if index is None:
                walks.remove(walk)
            else:
                yield index


def _walk(first: int, count: int) -> Iterator[int]:
    step = stride(count)
    return (first + position * step % count for position in range(1, count + 1))
