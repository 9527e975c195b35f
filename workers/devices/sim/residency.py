"""Which blocks are on which SMs.

Blocks of one kernel that start together on SMs with equal contents are one *cohort*, and SMs with
equal contents one *group* (``groups``), so that no block is ever looked at alone. A kernel with
many times more blocks than fit at once runs on a group of its own in one cohort of many waves.
"""

from __future__ import annotations

import math

from workers.devices.sim.groups import ROUNDING, Cohort, Launched, SmGroup
from workers.devices.sim.kernel import SimKernel
from workers.hardware.gpu import GpuFacts

ALIKE = 0.03
"""Of a wave: by how much blocks may differ that are merged."""


class Residency:
    """The SMs of a GPU and the blocks on them. ``changed`` is set by everything that changes
    either, and reset by whoever has taken note. ``cohorts`` are in the order of their making;
    ``steps`` are all the seconds by which the simulation has moved on, ``limited`` says whether
    rates are less than what SMs alone would allow."""

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
        self.cohorts: dict[Cohort, None] = {}
        self.steps: list[float] = []
        self.changed = False
        self.limited = False
        self._sm_count = gpu.sm_count
        self._launches: dict[Launched, None] = {}  # those with resident blocks
        self._working_set: float | None = None
        self._merges = 0
        self._all_moved = False

    def warps(self) -> int:
        return sum(cohort.blocks * cohort.launch.kernel.warps for cohort in self.cohorts)

    def working_set(self) -> float:
        """The bytes that compete for L2: those of all kernels with resident blocks."""
        if self._working_set is None:
            self._working_set = math.fsum([one.kernel.working_set for one in self._launches])
        return self._working_set

    def settle(self) -> None:
        for group in self.groups:
            group.settle(self.steps)

    def limit(self) -> None:
        """Rates no longer follow from what is on an SM: SMs with equal contents may differ."""
        self.limited = self._all_moved = True

    def place(self, launch: Launched, now: float) -> bool:
        """Place blocks of ``launch``, each on the SM with the most room for threads, until all are
        placed or none fits; whether all are."""
        kernel = launch.kernel
        fitting = []
        for group in self.groups:
            if group.full_for is not kernel:
                group.space = group.room(kernel)
                if group.space:
                    fitting.append(group)
                else:
                    group.full_for = kernel
        if fitting and launch.start < 0:
            launch.start = now
        while launch.unplaced:
            if not fitting:
                return False
            group, most, following = fitting[0], fitting[0].threads, 0
            for other in fitting:
                threads = other.threads
                if threads > most:
                    group, most, following = other, threads, most
                elif following < threads < most:
                    following = threads
            taken = self._place_on(launch, group, following)
            if taken is not group:
                fitting.append(taken)
            taken.space = taken.room(kernel)
            if not taken.space:
                taken.full_for = kernel
                fitting.remove(taken)
        return True

    def remove(self, cohort: Cohort) -> None:
        """Take the cohort's blocks, which have ended, from their SMs."""
        group, launch = cohort.group, cohort.launch
        del self.cohorts[cohort]
        group.cohorts.remove(cohort)
        group.take(launch, -cohort.each)
        group.full_for = None
        group.merges = self._merges
        self.changed = True
        launch.running -= 1
        if not launch.running:
            del self._launches[launch]
            self._working_set = None

    def merge_equal(self) -> None:
        """Join groups whose SMs hold the same blocks, all but equally far. Two that were too far
        from each other stay so until one of them changes."""
        merges, all_moved = self._merges, self._all_moved
        self._merges, self._all_moved = merges + 1, False
        if len({group.key for group in self.groups}) == len(self.groups):
            return
        found: dict[int, list[SmGroup]] = {}
        joined = False
        for group in self.groups:
            alike = found.get(group.key)
            if alike is None:
                found[group.key] = [group]
                continue
            for other in alike:
                moved = all_moved or group.merges >= merges or other.merges >= merges
                if moved and self._joined(other, group):
                    joined = True
                    break
            else:
                alike.append(group)
        if joined:
            self.groups = [group for group in self.groups if group.count]

    def lacking(self, kernel: SimKernel) -> str:
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

    def _place_on(self, launch: Launched, group: SmGroup, next_threads: int) -> SmGroup:
        """Put blocks on the SMs of ``group`` until they have no more room than the next group,
        ``next_threads`` (0: there is none), or split it if there is less than one block for each.
        The group that has them."""
        kernel, unplaced, space = launch.kernel, launch.unplaced, group.space
        group.settle(self.steps)
        if unplaced < group.count:
            group = self._split(group, unplaced)
        each = unplaced // group.count
        if space < each:  # noqa: PLR1730  # as in ``foresee``
            each = space
        if next_threads and each > 1:
            level = -(-(group.threads - next_threads) // kernel.share.threads)
            each = min(each, max(1, level))
        waves = 1
        if each == space and not group.cohorts:
            # It has these SMs for itself until its last blocks are placed: all waves but the last
            # ones in one go. The rest is placed as SMs become free.
            slots = self._sm_count * each
            waves = max(1, (unplaced - 1) // slots - (len(self.groups) > 1))
        group.take(launch, each)
        if not launch.running:
            self._launches[launch] = None
            self._working_set = None
        launch.unplaced -= each * waves * group.count
        launch.running += 1
        cohort = Cohort(launch, group, each, float(waves))
        group.cohorts.append(cohort)
        self.cohorts[cohort] = None
        group.merges = self._merges
        self.changed = True
        return group

    def _split(self, group: SmGroup, count: int) -> SmGroup:
        """Take ``count`` SMs out of a group, with their share of its cohorts."""
        part = SmGroup(count, group.threads, group.registers, group.shared_memory, group.blocks)
        part.settled, part.key = group.settled, group.key
        group.count -= count
        for cohort in group.cohorts:
            half = Cohort(cohort.launch, part, cohort.each, cohort.left, cohort.rate)
            half.launch.running += 1
            part.cohorts.append(half)
            self.cohorts[half] = None
        self.groups.append(part)
        return part

    def _joined(self, group: SmGroup, other: SmGroup) -> bool:
        """Add the SMs of ``other`` to ``group``, which holds as many blocks of the same launches,
        unless some are too differently far; ``other`` is then empty. The joint group is as far as
        the one that is less so: nothing gets faster by it."""
        pairs = list(zip(group.cohorts, other.cohorts, strict=False))
        for cohort, merged in pairs:
            if cohort.launch is not merged.launch or cohort.each != merged.each:
                return False  # not in the same order
        if len(group.cohorts) != len(other.cohorts):
            return False
        group.settle(self.steps)
        other.settle(self.steps)
        apart = max([abs(cohort.left - merged.left) for cohort, merged in pairs], default=0.0)
        if apart > ALIKE:
            if apart < ALIKE + ROUNDING:
                group.merges = self._merges  # so that they are compared the next time, too
            return False
        for cohort, merged in pairs:
            cohort.left = max(cohort.left, merged.left)
            cohort.launch.running -= 1
            del self.cohorts[merged]
        group.count += other.count
        group.rated = False
        group.merges = self._merges  # those that it has been compared with count again
        other.count = 0
        other.cohorts.clear()
        return True
