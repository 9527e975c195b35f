"""What is written down of a simulated run: when kernels ran, what held jobs up, resident warps."""

from __future__ import annotations

from collections.abc import Sequence

from workers.devices.sim.groups import Launched
from workers.devices.sim.jobs import Job, JobRun, SimRun
from workers.devices.sim.residency import Residency
from workers.hardware.occupancy import steps


class Recording:
    """Is told by the engine what happens to ``jobs``."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._spans: list[list[tuple[float, float]]] = [[] for _ in jobs]
        self._waits: list[tuple[float, dict[str, float]]] = [(0.0, {})] * len(jobs)
        self._levels: list[tuple[float, float]] = []

    def ready(self, number: int, free: float, start: float, ends: Sequence[float]) -> None:
        """All that the job waits for has ended: its stream is free since ``free``, its first kernel
        arrives at ``start``; ``ends`` has the ends of the jobs before it."""
        job = self._jobs[number]
        waited: dict[str, float] = {}
        time = free
        for other in sorted(job.after, key=lambda other: (ends[other], other)):
            if ends[other] > time:
                _add(waited, f"event of unit {self._jobs[other].unit!r}", ends[other] - time)
                time = ends[other]
        _add(waited, "launch", start - time)
        self._waits[number] = (free, waited)
        if not job.kernels:
            self._spans[number].append((start, start))

    def waiting(self, queue: Sequence[Launched], residency: Residency, step: float) -> None:
        """What holds up each queued kernel of which no block is placed yet, for ``step`` seconds:
        the first lacks room."""
        for launch in queue:
            if launch.start < 0:
                first = queue[0]
                reason = f"blocks of unit {self._jobs[first.job].unit!r} before it"
                if launch is first:
                    reason = residency.lacking(launch.kernel)
                _add(launch.blocked, reason, step)

    def warps(self, now: float, residency: Residency) -> None:
        self._levels.append((now, float(residency.warps())))

    def ended(self, launch: Launched, now: float) -> None:
        """The last block of a kernel has ended."""
        self._spans[launch.job].append((launch.start, now))
        if launch.position == 0:
            for reason, seconds in launch.blocked.items():
                _add(self._waits[launch.job][1], reason, seconds)

    def run(self, latency_s: float) -> SimRun:
        return SimRun(
            tuple(map(self._run_of, range(len(self._jobs)))), latency_s, steps(self._levels)
        )

    def _run_of(self, number: int) -> JobRun:
        spans = self._spans[number]
        free, waited = self._waits[number]
        reasons = sorted(waited.items(), key=lambda item: -item[1])
        return JobRun(spans[0][0], spans[-1][1], free, tuple(reasons), tuple(spans))


def _add(waited: dict[str, float], reason: str, seconds: float) -> None:
    if seconds > 0:
        waited[reason] = waited.get(reason, 0.0) + seconds
