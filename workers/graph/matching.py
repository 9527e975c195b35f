"""Maximum matchings of bipartite graphs given as bit masks, and the covers that prove them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from workers.graph.bitsets import bits

UNMATCHED = -1


def maximum_matching(neighbours: Sequence[int], matched: Sequence[int] = ()) -> list[int]:
    """For each vertex on the left the one on the right that it is matched with, or UNMATCHED, in a
    matching of maximum size.

    ``neighbours`` are, for each vertex on the left, the mask of those on the right that it may be
    matched with; there are as many on the right as on the left. ``matched`` is a matching to begin
    with: whatever it covers on either side stays covered, though maybe by other edges.

    Searches an augmenting path breadth-first from each vertex on the left, looking only at vertices
    on the right that no search has met in vain, because no later path can use those. The masks make
    a graph of millions of edges cheap: a search looks at 64 of them with one machine word.
    """
    count = len(neighbours)
    right_of = list(matched) or [UNMATCHED] * count
    left_of = [UNMATCHED] * count
    free = useful = (1 << count) - 1
    for left, right in enumerate(right_of):
        if right != UNMATCHED:
            left_of[right] = left
            free ^= 1 << right
    for start in range(count):
        if right_of[start] != UNMATCHED:
            continue
        reached_from: dict[int, int] = {}
        met = 0
        queue = deque([start])
        while queue:
            left = queue.popleft()
            fresh = neighbours[left] & useful & ~met
            if fresh & free:
                right = next(bits(fresh & free))
                free ^= 1 << right
                reached_from[right] = left
                while right != UNMATCHED:  # swap matched and unmatched edges back to the start
                    left = reached_from[right]
                    left_of[right] = left
                    right, right_of[left] = right_of[left], right
                break
            met |= fresh
            for right in bits(fresh):
                reached_from[right] = left
                queue.append(left_of[right])
        else:
            useful &= ~met
    return right_of


def minimum_cover(neighbours: Sequence[int], right_of: Sequence[int]) -> tuple[int, int]:
    """The masks of vertices on the left and on the right such that every edge has an end in one of
    them and every edge of the maximum matching ``right_of`` exactly one: as many vertices as the
    matching has edges, which proves that there is no larger one (König 1931).
    """
    left_of = {right: left for left, right in enumerate(right_of) if right != UNMATCHED}
    queue = [left for left, right in enumerate(right_of) if right == UNMATCHED]
    left_reached = sum(1 << left for left in queue)
    right_reached = 0
    for left in queue:  # grows as it goes
        fresh = neighbours[left] & ~right_reached
        right_reached |= fresh
        for right in bits(fresh):
            left_reached |= 1 << left_of[right]
            queue.append(left_of[right])
    return (1 << len(neighbours)) - 1 & ~left_reached, right_reached
