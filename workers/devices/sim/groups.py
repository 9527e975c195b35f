"""Groups of SMs that hold the same blocks.

A group is looked at only when something happens on its SMs: what its cohorts have done since is
made up for then, step by step (``settle``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from workers.devices.sim.kernel import BlockWork, SimKernel

TOGETHER = 0.02
"""Of a wave: by how much blocks that end one by one are taken to end later."""

ROUNDING = 1e-6
"""Of a wave, or of a bandwidth: more than rounding ever adds up to. What is only about right is
asked for with so much to spare, and what depends on the last bit is computed in order."""

DONE = 1e-9  # of a wave: what is left of a cohort that is complete but for rounding


@dataclass(slots=True, eq=False)
class Launched:
    """A kernel on its way, the ``position``-th of job ``job``: ``unplaced`` blocks and ``running``
    cohorts; ``start`` is negative until its first block is placed. ``blocked`` gives the seconds
    that it stood in the queue, by reason. ``tag`` tells launches apart; ``alone_rate`` is how many
    waves a second its blocks make when nothing holds them up."""

    job: int
    position: int
    kernel: SimKernel
    work: BlockWork
    tag: int
    unplaced: int
    alone_rate: float
    running: int = 0
    start: float = -1.0
    blocked: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Cohort:
    """``each`` blocks of a launch on each SM of ``group``, with ``left`` waves still to run."""

    launch: Launched
    group: SmGroup
    each: int
    left: float
    rate: float = 0.0

    @property
    def blocks(self) -> int:
        return self.each * self.group.count


@dataclass(slots=True, eq=False)
class SmGroup:
    """``count`` SMs with equal contents and what each has left.

    The cohorts are as far as they were after ``settled`` of the steps of the simulation. If not
    ``rated``, their rates are to be computed anew; if so, none ends before ``soonest``, and
    ``latest`` is about when one of them has been kept waiting for as long as any may be. ``dram``,
    ``reused`` and ``l2`` are about what one SM moves, in bytes per second (``sharing``).
    """

    count: int
    threads: int
    registers: int
    shared_memory: int
    blocks: int
    cohorts: list[Cohort] = field(default_factory=list)
    settled: int = 0
    rated: bool = False
    soonest: float = math.inf
    latest: float = math.inf
    dram: float = 0.0
    reused: float = 0.0
    l2: float = 0.0
    space: int = 0  # blocks of the kernel that is being placed, for which there is room
    full_for: SimKernel | None = None  # a kernel for which there is known to be none
    key: int = 0  # equal for groups that hold as many blocks of the same launches
    merges: int = 0  # how often groups had been merged when it changed last

    def room(self, kernel: SimKernel) -> int:
        """How many more blocks of ``kernel`` fit on each SM.

        Its own blocks there count against ``fit`` as well: registers are allocated in an SM's
        partitions, so that fewer fit than the sum of the registers allows.
        """
        share, fitting = kernel.share, kernel.fit
        if self.blocks < fitting:  # noqa: PLR1730  # as in ``foresee``
            fitting = self.blocks
        if self.threads < fitting * share.threads:
            fitting = self.threads // share.threads
        if self.registers < fitting * share.registers:
            fitting = self.registers // share.registers
        if self.shared_memory < fitting * share.shared_memory:
            fitting = self.shared_memory // share.shared_memory
        if not fitting or not self.cohorts:
            return fitting
        own = 0
        for cohort in self.cohorts:
            if cohort.launch.kernel is kernel:
                own += cohort.each
        return min(fitting, kernel.fit - own) if own else fitting

    def take(self, launch: Launched, blocks: int) -> None:
        """Take the resources of ``blocks`` blocks on each SM; of a negative number, give back."""
        share = launch.kernel.share
        self.threads -= blocks * share.threads
        self.registers -= blocks * share.registers
        self.shared_memory -= blocks * share.shared_memory
        self.blocks -= blocks
        self.key += blocks * launch.tag
        self.rated = False

    def settle(self, steps: list[float]) -> None:
        """Let its cohorts run through the ``steps`` (seconds) that it has not been through, one
        after the other, as if it had been looked at in each of them."""
        if self.settled == len(steps):
            return
        if self.cohorts:
            since = steps[self.settled :]
            for cohort in self.cohorts:
                left, rate = cohort.left, cohort.rate
                for step in since:
                    left -= step * rate
                cohort.left = left
        self.settled = len(steps)

    def foresee(self, now: float) -> None:
        """See when its cohorts end."""
        soonest = latest = math.inf
        for cohort in self.cohorts:
            left, rate = cohort.left, cohort.rate
            end = now + (left - ROUNDING) / rate
            if end < soonest:  # noqa: PLR1730  # calls of ``min`` take most of the time here
                soonest = end
            end = now + (left + TOGETHER) / rate
            if end < latest:  # noqa: PLR1730  # as above
                latest = end
        self.soonest, self.latest = soonest, latest

    def until(self) -> float:
        """In how many seconds one of its cohorts has been kept waiting for as long as any may be,
        once it has ended."""
        until = math.inf
        for cohort in self.cohorts:
            rate = cohort.rate
            end = cohort.left / rate + TOGETHER / rate
            if end < until:  # noqa: PLR1730  # as in ``foresee``
                until = end
        return until

    def last_end(self, until: float) -> float:
        """In how many seconds the last one ends that does so by ``until``; 0 if there is none."""
        last = 0.0
        for cohort in self.cohorts:
            end = cohort.left / cohort.rate
            if last < end <= until:
                last = end
        return last

    def run(self, step: float) -> list[Cohort]:
        """Let its cohorts run for ``step`` seconds more; those that end."""
        ended = []
        self.settled += 1
        for cohort in self.cohorts:
            cohort.left = left = cohort.left - step * cohort.rate
            if left <= DONE:
                ended.append(cohort)
        return ended
