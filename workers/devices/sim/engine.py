"""The discrete-event simulation of a Plan on a GPU.

**Launching.** One issuer hands kernels over in the Plan's order (``launch_path``). A kernel is
ready when it was issued, the kernel before it on its stream has ended and so have those whose
events it waits for.

**Placing.** Ready kernels queue in the order in which they became ready. Only blocks of the first
are placed, on the SM with the most room, until all of them are; then it is the next one's turn
("leftover"). A block stays until it ends. This is what Amert, Otterness, Yang, Anderson and Smith
observed of NVIDIA's hardware ("GPU Scheduling on the NVIDIA TX2: Hidden Details Revealed", RTSS
2017, Section 3: rules G2, G3, X1 and R1 to R3). On which SM a block goes, they do not say; ours is
an *estimate*. ``residency`` does the book-keeping.

**Running.** Blocks progress like fluids, at rates that are computed anew whenever a block starts
or ends (``sharing``).

A Plan takes time in its kernels, not in their blocks.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from workers.devices.gpu import GpuFacts
from workers.devices.occupancy import steps
from workers.devices.sim.kernel import SimKernel
from workers.devices.sim.launch_path import LaunchPath
from workers.devices.sim.residency import Cohort, Launched, Residency
from workers.devices.sim.sharing import Memory, set_rates

_DONE = 1e-9  # of a wave: what is left of a cohort that is complete but for rounding
_TOGETHER = 0.02  # of a wave: by how much blocks that end one by one are taken to end later


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


class _Simulation:
    def __init__(
        self, gpu: GpuFacts, memory: Memory, path: LaunchPath, jobs: Sequence[Job]
    ) -> None:
        self._memory, self._path, self._jobs = memory, path, jobs
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
        self._arrivals: list[tuple[float, int, int]] = []  # ready, job, kernel of the job
        self._queue: list[Launched] = []
        self._residency = Residency(gpu)
        self._levels: list[tuple[float, float]] = []
        self._now = 0.0

    def run(self) -> SimRun:
        for number in [number for number, missing in enumerate(self._missing) if not missing]:
            self._become_ready(number)
        while self._arrivals or self._queue or self._residency.cohorts:
            self._admit()
            lacking = self._place()
            self._take_note()
            self._advance(lacking)
        self._take_note()
        runs = tuple(self._run_of(number) for number in range(len(self._jobs)))
        latency = max((run.end_s for run in runs), default=0.0)
        return SimRun(runs, latency, steps(self._levels))

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
        # A Unit without a kernel adds no gap: the next kernel on its stream comes one gap after the
        # kernel before it, or one signal after what it waits for.
        follow, signal = path.follow, path.signal
        if not job.kernels:
            follow, signal = 0.0, max(0.0, signal - follow)
        start = self._issued[number][0]
        if before >= 0:
            start = max(start, free + follow)
        for other in job.after:
            start = max(start, self._ends[other] + signal)
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
            _, job, position = heapq.heappop(self._arrivals)
            kernel = self._jobs[job].kernels[position]
            self._queue.append(
                Launched(job, position, kernel, kernel.grid, 1 / kernel.work.alone_s)
            )

    def _place(self) -> str | None:
        """Place blocks until one fits nowhere; the resource that it lacks, if so."""
        while self._queue:
            lacking = self._residency.place(self._queue[0], self._now)
            if lacking is not None:
                return lacking
            self._queue.pop(0)
        return None

    def _take_note(self) -> None:
        """Of what has been placed or has ended: set rates, write down warps."""
        if self._residency.changed:
            set_rates(self._residency, self._memory)
            self._levels.append((self._now, float(self._residency.warps())))
            self._residency.changed = False

    def _advance(self, lacking: str | None) -> None:
        """To the next time at which something ends or arrives."""
        cohorts = self._residency.cohorts
        ending = _next_end(cohorts)
        arriving = self._arrivals[0][0] - self._now if self._arrivals else math.inf
        step = min(ending, arriving)
        self._note_waiting(lacking, step)
        self._now = self._arrivals[0][0] if arriving <= ending else self._now + step
        ended = []
        for cohort in cohorts:
            cohort.left -= step * cohort.rate
            if cohort.left <= _DONE:
                ended.append(cohort)
        for cohort in ended:
            self._end_cohort(cohort)
        if ended:
            self._residency.merge_equal()

    def _note_waiting(self, lacking: str | None, step: float) -> None:
        """What holds up each queued kernel of which no block is placed yet."""
        for launch in self._queue:
            if launch.start < 0:
                first = self._queue[0]
                reason = f"blocks of unit {self._jobs[first.job].unit!r} before it"
                _add(launch.blocked, lacking or "" if launch is first else reason, step)

    def _end_cohort(self, cohort: Cohort) -> None:
        launch = cohort.launch
        self._residency.remove(cohort)
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

    def _run_of(self, number: int) -> JobRun:
        spans = self._spans[number]
        free, waited = self._waits[number]
        reasons = sorted(waited.items(), key=lambda item: -item[1])
        return JobRun(spans[0][0], spans[-1][1], free, tuple(reasons), tuple(spans))


def _next_end(cohorts: Sequence[Cohort]) -> float:
    """In how many seconds the next cohort ends, or the last of those that end together as far as
    none of them is kept waiting for more than a little of its wave. Infinite if there is none."""
    ends = [cohort.left / cohort.rate for cohort in cohorts]
    if len(ends) < 2:
        return ends[0] if ends else math.inf
    latest = min([end + _TOGETHER / cohort.rate for end, cohort in zip(ends, cohorts, strict=True)])
    return max([end for end in ends if end <= latest])


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


def _add(waited: dict[str, float], reason: str, seconds: float) -> None:
    if seconds > 0:
        waited[reason] = waited.get(reason, 0.0) + seconds
