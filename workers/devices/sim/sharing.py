"""How fast blocks progress that share SMs, DRAM and L2.

No faster than alone; the blocks of an SM share its arithmetic throughput in proportion to what they
ask for; all blocks share DRAM and L2 bandwidth so that no kernel gets less than its share by warps
unless it asks for less (max-min fairness). What the memory holds back leaves arithmetic to others.

As long as the memory holds nothing back, rates follow from what is on an SM, and only those of SMs
on which something has changed are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from workers.devices.sim.groups import ROUNDING, Cohort, SmGroup
from workers.devices.sim.kernel import BlockWork
from workers.devices.sim.residency import Residency


@dataclass(frozen=True, slots=True)
class Memory:
    """What all SMs share: bandwidths in bytes per second that can really be had, L2 in bytes."""

    dram_bytes_per_s: float
    l2_bytes_per_s: float
    l2_bytes: float


def set_rates(residency: Residency, memory: Memory, now: float) -> None:
    """Set the rate of every resident cohort, in waves per second, at time ``now``."""
    if residency.limited:
        residency.settle()
        for group in residency.groups:
            group.rated = False
        residency.limited = False
    dram = reused = l2 = 0.0
    for group in residency.groups:
        if not group.rated:
            _share_compute(group)
            group.foresee(now)
        count = group.count
        dram += count * group.dram
        reused += count * group.reused
        l2 += count * group.l2
    wanted = residency.working_set()
    missed = 0.0 if wanted <= memory.l2_bytes else 1 - memory.l2_bytes / wanted
    plenty = 1 - ROUNDING
    if (
        dram + missed * reused > plenty * memory.dram_bytes_per_s
        or l2 > plenty * memory.l2_bytes_per_s
    ):
        residency.settle()
        if _share_memory(residency, memory, missed):
            residency.limit()
            for group in residency.groups:
                group.foresee(now)


def _share_compute(group: SmGroup) -> None:
    """Slow the cohorts of an SM down in proportion where together they want more than it has; and
    see what they then ask of the memory."""
    wanted = dram = reused = l2 = 0.0
    for cohort in group.cohorts:
        launch = cohort.launch
        cohort.rate = rate = launch.alone_rate
        wanted += rate * cohort.each * launch.work.compute_s
    slower = 1.0 / wanted if wanted > 1.0 else 1.0
    for cohort in group.cohorts:
        work = cohort.launch.work
        if work.compute_s:
            cohort.rate *= slower
        pace = cohort.rate * cohort.each
        dram += pace * work.dram_bytes
        reused += pace * work.reused_bytes
        l2 += pace * work.l2_bytes
    group.dram, group.reused, group.l2 = dram, reused, l2
    group.rated = True


def _share_memory(residency: Residency, memory: Memory, missed: float) -> bool:
    """Bring rates that SMs alone would allow down to what DRAM and L2 allow; whether any was."""
    limited = _share_bandwidths(residency, memory, missed)
    cohorts = residency.cohorts
    if limited and len(limited) < len(cohorts):
        for cohort in cohorts:
            if cohort not in limited:
                cohort.rate = cohort.launch.alone_rate
        for group in residency.groups:
            _share_left(group, limited)
        _share_bandwidths(residency, memory, missed)
    return bool(limited)


def _share_bandwidths(residency: Residency, memory: Memory, missed: float) -> set[Cohort]:
    """The cohorts that memory slowed."""
    cohorts = residency.cohorts
    dram = l2 = 0.0
    for cohort in cohorts:
        work, pace = cohort.launch.work, cohort.rate * cohort.blocks
        dram += pace * (work.dram_bytes + missed * work.reused_bytes)
        l2 += pace * work.l2_bytes
    slowed: set[Cohort] = set()
    if dram > memory.dram_bytes_per_s:
        slowed = _share_bytes(
            cohorts,
            lambda work: work.dram_bytes + missed * work.reused_bytes,
            memory.dram_bytes_per_s,
        )
    if l2 > memory.l2_bytes_per_s:
        slowed |= _share_bytes(cohorts, lambda work: work.l2_bytes, memory.l2_bytes_per_s)
    return slowed


def _share_left(group: SmGroup, kept: set[Cohort]) -> None:
    """Share an SM as ``_share_compute`` does, but slow those in ``kept`` no further: they leave
    something to the others."""
    wanted, left = 0.0, 1.0
    for cohort in group.cohorts:
        asked = cohort.rate * cohort.each * cohort.launch.work.compute_s
        if cohort in kept:
            left -= asked
        else:
            wanted += asked
    if wanted > left:
        for cohort in group.cohorts:
            if cohort not in kept and cohort.launch.work.compute_s:
                cohort.rate *= left / wanted


def _share_bytes(
    cohorts: Collection[Cohort], need: Callable[[BlockWork], float], bandwidth: float
) -> set[Cohort]:
    """Slow cohorts down until together they move no more than ``bandwidth``; those slowed down.

    ``need`` gives the bytes of one block. Max-min fair with warps as weights: a cohort that wants
    less than its share keeps its rate, and what it leaves goes to the others.
    """
    asking: list[tuple[float, int, float, float, Cohort]] = []  # bytes/s for each warp, …
    for number, cohort in enumerate(cohorts):
        kernel, blocks = cohort.launch.kernel, cohort.blocks
        needed, warps = need(kernel.work) * blocks, float(blocks * kernel.warps)
        if needed:
            asking.append((cohort.rate * needed / warps, number, needed, warps, cohort))
    asking.sort()
    left, weight = bandwidth, math.fsum([warps for _, _, _, warps, _ in asking])
    slowed = set()
    for _, _, needed, warps, cohort in asking:
        share = left * warps / weight
        if cohort.rate * needed > share:
            cohort.rate = share / needed
            slowed.add(cohort)
        left -= cohort.rate * needed
        weight -= warps
    return slowed
