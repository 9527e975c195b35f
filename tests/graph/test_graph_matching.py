"""Matchings and covers of random bipartite graphs, against NetworkX and each other."""

from __future__ import annotations

import networkx
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.graph.bitsets import bits
from workers.graph.matching import UNMATCHED, maximum_matching, minimum_cover


@st.composite
def bipartite(draw: st.DrawFn) -> list[int]:
    count = draw(st.integers(0, 9))
    sparse = st.sets(st.integers(0, max(count - 1, 0)), max_size=min(count, 3))
    return [sum(1 << right for right in draw(sparse)) for _ in range(count)]


def edges(right_of: list[int]) -> list[tuple[int, int]]:
    return [(left, right) for left, right in enumerate(right_of) if right != UNMATCHED]


@settings(deadline=None)
@given(neighbours=bipartite())
def test_as_large_as_networkx_finds(neighbours: list[int]) -> None:
    graph = networkx.Graph()
    graph.add_nodes_from(("left", left) for left in range(len(neighbours)))
    for left, mask in enumerate(neighbours):
        graph.add_edges_from((("left", left), ("right", right)) for right in bits(mask))
    lefts = [("left", left) for left in range(len(neighbours))]
    theirs = networkx.bipartite.hopcroft_karp_matching(graph, lefts)
    ours = edges(maximum_matching(neighbours))
    assert all(neighbours[left] >> right & 1 for left, right in ours)
    assert len({right for _, right in ours}) == len(ours) == len(theirs) // 2


@settings(deadline=None)
@given(neighbours=bipartite())
def test_a_cover_as_small_as_the_matching_proves_it(neighbours: list[int]) -> None:
    right_of = maximum_matching(neighbours)
    left, right = minimum_cover(neighbours, right_of)
    assert left.bit_count() + right.bit_count() == len(edges(right_of))
    for number, mask in enumerate(neighbours):
        assert left >> number & 1 or not mask & ~right


@settings(deadline=None)
@given(neighbours=bipartite(), more=bipartite())
def test_what_is_matched_to_begin_with_stays_matched(
    neighbours: list[int], more: list[int]
) -> None:
    begun = maximum_matching(neighbours)
    valid = (1 << len(neighbours)) - 1
    added = [*more, *[0] * len(neighbours)]
    both = [mask | other & valid for mask, other in zip(neighbours, added, strict=False)]
    grown = maximum_matching(both, begun)
    assert len(edges(grown)) == len(edges(maximum_matching(both)))
    assert {left for left, _ in edges(begun)} <= {left for left, _ in edges(grown)}
    assert {right for _, right in edges(begun)} <= {right for _, right in edges(grown)}


def test_a_path_through_all_vertices() -> None:
    """Every vertex but the last takes its first choice, which the last needs: all must move."""
    count = 3000
    neighbours = [1 << left | 1 << (left + 1) for left in range(count - 1)] + [1]
    assert edges(maximum_matching(neighbours)) == [
        *((left, left + 1) for left in range(count - 1)),
        (count - 1, 0),
    ]
