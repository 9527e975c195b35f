"""How many threads each group of a stage may get on a CPU.

Inside an operator threads divide its work, across groups they divide the operators, and both draw
on the same cores. Which division is fastest is measured; here are the few that are worth it, three
for one stage at most, for many stages at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def allotments(flops: Counts, bytes_moved: Counts, parallelism: int) -> Counts:
    """Numbers of threads for stages of equally many groups, which have so many FLOPs and bytes.

    Both are of shape (stages, groups), and the result is of shape (ways, stages, groups). Two ways
    of a stage may be the same, and may be what the device itself gives, ``parallelism // groups``
    each. One group alone gets what ``for_one_group`` says. Several get as many threads together as
    the device has, divided in proportion to their FLOPs or to their bytes, or one thread each.
    Where there are as many groups as threads, or more, there are no ways besides the device's.
    """
    groups = flops.shape[1]
    if groups == 1:
        counts = np.array(for_one_group(parallelism), dtype=np.int64)
        return np.broadcast_to(counts[:, None, None], (len(counts), *flops.shape))
    if groups >= parallelism:
        return np.empty((0, *flops.shape), dtype=np.int64)
    divided = [in_proportion(work, parallelism) for work in (flops, bytes_moved)]
    return np.stack([*divided, np.ones_like(flops)])


def for_one_group(parallelism: int) -> tuple[int, ...]:
    """The two largest powers of two below all threads, and one thread."""
    powers = [1 << bit for bit in range((parallelism - 1).bit_length())]
    return tuple(dict.fromkeys((*powers[:-3:-1], *powers[:1])))


def in_proportion(work: Counts, parallelism: int) -> Counts:
    """Threads for the groups of each row of ``work``, which are fewer than ``parallelism``.

    At least one thread for each, and each further one to where most work falls on a thread: were
    work divided evenly among threads, no other division would be done sooner. Of equals the one
    with fewer threads is first, then the first.

    With spare threads s and work w of a row, whoever has more than sum(w) / s on a thread comes
    before all who have not, and is content with ceil(s w / sum(w)) threads. These are given at
    once, no more than there are, and the rest, at most one for each group, one by one.
    """
    rows, groups = np.arange(len(work)), work.shape[1]
    work = np.where(work.any(axis=1, keepdims=True), work, 1)
    total = work.sum(axis=1, keepdims=True)
    threads: Counts = np.maximum(-(-work * (parallelism - groups) // total), 1)
    while (left := threads.sum(axis=1) < parallelism).any():
        load = work / threads
        most = load == load.max(axis=1, keepdims=True)
        chosen = np.where(most, threads, parallelism + 1).argmin(axis=1)
        threads[rows[left], chosen[left]] += 1
    return threads
