"""The blocks of the IOS paper's Table 1 and the exact sizes of their search spaces.

The published counts follow from: concat and add count as Units, the block's entry does not, no
pruning, and endings are disjoint unions of principal filters (the ``published`` convention).
"""

from __future__ import annotations

from dataclasses import dataclass

Bound = int | None


@dataclass(frozen=True)
class Counts:
    states: int
    transitions: int
    schedules: int
    stages: int


@dataclass(frozen=True)
class Table1Block:
    """``published`` and ``paper`` map (r, s) to the counts under each convention."""

    successors: tuple[tuple[int, ...], ...]
    published: dict[tuple[Bound, Bound], Counts]
    paper: dict[tuple[Bound, Bound], Counts]


SQUEEZENET = Table1Block(
    successors=((1, 2), (3,), (3,), (5,), (5,), ()),
    published={
        (None, None): Counts(13, 51, 131, 29),
        (3, 8): Counts(13, 47, 126, 26),
        (2, 3): Counts(13, 42, 101, 22),
        (1, 8): Counts(13, 28, 25, 12),
    },
    paper={
        (None, None): Counts(13, 60, 152, 37),
        (3, 8): Counts(13, 51, 138, 29),
        (2, 3): Counts(13, 42, 101, 22),
        (1, 8): Counts(13, 28, 25, 12),
    },
)

INCEPTION_V3 = Table1Block(
    successors=((10,), (2, 3), (10,), (10,), (5,), (6, 7), (10,), (10,), (9,), (10,), ()),
    published={
        (None, None): Counts(181, 4871, 3757392, 842),
        (3, 8): Counts(181, 4616, 3727132, 775),
        (3, 3): Counts(181, 4037, 3659458, 469),
        (1, 3): Counts(181, 1770, 873949, 111),
        (2, 8): Counts(181, 3571, 3404004, 510),
    },
    paper={
        (None, None): Counts(181, 5040, 4410136, 1011),
        (3, 8): Counts(181, 4631, 4226508, 790),
        (3, 3): Counts(181, 4052, 4153624, 484),
        (1, 3): Counts(181, 1770, 873949, 111),
        (2, 8): Counts(181, 3571, 3404004, 510),
    },
)

NASNET_SUCCESSORS = (
    (2,), (2,), (8, 10, 13, 14, 17), (4, 6, 12, 15, 17), (5,), (17,), (7,), (17,), (9,), (17,),
    (11,), (17,), (17,), (17,), (17,), (16,), (17,), (),
)  # fmt: skip
"""The paper's Table 1 gives 3.1e5 transitions and 7.2e12 schedules for it."""
