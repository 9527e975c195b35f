"""How many threads each group of a stage may get on a CPU.

Inside an operator threads divide its work, across groups they divide the operators, and both draw
on the same cores. Which division is fastest is measured; here are the few that are worth it.
"""

from __future__ import annotations

from collections.abc import Sequence

ALLOTMENTS = 4
"""As many for one stage at most, the device's own among them."""


def allotments(
    flops: Sequence[int], bytes_moved: Sequence[int], parallelism: int
) -> tuple[tuple[int, ...], ...]:
    """Numbers of threads for groups of so many FLOPs and bytes, one tuple for each way.

    Left out is the device's own, ``parallelism // groups`` each. One group alone may get one thread
    or the two largest powers of two below all. Several get as many threads together as the device
    has, divided in proportion to their FLOPs or to their bytes, or one thread each.
    """
    groups = len(flops)
    own = (max(1, parallelism // groups),) * groups
    others: list[tuple[int, ...]] = []
    if groups == 1:
        powers = [1 << bit for bit in range((parallelism - 1).bit_length())]
        others = [(count,) for count in (*powers[:-3:-1], 1)]
    elif groups < parallelism:
        others = [
            in_proportion(flops, parallelism),
            in_proportion(bytes_moved, parallelism),
            (1,) * groups,
        ]
    return tuple(way for way in dict.fromkeys(others) if way != own)


def in_proportion(work: Sequence[int], parallelism: int) -> tuple[int, ...]:
    """At least one thread for each, and each further one to where most work falls on a thread: were
    work divided evenly among threads, no other division would be done sooner."""
    threads = [1] * len(work)
    for _ in range(parallelism - len(work)):
        threads[
            max(
                range(len(work)),
                key=lambda group: (work[group] / threads[group], -threads[group], -group),
            )
        ] += 1
    return tuple(threads)
