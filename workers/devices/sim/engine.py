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

A Plan takes time in its kernels, not in their blocks. A search asks for nothing but latencies
(``latency_s``); what else is known of a run is written down in ``simulate`` alone (``recording``).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence

from workers.devices.sim.groups import Cohort, Launched, SmGroup
from workers.devices.sim.jobs import Job, SimRun
from workers.devices.sim.launch_path import LaunchPath
from workers.devices.sim.recording import Recording
from workers.devices.sim.residency import Residency
from workers.devices.sim.sharing import Memory, set_rates
from workers.hardware.gpu import GpuFacts

__all__ = ["Job", "SimRun", "latency_s", "simulate"]

CLOSE = 1e-9  # of a time: more than rounding ever adds up to


def simulate(gpu: GpuFacts, memory: Memory, path: LaunchPath, jobs: Sequence[Job]) -> SimRun:
    """Run ``jobs``, each of which comes after those that it waits for."""
    recording = Recording(jobs)
    ends = _Simulation(gpu, memory, path, jobs, recording).run()
    return recording.run(max(ends, default=0.0))


def latency_s(gpu: GpuFacts, memory: Memory, path: LaunchPath, jobs: Sequence[Job]) -> float:
    """The latency that ``simulate`` gives."""
    return max(_Simulation(gpu, memory, path, jobs, None).run(), default=0.0)


class _Simulation:
    def __init__(
        self,
        gpu: GpuFacts,
        memory: Memory,
        path: LaunchPath,
        jobs: Sequence[Job],
        recording: Recording | None,
    ) -> None:
        self._memory, self._path, self._jobs, self._recording = memory, path, jobs, recording
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
        self._arrivals: list[tuple[float, int, int]] = []  # ready, job, kernel of the job
        self._queue: deque[Launched] = deque()
        self._residency = Residency(gpu)
        self._launched = 0
        self._now = 0.0

    def run(self) -> Sequence[float]:
        """When each job ended."""
        for number in [number for number, missing in enumerate(self._missing) if not missing]:
            self._become_ready(number)
        residency, recording = self._residency, self._recording
        while self._arrivals or self._queue or residency.cohorts:
            self._admit()
            while self._queue and residency.place(self._queue[0], self._now):
                self._queue.popleft()
            if residency.changed:
                set_rates(residency, self._memory, self._now)
                residency.changed = False
                if recording is not None:
                    recording.warps(self._now, residency)
            self._advance()
        if residency.changed and recording is not None:
            recording.warps(self._now, residency)
        return self._ends

    def _become_ready(self, number: int) -> None:
        """Everything that the job waits for has ended: its first kernel arrives."""
        job, path = self._jobs[number], self._path
        before = self._before[number]
        free = self._ends[before] if before >= 0 else 0.0
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
        if self._recording is not None:
            self._recording.ready(number, free, start, self._ends)
        if job.kernels:
            heapq.heappush(self._arrivals, (start, number, 0))
        else:
            # Its place in the stream's order is all there is of it.
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
            kernel, work = self._jobs[job].kernels[position], self._jobs[job].kernels[position].work
            self._launched += 1
            tag = hash((self._launched,))  # multiples of which hardly ever add up to the same
            self._queue.append(
                Launched(job, position, kernel, work, tag, kernel.grid, 1 / work.alone_s)
            )

    def _advance(self) -> None:
        """To the next time at which something ends or arrives.

        Of several cohorts that end by and by, the last that ends before any has been kept waiting
        for more than a little of its wave is what ends next. Only groups that may have such a
        cohort are looked at.
        """
        residency, now = self._residency, self._now
        steps = residency.steps
        near, ending = self._near(), math.inf
        if near:
            until = math.inf
            for group in near:
                group.settle(steps)
                until = min(until, group.until())
            ending = max([group.last_end(until) for group in near])
        arriving = self._arrivals[0][0] - now if self._arrivals else math.inf
        step = min(ending, arriving)
        if self._recording is not None:
            self._recording.waiting(self._queue, residency, step)
        self._now = self._arrivals[0][0] if arriving <= ending else now + step
        steps.append(step)
        ended = [cohort for group in near for cohort in group.run(step)]
        for cohort in ended:
            self._end_cohort(cohort)
        if ended:
            residency.merge_equal()

    def _near(self) -> list[SmGroup]:
        """The groups with a cohort that may end next; none if something arrives before any."""
        groups = self._residency.groups
        latest = min([group.latest for group in groups])
        if latest == math.inf:
            return []
        latest *= 1 + CLOSE
        near = [group for group in groups if group.soonest <= latest]
        if self._arrivals:
            arriving = self._arrivals[0][0] * (1 + CLOSE)
            if arriving < min([group.soonest for group in near]):
                return []
        return near

    def _end_cohort(self, cohort: Cohort) -> None:
        launch = cohort.launch
        self._residency.remove(cohort)
        if launch.running or launch.unplaced:
            return
        number, following = launch.job, launch.position + 1
        if self._recording is not None:
            self._recording.ended(launch, self._now)
        if following == len(self._jobs[number].kernels):
            self._end_job(number, self._now)
        else:
            ready = max(self._issued[number][following], self._now + self._path.follow)
            heapq.heappush(self._arrivals, (ready, number, following))


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
