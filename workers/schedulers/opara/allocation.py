"""Opara's Algorithm 1 (Section 3.1): which stream each Unit is on."""

from __future__ import annotations

from collections.abc import Sequence


def allocate(successors: Sequence[Sequence[int]]) -> list[int]:
    """The stream of each Unit, numbered from 0 in the order in which Algorithm 1 launches them.

    A Unit continues the stream of the first of its predecessors whose first successor it is; one
    that finds no such predecessor begins a stream. The paper orders neither successors nor
    predecessors: here both stand in the graph's order, which is topological. ``successors`` gives
    each Unit's in that order.

    Turned round, each Unit hands its stream to its first successor, and a Unit that is handed
    several keeps the one of its earliest predecessor. So it takes a step for each Unit instead of
    one for each dependency.
    """
    continues = [-1] * len(successors)
    for unit in range(len(successors) - 1, -1, -1):
        after = successors[unit]
        if after:
            continues[after[0]] = unit
    stream: list[int] = []
    count = 0
    for before in continues:
        if before < 0:
            stream.append(count)
            count += 1
        else:
            stream.append(stream[before])
    return stream
