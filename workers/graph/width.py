"""The width of a DAG: how many of its Units can run side by side at most."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from workers.graph.bitsets import bits, descendants


def width(successors: Sequence[Sequence[int]]) -> int:
    """The size of a maximum antichain of a DAG given in topological order (IOS, Definition 1).

    By Dilworth's theorem it is the least number of chains that cover the Units. A cover links each
    Unit to at most one Unit that is reachable from it, and to at most one from which it is, so its
    links are a matching of the transitive closure and every link saves one chain: the width is the
    number of Units less the size of a maximum matching.
    """
    return len(successors) - _maximum_matching(descendants(successors))


def _maximum_matching(neighbours: Sequence[int]) -> int:
    """The size of a maximum matching between Units on the left and the masks of Units on the right
    that they may be matched with.

    Searches an augmenting path breadth-first from each Unit on the left, looking only at Units on
    the right that no search has met in vain, because no later path can use those. The masks make a
    closure of millions of edges cheap: a search looks at 64 of them with one machine word.
    """
    count = len(neighbours)
    right_of, left_of = [-1] * count, [-1] * count
    free = useful = (1 << count) - 1
    for start in range(count):
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
                while right >= 0:  # swap matched and unmatched edges back to the start
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
    return count - free.bit_count()
