"""Random graphs as wirings of networks."""

from __future__ import annotations

import random

Wiring = tuple[tuple[int, ...], ...]
"""For each node of an acyclic graph, in topological order, the earlier nodes that it reads."""


def watts_strogatz(nodes: int, degree: int, probability: float, seed: int) -> Wiring:
    """A small-world graph, made acyclic as in Xie et al. (2019, Section 3.3).

    Each of ``nodes`` on a ring is connected to its ``degree / 2`` neighbours on either side. Going
    round the ring once for each distance up to ``degree / 2``, each node's edge to the neighbour
    at that distance clockwise is, with ``probability``, led to another node that it has no edge
    to. Then every edge points to the node of higher number.

    The same seed gives the same graph in every version of Python. Raises ValueError unless
    ``degree`` is even and 0 < ``degree`` < ``nodes``.
    """
    if degree % 2 or not 0 < degree < nodes:
        raise ValueError(f"degree must be even, above 0 and below {nodes}, not {degree}")
    draws = random.Random(seed)  # noqa: S311  # a wiring, not a secret
    reach = range(1, degree // 2 + 1)
    neighbours = [
        {(node + sign * distance) % nodes for distance in reach for sign in (-1, 1)}
        for node in range(nodes)
    ]
    for distance in reach:
        for node in range(nodes):
            if draws.random() >= probability:
                continue
            free = [n for n in range(nodes) if n != node and n not in neighbours[node]]
            if not free:
                continue  # connected to all: no edge can be led elsewhere
            old, new = (node + distance) % nodes, free[int(draws.random() * len(free))]
            neighbours[node].remove(old)
            neighbours[old].remove(node)
            neighbours[node].add(new)
            neighbours[new].add(node)
    return tuple(
        tuple(sorted(other for other in others if other < node))
        for node, others in enumerate(neighbours)
    )
