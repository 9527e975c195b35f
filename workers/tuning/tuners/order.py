"""The order in which a whole space is gone through: a permutation of its indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

_ROUNDS = 3
_MULTIPLIER = 0x9E3779B97F4A7C15
"""Odd, so that multiplying by it is a permutation of any power of two."""


def scrambled(position: int, count: int) -> int:
    """Where the ``position``-th of ``count`` steps goes: a permutation that looks like chance.

    Multiplications and shifts permute the next power of two; what falls outside is permuted again
    until it is inside (cycle walking). Even steps through the range, such as multiples of the
    golden ratio's, would be a lattice, in which the decisions depend on each other.
    """
    bits = max(1, (count - 1).bit_length())
    mask, shift = (1 << bits) - 1, (bits + 1) // 2
    index = position
    while True:
        for _ in range(_ROUNDS):
            index = (index * _MULTIPLIER + (_MULTIPLIER >> 7)) & mask
            index ^= index >> shift
        if index < count:
            return index


def spread(counts: Sequence[int]) -> Iterator[int]:
    """Every index once of sketches of ``counts`` points; the first few lie all over each sketch.

    The sketches take turns until they are used up: in proportion to their sizes, which differ by
    factors of hundreds, the small ones would hardly ever be met.
    """
    walks = [
        _walk(first, count, sketch * count // len(counts))
        for sketch, (first, count) in enumerate(
            zip(accumulate(counts, initial=0), counts, strict=False)
        )
    ]
    while walks:
        for walk in list(walks):
            index = next(walk, None)
            if index is None:
                walks.remove(walk)
            else:
                yield index


def _walk(first: int, count: int, start: int) -> Iterator[int]:
    """From another ``start`` in each sketch: most sketches have the same decisions, and would else
    be met at the same points."""
    return (first + scrambled((start + step) % count, count) for step in range(count))
