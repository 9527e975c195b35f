"""Which blocks are on which SMs.

Blocks of one kernel that start together on SMs with equal contents are one *cohort*, and SMs with
equal contents one *group*, so that no block is ever looked at alone. A kernel with many times more
blocks than fit at once runs on a group of its own in one cohort of many waves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.devices.gpu import GpuFacts
from workers.devices.sim.kernel import SimKernel

_ALIKE = 0.03
"""Of a wave: by how much blocks may differ that are merged."""


@dataclass(slots=True, eq=False)
class Launched:
    """A kernel on its way, the ``position``-th of job ``job``: ``unplaced`` blocks and ``running``
    cohorts; ``start`` is negative until its first block is placed. ``blocked`` gives the seconds
    that it stood in the queue, by reason. ``alone_rate`` is how many waves a second its blocks make
    when nothing holds them up."""

    job: int
    position: int
    kernel: SimKernel
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
    """``count`` SMs with equal contents and what each has left."""

    count: int
    threads: int
    registers: int
    shared_memory: int
    blocks: int
    cohorts: list[Cohort] = field(default_factory=list)

    def room(self, kernel: SimKernel) -> int:
        """How many more blocks of ``kernel`` fit on each SM.

        Its own blocks there count against ``fit`` as well: registers are allocated in an SM's
        partitions, so that fewer fit than the sum of the registers allows.
        """
        share = kernel.share
        fitting = min(kernel.fit, self.blocks, self.threads // share.threads)
        if fitting and share.registers:
            fitting = min(fitting, self.registers // share.registers)
        if fitting and share.shared_memory:
            fitting = min(fitting, self.shared_memory // share.shared_memory)
        if not fitting or not self.cohorts:
            return fitting
        own = 0
        for cohort in self.cohorts:
            if cohort.launch.kernel is kernel:
                own += cohort.each
        return min(fitting, kernel.fit - own) if own else fitting

    def take(self, kernel: SimKernel, blocks: int) -> None:
        """Take the resources of ``blocks`` blocks on each SM; of a negative number, give back."""
        share = kernel.share
        self.threads -= blocks * share.threads
        self.registers -= blocks * share.registers
        self.shared_memory -= blocks * share.shared_memory
        self.blocks -= blocks


class Residency:
    """The SMs of a GPU and the blocks on them. ``changed`` is set by everything that changes
    either, and reset by whoever has taken note."""

    def __init__(self, gpu: GpuFacts) -> None:
        self.groups = [
            SmGroup(
                gpu.sm_count,
                gpu.threads_per_sm,
                gpu.registers_per_sm,
                gpu.shared_memory_per_sm,
                gpu.blocks_per_sm,
            )
        ]
        self.cohorts: list[Cohort] = []
        self.changed = False

    def warps(self) -> int:
        return sum(cohort.blocks * cohort.launch.kernel.warps for cohort in self.cohorts)

    def place(self, launch: Launched, now: float) -> str | None:
        """Place blocks of ``launch``, each on the SM with the most room for threads, until all are
        placed or none fits; then the resource that it lacks."""
        kernel = launch.kernel
        fitting = [group for group in self.groups if group.room(kernel)]
        while launch.unplaced:
            if not fitting:
                return self._lacking(kernel)
            if launch.start < 0:
                launch.start = now
            group = max(fitting, key=lambda group: group.threads)
            others = [other.threads for other in fitting if other.threads < group.threads]
            taken = self._place_on(launch, group, max(others, default=None))
            if taken is not group:
                fitting.append(taken)
            if not taken.room(kernel):
                fitting.remove(taken)
        return None

    def remove(self, cohort: Cohort) -> None:
        """Take the cohort's blocks, which have ended, from their SMs."""
        self.cohorts.remove(cohort)
        cohort.group.cohorts.remove(cohort)
        cohort.group.take(cohort.launch.kernel, -cohort.each)
        cohort.launch.running -= 1
        self.changed = True

    def merge_equal(self) -> None:
        """Join groups whose SMs hold the same blocks, all but equally far."""
        found: dict[tuple[tuple[Launched, int], ...], list[SmGroup]] = {}
        for group in self.groups:
            key = tuple([(cohort.launch, cohort.each) for cohort in group.cohorts])
            alike = found.setdefault(key, [])
            if not any(self._joined(other, group) for other in alike):
                alike.append(group)
        if len(self.groups) > sum(map(len, found.values())):
            self.groups = [group for group in self.groups if group.count]

    def _place_on(self, launch: Launched, group: SmGroup, next_threads: int | None) -> SmGroup:
        """Put blocks on the SMs of ``group`` until they have no more room than the next group,
        ``next_threads``, or split it if there is less than one block for each. The group that has
        them."""
        kernel, unplaced = launch.kernel, launch.unplaced
        if unplaced < group.count:
            group = self._split(group, unplaced)
        each = min(group.room(kernel), unplaced // group.count)
        if next_threads is not None:
            level = -(-(group.threads - next_threads) // kernel.share.threads)
            each = min(each, max(1, level))
        waves = 1
        if not group.cohorts and each == group.room(kernel):
            # It has these SMs for itself until its last blocks are placed: all waves but the last
            # ones in one go. The rest is placed as SMs become free.
            slots = sum(other.count for other in self.groups) * each
            waves = max(1, (unplaced - 1) // slots - (len(self.groups) > 1))
        group.take(kernel, each)
        launch.unplaced -= each * waves * group.count
        launch.running += 1
        cohort = Cohort(launch, group, each, float(waves))
        group.cohorts.append(cohort)
        self.cohorts.append(cohort)
        self.changed = True
        return group

    def _split(self, group: SmGroup, count: int) -> SmGroup:
        """Take ``count`` SMs out of a group, with their share of its cohorts."""
        part = SmGroup(count, group.threads, group.registers, group.shared_memory, group.blocks)
        group.count -= count
        for cohort in group.cohorts:
            half = Cohort(cohort.launch, part, cohort.each, cohort.left, cohort.rate)
            half.launch.running += 1
            part.cohorts.append(half)
            self.cohorts.append(half)
        self.groups.append(part)
        return part

    def _lacking(self, kernel: SimKernel) -> str:
        """What the SM with the most room has too little of."""
        group = max(self.groups, key=lambda group: (group.threads, group.registers))
        share = kernel.share
        for resource, has, needs in (
            ("threads", group.threads, share.threads),
            ("registers", group.registers, share.registers),
            ("shared memory", group.shared_memory, share.shared_memory),
        ):
            if has < needs:
                return resource
        return "block slots"

    def _joined(self, group: SmGroup, other: SmGroup) -> bool:
        """Add the SMs of ``other`` to ``group``, which holds as many blocks of the same launches,
        unless some are too differently far; ``other`` is then empty. The joint group is as far as
        the one that is less so: nothing gets faster by it."""
        pairs = list(zip(group.cohorts, other.cohorts, strict=True))
        if any(abs(cohort.left - merged.left) > _ALIKE for cohort, merged in pairs):
            return False
        for cohort, merged in pairs:
            cohort.left = max(cohort.left, merged.left)
            cohort.launch.running -= 1
            self.cohorts.remove(merged)
        group.count += other.count
        other.count = 0
        other.cohorts.clear()
        return True
