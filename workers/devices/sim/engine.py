"""The discrete-event simulation of a Plan on a GPU.

**Launching.** One issuer hands kernels over in the Plan's order (``launch_path``). A kernel is
ready when it was issued, the kernel before it on its stream has ended and so have those whose
events it waits for.

**Placing.** Ready kernels queue in the order in which they became ready. Only blocks of the first
are placed, on the SM with the most room, until all of them are; then it is the next one's turn
("leftover"). A block stays until it ends. This is what Amert, Otterness, Yang, Anderson and Smith
observed of NVIDIA's hardware ("GPU Scheduling on the NVIDIA TX2: Hidden Details Revealed", RTSS
2017, rules on the execution engine queue).

**Running.** Blocks progress like fluids, at rates that are computed anew whenever a block starts
or ends: no faster than alone; the blocks of an SM share its arithmetic throughput in proportion to
what they ask for; all blocks share DRAM and L2 bandwidth so that no kernel gets less than its share
by warps unless it asks for less (max-min fairness).

**Aggregation.** Blocks of one kernel that start together on SMs with equal contents are one
*cohort*, and SMs with equal contents one *group*; a kernel with many times more blocks than fit at
once runs on a group of its own in one cohort of many waves. No block is ever looked at alone, so
that a Plan takes time in its kernels, not in their blocks.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from workers.devices.gpu import GpuFacts
from workers.devices.occupancy import steps
from workers.devices.sim.kernel import BlockWork, SimKernel
from workers.devices.sim.launch_path import LaunchPath

_ALIKE = 0.1  # of a wave: by how much blocks may differ that are merged
_DONE = 1e-9  # of a wave: what is left of a cohort that is complete but for rounding


@dataclass(frozen=True, slots=True)
class Memory:
    """What all SMs share: bandwidths in bytes per second that can really be had, L2 in bytes."""

    dram_bytes_per_s: float
    l2_bytes_per_s: float
    l2_bytes: float


@dataclass(frozen=True, slots=True)
class Job:
    """One launch of the Plan: the Unit's kernels one after the other on ``stream``, after the jobs
    ``after``, whose events it waits for. A Unit may have no kernel."""

    unit: str
    stream: int
    kernels: tuple[SimKernel, ...]
    after: tuple[int, ...] = ()
    records: bool = False


@dataclass(frozen=True, slots=True)
class JobRun:
    """When a job ran, in seconds from the start of the Plan, with (reason, seconds) of what it
    waited for since its stream was free, at ``free_s``. ``kernels`` are (start, end)."""

    start_s: float
    end_s: float
    free_s: float
    waited: tuple[tuple[str, float], ...]
    kernels: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class SimRun:
    """A simulated run: jobs in the Plan's order, latency, and steps (seconds, resident warps)."""

    jobs: tuple[JobRun, ...]
    latency_s: float
    warps: tuple[tuple[float, float], ...]


def simulate(gpu: GpuFacts, memory: Memory, path: LaunchPath, jobs: Sequence[Job]) -> SimRun:
    """Run ``jobs``, each of which comes after those that it waits for."""
    return _Simulation(gpu, memory, path, jobs).run()


@dataclass(slots=True, eq=False)
class _Group:
    """``count`` SMs with equal contents and what each has left."""

    count: int
    threads: int
    registers: int
    shared_memory: int
    blocks: int
    cohorts: list[_Cohort] = field(default_factory=list)

    def room(self, kernel: SimKernel) -> int:
        """How many more blocks of ``kernel`` fit on each SM."""
        share = kernel.share
        fitting = min(self.blocks, self.threads // share.threads)
        if share.registers:
            fitting = min(fitting, self.registers // share.registers)
        if share.shared_memory:
            fitting = min(fitting, self.shared_memory // share.shared_memory)
        return fitting

    def take(self, kernel: SimKernel, blocks: int) -> None:
        """Take the resources of ``blocks`` blocks on each SM; of a negative number, give back."""
        share = kernel.share
        self.threads -= blocks * share.threads
        self.registers -= blocks * share.registers
        self.shared_memory -= blocks * share.shared_memory
        self.blocks -= blocks


@dataclass(slots=True, eq=False)
class _Cohort:
    """``each`` blocks of a launch on each SM of ``group``, with ``left`` waves still to run."""

    launch: _Launch
    group: _Group
    each: int
    left: float
    rate: float = 0.0


@dataclass(slots=True, eq=False)
class _Launch:
    """A kernel on its way: ``unplaced`` blocks, ``running`` cohorts. ``alone_rate`` is how many
    waves a second its blocks make when nothing holds them up."""

    job: int
    position: int
    kernel: SimKernel
    ready: float
    unplaced: int
    alone_rate: float
    running: int = 0
    start: float = -1.0
    blocked: dict[str, float] = field(default_factory=dict)


class _Simulation:
    def __init__(
        self, gpu: GpuFacts, memory: Memory, path: LaunchPath, jobs: Sequence[Job]
    ) -> None:
        self._gpu, self._memory, self._path, self._jobs = gpu, memory, path, jobs
        self._issued = _issue_times(path, jobs)
        self._before = [-1] * len(jobs)
        self._after: list[list[int]] = [[] for _ in jobs]
        self._missing = [0] * len(jobs)
        last: dict[int, int] = {}
        for number, job in enumerate(jobs):
            self._before[number] = last.get(job.stream, -1)
            last[job.stream] = number
            needed = set(job.after)
            if self._before[number] >= 0:
                needed.add(self._before[number])
            self._missing[number] = len(needed)
            for other in needed:
                self._after[other].append(number)
        self._ends = [0.0] * len(jobs)
        self._spans: list[list[tuple[float, float]]] = [[] for _ in jobs]
        self._waits: list[tuple[float, dict[str, float]]] = [(0.0, {})] * len(jobs)
        self._arrivals: list[tuple[float, int, int]] = []
        self._queue: list[_Launch] = []
        self._groups = [self._empty(gpu.sm_count)]
        self._cohorts: list[_Cohort] = []
        self._levels: list[tuple[float, float]] = []
        self._now = 0.0
        self._changed = False

    def run(self) -> SimRun:
        for number in [number for number, missing in enumerate(self._missing) if not missing]:
            self._become_ready(number)
        while self._arrivals or self._queue or self._cohorts:
            self._admit()
            blocked = self._place()
            if self._changed:
                self._set_rates()
                self._note_warps()
                self._changed = False
            self._advance(blocked)
        if self._changed:
            self._note_warps()
        runs = tuple(self._run_of(number) for number in range(len(self._jobs)))
        latency = max((run.end_s for run in runs), default=0.0)
        return SimRun(runs, latency, steps(self._levels))

    # Launching

    def _become_ready(self, number: int) -> None:
        """Everything that the job waits for has ended: its first kernel arrives."""
        job, path = self._jobs[number], self._path
        before = self._before[number]
        free = self._ends[before] if before >= 0 else 0.0
        waited: dict[str, float] = {}
        time = free
        for other in sorted(job.after, key=lambda other: (self._ends[other], other)):
            if self._ends[other] > time:
                _add(waited, f"event of unit {self._jobs[other].unit!r}", self._ends[other] - time)
                time = self._ends[other]
        start = self._issued[number][0]
        if before >= 0:
            start = max(start, free + path.follow)
        for other in job.after:
            start = max(start, self._ends[other] + path.signal)
        _add(waited, "launch", start - time)
        self._waits[number] = (free, waited)
        if job.kernels:
            heapq.heappush(self._arrivals, (start, number, 0))
        else:
            # A Unit without a kernel: its place in the stream's order is all there is of it.
            self._spans[number].append((start, start))
            self._end_job(number, start)

    def _end_job(self, number: int, time: float) -> None:
        self._ends[number] = time
        for other in self._after[number]:
            self._missing[other] -= 1
            if not self._missing[other]:
                self._become_ready(other)

    def _admit(self) -> None:
        """Queue the kernels that have become ready by now."""
        while self._arrivals and self._arrivals[0][0] <= self._now:
            ready, job, position = heapq.heappop(self._arrivals)
            kernel = self._jobs[job].kernels[position]
            self._queue.append(
                _Launch(job, position, kernel, ready, kernel.grid, 1 / kernel.work.alone_s)
            )

    # Placing

    def _place(self) -> str | None:
        """Place blocks until one fits nowhere; the resource that it lacks, if so."""
        while self._queue:
            launch = self._queue[0]
            lacking = self._place_blocks(launch)
            if lacking is not None:
                return lacking
            self._queue.pop(0)
        return None

    def _place_blocks(self, launch: _Launch) -> str | None:
        kernel = launch.kernel
        while launch.unplaced:
            fitting = [group for group in self._groups if group.room(kernel)]
            if not fitting:
                return self._lacking(kernel)
            if launch.start < 0:
                launch.start = self._now
            group = max(fitting, key=lambda group: group.threads)
            others = [g.threads for g in fitting if g.threads < group.threads]
            self._place_on(launch, group, max(others, default=None))
        return None

    def _place_on(self, launch: _Launch, group: _Group, next_threads: int | None) -> None:
        """Put blocks on the SMs of ``group`` until they have no more room than the next group,
        ``next_threads``, or split it if there is less than one block for each."""
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
            slots = sum(other.count for other in self._groups) * each
            waves = max(1, (unplaced - 1) // slots - (len(self._groups) > 1))
        group.take(kernel, each)
        launch.unplaced -= each * waves * group.count
        launch.running += 1
        cohort = _Cohort(launch, group, each, float(waves))
        group.cohorts.append(cohort)
        self._cohorts.append(cohort)
        self._changed = True

    def _split(self, group: _Group, count: int) -> _Group:
        """Take ``count`` SMs out of a group, with their share of its cohorts."""
        part = _Group(count, group.threads, group.registers, group.shared_memory, group.blocks)
        group.count -= count
        for cohort in group.cohorts:
            half = _Cohort(cohort.launch, part, cohort.each, cohort.left, cohort.rate)
            half.launch.running += 1
            part.cohorts.append(half)
            self._cohorts.append(half)
        self._groups.append(part)
        return part

    def _lacking(self, kernel: SimKernel) -> str:
        """What the SM with the most room has too little of."""
        group = max(self._groups, key=lambda group: (group.threads, group.registers))
        share = kernel.share
        for resource, has, needs in (
            ("threads", group.threads, share.threads),
            ("registers", group.registers, share.registers),
            ("shared memory", group.shared_memory, share.shared_memory),
        ):
            if has < needs:
                return resource
        return "block slots"

    def _empty(self, count: int) -> _Group:
        gpu = self._gpu
        return _Group(
            count,
            gpu.threads_per_sm,
            gpu.registers_per_sm,
            gpu.shared_memory_per_sm,
            gpu.blocks_per_sm,
        )

    # Running

    def _set_rates(self) -> None:
        cohorts = self._cohorts
        if not cohorts:
            return
        hit = self._hit_rate()
        for cohort in cohorts:
            cohort.rate = cohort.launch.alone_rate
        limited = self._fill(hit, set())
        if limited and len(limited) < len(cohorts):
            # What the memory holds back leaves arithmetic throughput to the others.
            for cohort in cohorts:
                if cohort not in limited:
                    cohort.rate = cohort.launch.alone_rate
            self._fill(hit, limited)

    def _fill(self, hit: float, kept: set[_Cohort]) -> set[_Cohort]:
        """Bring the rates down to what SMs, DRAM and L2 allow; the cohorts that memory slowed.
        Those in ``kept`` are not slowed down by the others of their SMs."""
        for group in self._groups:
            if group.cohorts:
                _share_compute(group, kept)
        missed = 1 - hit
        dram = l2 = 0.0
        for cohort in self._cohorts:
            work, pace = cohort.launch.kernel.work, cohort.rate * cohort.each * cohort.group.count
            dram += pace * (work.dram_bytes + missed * work.reused_bytes)
            l2 += pace * work.l2_bytes
        slowed: set[_Cohort] = set()
        if dram > self._memory.dram_bytes_per_s:
            slowed = _share_bytes(
                self._cohorts,
                lambda work: work.dram_bytes + missed * work.reused_bytes,
                self._memory.dram_bytes_per_s,
            )
        if l2 > self._memory.l2_bytes_per_s:
            slowed |= _share_bytes(
                self._cohorts, lambda work: work.l2_bytes, self._memory.l2_bytes_per_s
            )
        return slowed

    def _hit_rate(self) -> float:
        """How much of what earlier kernels wrote is still in L2 when the running ones read it."""
        launches = {id(c.launch): c.launch.kernel.working_set for c in self._cohorts}
        wanted = math.fsum(launches.values())
        return 1.0 if wanted <= self._memory.l2_bytes else self._memory.l2_bytes / wanted

    def _note_warps(self) -> None:
        warps = sum(c.each * c.group.count * c.launch.kernel.warps for c in self._cohorts)
        self._levels.append((self._now, float(warps)))

    def _advance(self, blocked: str | None) -> None:
        """To the next time at which something ends or arrives."""
        ending = min((c.left / c.rate for c in self._cohorts), default=math.inf)
        arriving = self._arrivals[0][0] - self._now if self._arrivals else math.inf
        step = min(ending, arriving)
        self._note_waiting(blocked, step)
        if arriving <= ending:
            self._now = self._arrivals[0][0]
        else:
            self._now += step
        ended = []
        for cohort in self._cohorts:
            cohort.left -= step * cohort.rate
            if cohort.left <= _DONE:
                ended.append(cohort)
        for cohort in ended:
            self._end_cohort(cohort)
        if ended:
            self._merge_equal()
            self._changed = True

    def _note_waiting(self, blocked: str | None, step: float) -> None:
        for launch in self._queue:
            if launch.start < 0:
                first = self._queue[0]
                reason = blocked or ""
                if launch is not first:
                    reason = f"blocks of unit {self._jobs[first.job].unit!r} before it"
                _add(launch.blocked, reason, step)

    def _end_cohort(self, cohort: _Cohort) -> None:
        launch = cohort.launch
        self._cohorts.remove(cohort)
        cohort.group.cohorts.remove(cohort)
        cohort.group.take(launch.kernel, -cohort.each)
        launch.running -= 1
        if launch.running or launch.unplaced:
            return
        number = launch.job
        self._spans[number].append((launch.start, self._now))
        if launch.position == 0:
            for reason, seconds in launch.blocked.items():
                _add(self._waits[number][1], reason, seconds)
        following = launch.position + 1
        if following == len(self._jobs[number].kernels):
            self._end_job(number, self._now)
        else:
            ready = max(self._issued[number][following], self._now + self._path.follow)
            heapq.heappush(self._arrivals, (ready, number, following))

    def _merge_equal(self) -> None:
        """Join groups whose SMs hold the same blocks, all but equally far."""
        found: dict[tuple[tuple[_Launch, int], ...], list[_Group]] = {}
        for group in self._groups:
            key = tuple([(cohort.launch, cohort.each) for cohort in group.cohorts])
            alike = found.setdefault(key, [])
            if not any(self._joined(other, group) for other in alike):
                alike.append(group)
        if len(self._groups) > sum(map(len, found.values())):
            self._groups = [group for group in self._groups if group.count]

    def _joined(self, group: _Group, other: _Group) -> bool:
        """Add the SMs of ``other`` to ``group``, which holds as many blocks of the same launches,
        unless some are too differently far; ``other`` is then empty. The joint group is as far as
        the one that is less so: nothing gets faster by it."""
        pairs = list(zip(group.cohorts, other.cohorts, strict=True))
        if any(abs(cohort.left - merged.left) > _ALIKE for cohort, merged in pairs):
            return False
        for cohort, merged in pairs:
            cohort.left = max(cohort.left, merged.left)
            cohort.launch.running -= 1
            self._cohorts.remove(merged)
        group.count += other.count
        other.count = 0
        other.cohorts.clear()
        return True

    def _run_of(self, number: int) -> JobRun:
        spans = self._spans[number]
        free, waited = self._waits[number]
        reasons = sorted(waited.items(), key=lambda item: -item[1])
        return JobRun(spans[0][0], spans[-1][1], free, tuple(reasons), tuple(spans))


def _issue_times(path: LaunchPath, jobs: Sequence[Job]) -> list[list[float]]:
    """When each kernel of each job has been issued; a job without kernels still takes its turn."""
    time = path.first
    issued: list[list[float]] = []
    for job in jobs:
        time += path.wait * len(job.after)
        times = []
        for _ in job.kernels:
            time += path.kernel
            times.append(time)
        issued.append(times or [time])
        if job.records:
            time += path.record
    return issued


def _share_compute(group: _Group, kept: set[_Cohort]) -> None:
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
    cohorts: Sequence[_Cohort], need: Callable[[BlockWork], float], bandwidth: float
) -> set[_Cohort]:
    """Slow cohorts down until together they move no more than ``bandwidth``; those slowed down.

    ``need`` gives the bytes of one block. Max-min fair with warps as weights: a cohort that wants
    less than its share keeps its rate, and what it leaves goes to the others.
    """
    asking: list[tuple[float, int, float, float]] = []  # bytes/s for each warp, cohort, …
    for number, cohort in enumerate(cohorts):
        kernel, blocks = cohort.launch.kernel, cohort.each * cohort.group.count
        needed, warps = need(kernel.work) * blocks, float(blocks * kernel.warps)
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


def _add(waited: dict[str, float], reason: str, seconds: float) -> None:
    if seconds > 0:
        waited[reason] = waited.get(reason, 0.0) + seconds
