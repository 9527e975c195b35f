"""The width of a DAG: how many of its Units can run side by side at most."""

from __future__ import annotations

from collections.abc import Sequence

from workers.graph.bitsets import descendants
from workers.graph.matching import UNMATCHED, maximum_matching


def width(successors: Sequence[Sequence[int]]) -> int:
    """The size of a maximum antichain of a DAG given in topological order (IOS, Definition 1).

    By Dilworth's theorem it is the least number of chains that cover the Units. A cover links each
    Unit to at most one Unit that is reachable from it, and to at most one from which it is, so its
    links are a matching of the transitive closure and every link saves one chain: the width is the
    number of Units less the size of a maximum matching.
    """
    return maximum_matching(descendants(successors)).count(UNMATCHED)
