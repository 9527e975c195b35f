"""The arithmetic of design spaces, against brute force."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tuning.points import Decision, PointSpace, factorizations

DECISIONS = st.one_of(
    st.builds(
        Decision.tile,
        st.lists(st.integers(1, 24), min_size=1, max_size=1),
        st.integers(2, 3),
        st.sampled_from([-1, 4, 64]),
    ),
    st.builds(
        Decision.categorical, st.lists(st.integers(0, 512), min_size=1, max_size=4, unique=True)
    ),
    st.builds(lambda deepest: Decision.location(range(-1, deepest)), st.integers(0, 4)),
)
SPACES = st.lists(st.lists(DECISIONS, max_size=3), min_size=1, max_size=3).map(PointSpace)


@given(st.integers(1, 60), st.integers(1, 4), st.sampled_from([-1, 1, 5, 64]))
def test_a_length_is_factorized_in_every_way(extent: int, parts: int, most: int) -> None:
    divisors = [factor for factor in range(1, extent + 1) if extent % factor == 0]
    every = [
        tile
        for tile in product(divisors, repeat=parts)
        if prod(tile) == extent and (most == -1 or tile[-1] <= most)
    ]
    assert list(factorizations(extent, parts, most)) == every


def test_long_loops_are_factorized_quickly() -> None:
    # 2¹² in five factors: 12 twos and 4 bars, of which 64 bounds the last factor's twos to 6.
    assert len(factorizations(4096, 5, -1)) == 1820
    assert all(tile[-1] <= 64 for tile in factorizations(4096, 5, 64))


@given(SPACES)
def test_every_index_is_a_point_and_back(space: PointSpace) -> None:
    indices = range(space.count) if space.count < 200 else range(0, space.count, space.count // 97)
    points = [space.point(index) for index in indices]
    assert [space.index(point) for point in points] == list(indices)
    assert len(set(points)) == len(points)
    for point in points:
        decided = space.decisions(point)
        sketch = space.sketches[point[0]]
        assert len(decided) == len(sketch)
        assert all(
            option in decision.options for option, decision in zip(decided, sketch, strict=True)
        )


@given(SPACES)
def test_the_points_are_all_products_of_all_sketches(space: PointSpace) -> None:
    assert space.count == sum(
        prod(len(decision.options) for decision in sketch) for sketch in space.sketches
    )


@given(SPACES, st.integers(0, 5))
def test_what_is_no_point_is_refused(space: PointSpace, beyond: int) -> None:
    for index in (-1 - beyond, space.count + beyond):
        with pytest.raises(IndexError, match="point"):
            space.point(index)
    for knob in range(1, space.knobs):
        outside = list(space.point(space.count - 1))
        outside[knob] = int(space.sizes[outside[0], knob]) + beyond
        with pytest.raises(IndexError, match="no point"):
            space.index(tuple(outside))


def test_a_space_beyond_machine_integers_is_counted_exactly() -> None:
    tile = Decision.tile([4096], 5, 64)
    space = PointSpace([[tile] * 8, [tile]])
    assert space.count == len(tile.options) ** 8 + len(tile.options) > 2**64
    assert space.index(space.point(space.count - 2)) == space.count - 2


@given(SPACES, st.integers(0, 2**32 - 1))
def test_points_that_are_drawn_or_clipped_exist(space: PointSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = space.draw(rng, 20)
    far = rng.integers(-50, 50, drawn.shape)
    for points in (drawn, space.clipped(far)):
        assert [space.point(space.index(tuple(row))) for row in points.tolist()] == [
            tuple(row) for row in points.tolist()
        ]
    assert (space.clipped(drawn) == drawn).all()


def test_features_are_the_decisions_as_numbers() -> None:
    space = PointSpace(
        [
            [Decision.tile([8], 2, -1), Decision.categorical([0, 15])],
            [Decision.location([-1, 0, 1])],
        ]
    )
    points = np.asarray([(0, 1, 1), (1, 2, 0)], np.int64)
    assert space.decisions((0, 1, 1)) == ((2, 4), 1)
    assert space.features(points).tolist() == [
        # sketch, log2 of both factors, log2(1 + 15)
        [1, 0, 1, 2, 4],
        # another sketch, its place, and nothing more
        [0, 1, 1, 0, 0],
    ]
