"""How fast blocks progress that share SMs, DRAM and L2.

No faster than alone; the blocks of an SM share its arithmetic throughput in proportion to what they
ask for; all blocks share DRAM and L2 bandwidth so that no kernel gets less than its share by warps
unless it asks for less (max-min fairness). What the memory holds back leaves arithmetic to others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workers.devices.sim.kernel import BlockWork
from workers.devices.sim.residency import Cohort, Residency, SmGroup


@dataclass(frozen=True, slots=True)
class Memory:
    """What all SMs share: bandwidths in bytes per second that can really be had, L2 in bytes."""

    dram_bytes_per_s: float
    l2_bytes_per_s: float
    l2_bytes: float


def set_rates(residency: Residency, memory: Memory) -> None:
    """Set the rate of every resident cohort, in waves per second."""
    cohorts = residency.cohorts
    if not cohorts:
        return
    missed = 1 - _hit_rate(cohorts, memory)
    for cohort in cohorts:
        cohort.rate = cohort.launch.alone_rate
    limited = _fill(residency, memory, missed, set())
    if limited and len(limited) < len(cohorts):
        for cohort in cohorts:
            if cohort not in limited:
                cohort.rate = cohort.launch.alone_rate
        _fill(residency, memory, missed, limited)


def _hit_rate(cohorts: Sequence[Cohort], memory: Memory) -> float:
    """How much of what earlier kernels wrote is still in L2 when the running ones read it."""
    wanted = math.fsum({c.launch: c.launch.kernel.working_set for c in cohorts}.values())
    return 1.0 if wanted <= memory.l2_bytes else memory.l2_bytes / wanted


def _fill(residency: Residency, memory: Memory, missed: float, kept: set[Cohort]) -> set[Cohort]:
    """Bring the rates down to what SMs, DRAM and L2 allow; the cohorts that memory slowed. Those in
    ``kept`` are not slowed down by the others of their SMs."""
    for group in residency.groups:
        if group.cohorts:
            _share_compute(group, kept)
    cohorts = residency.cohorts
    dram = l2 = 0.0
    for cohort in cohorts:
        work, pace = cohort.launch.kernel.work, cohort.rate * cohort.blocks
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


def _share_compute(group: SmGroup, kept: set[Cohort]) -> None:
    """Slow the cohorts of an SM down in proportion where together they want more than it has; but
    for those in ``kept``, which leave something to the others."""
    wanted, left = 0.0, 1.0
    for cohort in group.cohorts:
        asked = cohort.rate * cohort.each * cohort.launch.kernel.work.compute_s
        if cohort in kept:
            left -= asked
        else:
            wanted += asked
    if wanted > left:
        for cohort in group.cohorts:
            if cohort not in kept and cohort.launch.kernel.work.compute_s:
                cohort.rate *= left / wanted


def _share_bytes(
    cohorts: Sequence[Cohort], need: Callable[[BlockWork], float], bandwidth: float
) -> set[Cohort]:
    """Slow cohorts down until together they move no more than ``bandwidth``; those slowed down.

    ``need`` gives the bytes of one block. Max-min fair with warps as weights: a cohort that wants
    less than its share keeps its rate, and what it leaves goes to the others.
    """
    asking: list[tuple[float, int, float, float]] = []  # bytes/s for each warp, cohort, …
    for number, cohort in enumerate(cohorts):
        kernel = cohort.launch.kernel
        needed, warps = need(kernel.work) * cohort.blocks, float(cohort.blocks * kernel.warps)
        if needed:
            asking.append((cohort.rate * needed / warps, number, needed, warps))
    asking.sort()
    left, weight = bandwidth, math.fsum(warps for _, _, _, warps in asking)
    slowed = set()
    for _, number, needed, warps in asking:
        cohort, share = cohorts[number], left * warps / weight
        if cohort.rate * needed > share:
            cohort.rate = share / needed
            slowed.add(cohort)
        left -= cohort.rate * needed
        weight -= warps
    return slowed
