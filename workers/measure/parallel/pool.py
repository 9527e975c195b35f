"""The Precise Parallel Measurer's processes (DOPpler, Section 4.2, Algorithm 1).

Candidates are measured by processes that stay, so many at once on each device as the degree of
parallelism says. A process that takes too long is killed and replaced: nothing that it would still
have said can reach another candidate. Departure: Algorithm 1 takes ``d_p × G`` candidates at a
time; here the next one begins when any has ended, so that one straggler leaves no process idle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Protocol

from workers.measure.effort import Effort, never
from workers.measure.measurement import Failure
from workers.measure.parallel.child import Child, ChildError
from workers.measure.parallel.subject import Outcome, Reading, Subject

_MODULE = "workers.measure.parallel.worker"

Told = Callable[[Outcome], None]

PoolError = ChildError
"""A measuring process that could not be started; the message says what it left behind."""


class MeasuringPool(Protocol):
    """What measurers measure on: ``WorkerPool``, or one that spreads over several hosts."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it measures. It does not change between the end of a ``measure`` and the next."""
        ...

    @property
    def made_s(self) -> float:
        """When it was made, by ``time.monotonic``: the zero of its outcomes' times."""
        ...

    def measure(
        self,
        subjects: Sequence[Subject],
        degree: int,
        timeout_s: float,
        effort: Effort,
        told: Told = lambda outcome: None,
        expired: Callable[[], bool] = never,
        places: Sequence[str] | None = None,
    ) -> list[Outcome | None]:
        """Measure every candidate, ``degree`` (d_p) at once on each device, each for at most
        ``timeout_s``. ``told`` hears of each outcome at once. Once ``expired`` is true none is
        begun any more; those left are None. ``places`` has the device of each candidate, where
        that matters."""
        ...

    def close(self) -> None:
        """End what is left of it. Safe to call twice."""
        ...


class WorkerPool:
    """Processes on ``devices`` (named as ``Subject.open`` takes them), started when first needed.

    ``prepare`` names a function without arguments, ``module:function``, that each process calls
    before its first candidate, so that loading a library is not taken for a part of measuring it.
    Not for several threads at once. ``close`` kills what is left.
    """

    def __init__(self, devices: Sequence[str], prepare: str = "") -> None:
        if not devices:
            raise ValueError("a pool needs at least one device")
        self._devices = tuple(devices)
        self._prepare = prepare
        self._idle: dict[str, list[_Worker]] = {device: [] for device in devices}
        self._busy: list[_Worker] = []
        self._started = 0
        self._token = 0
        self._made = time.monotonic()

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it measures."""
        return self._devices

    @property
    def started(self) -> int:
        """How many processes were ever started."""
        return self._started

    @property
    def made_s(self) -> float:
        """When it was made, by ``time.monotonic``: the zero of its outcomes' times."""
        return self._made

    def measure(
        self,
        subjects: Sequence[Subject],
        degree: int,
        timeout_s: float,
        effort: Effort,
        told: Told = lambda outcome: None,
        expired: Callable[[], bool] = never,
        places: Sequence[str] | None = None,
    ) -> list[Outcome | None]:
        """As ``MeasuringPool`` says."""
        if degree < 1:
            raise ValueError(f"the degree of parallelism is {degree}, and must be at least 1")
        outcomes: list[Outcome | None] = [None] * len(subjects)
        waiting = list(range(len(subjects)))
        try:
            if not expired():
                self._grow(degree, len(subjects))
            while True:
                while waiting and not expired():
                    found = self._next(waiting, degree, places)
                    if found is None:
                        break
                    position, device = found
                    waiting.remove(position)
                    self._begin(position, subjects, device, timeout_s, effort)
                if not self._busy:
                    return outcomes
                for outcome in self._ended():
                    outcomes[outcome.position] = outcome
                    told(outcome)
        except BaseException:
            self._forget_busy()
            raise

    def close(self) -> None:
        """Kill every process. Safe to call twice."""
        self._forget_busy()
        for idle in self._idle.values():
            while idle:
                idle.pop().kill()

    def _next(
        self, waiting: Sequence[int], degree: int, places: Sequence[str] | None
    ) -> tuple[int, str] | None:
        """The first candidate that may begin, and where: on the device with the fewest in flight,
        unless it has its place."""
        flying = dict.fromkeys(self._devices, 0)
        for worker in self._busy:
            flying[worker.device] += 1
        free = [device for device in self._devices if flying[device] < degree]
        for position in waiting if free else ():
            if places is None:
                return position, min(free, key=flying.__getitem__)
            if places[position] in free:
                return position, places[position]
        return None

    def _begin(
        self,
        position: int,
        subjects: Sequence[Subject],
        device: str,
        timeout_s: float,
        effort: Effort,
    ) -> None:
        idle = self._idle[device]
        if not idle:
            idle.append(self._start(device))
            idle[-1].wait_ready()
        self._token += 1
        worker = idle[-1]
        worker.order(self._token, position, subjects[position], effort, timeout_s)
        self._busy.append(idle.pop())

    def _grow(self, degree: int, candidates: int) -> None:
        """Start all processes that will be needed at once, as each takes a while to be ready."""
        fresh = []
        for number, device in enumerate(self._devices):
            share = len(range(number, candidates, len(self._devices)))
            idle = self._idle[device]
            fresh += [self._start(device) for _ in range(min(degree, share) - len(idle))]
        try:
            for worker in fresh:
                worker.wait_ready()
                self._idle[worker.device].append(worker)
        except BaseException:
            for worker in fresh:
                worker.kill()
            for idle in self._idle.values():
                idle[:] = [worker for worker in idle if worker.alive]
            raise

    def _start(self, device: str) -> _Worker:
        self._started += 1
        return _Worker(device, self._started - 1, self._prepare)

    def _ended(self) -> list[Outcome]:
        """Wait until some candidate has ended, by itself or because its time is up."""
        left = min(worker.deadline for worker in self._busy) - time.monotonic()
        ready = set(wait([worker.connection for worker in self._busy], max(0.0, left)))
        outcomes = []
        for worker in list(self._busy):
            if worker.connection in ready:
                outcome = worker.answer(self._made)
            elif time.monotonic() >= worker.deadline:
                outcome = worker.time_out(self._made)
            else:
                continue
            self._busy.remove(worker)
            if worker.alive:
                self._idle[worker.device].append(worker)
            outcomes.append(outcome)
        return outcomes

    def _forget_busy(self) -> None:
        while self._busy:
            self._busy.pop().kill()


class _Worker(Child):
    """One process. After ``time_out`` and after a crash it is gone."""

    def __init__(self, device: str, number: int, prepare: str) -> None:
        super().__init__(_MODULE, [device, prepare])
        self.device, self._number = device, number
        self.deadline = 0.0
        self._position = self._token = 0
        self._began = 0.0
        self._timeout_s = 0.0

    def order(
        self, token: int, position: int, subject: Subject, effort: Effort, timeout_s: float
    ) -> None:
        self._token, self._position = token, position
        self._timeout_s = timeout_s
        self._began = time.monotonic()
        self.deadline = self._began + timeout_s
        # One that died while it was idle says so when its answer is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send((token, subject, effort))

    def answer(self, zero: float) -> Outcome:
        try:
            token, *said = self.connection.recv()
        except (EOFError, OSError):
            self.bury()
            return self._outcome(zero, Failure.CRASH, self.end())
        if token != self._token:
            raise AssertionError(f"worker {self._number} answered order {token}: {self._token}")
        if isinstance(said[0], Reading):
            return self._outcome(zero, reading=said[0])
        return self._outcome(zero, *said)

    def time_out(self, zero: float) -> Outcome:
        self.kill()
        reason = f"it took more than {self._timeout_s:g} s"
        return self._outcome(zero, Failure.TIMEOUT, reason)

    def _outcome(
        self,
        zero: float,
        failure: Failure | None = None,
        reason: str = "",
        reading: Reading | None = None,
    ) -> Outcome:
        return Outcome(
            position=self._position,
            device=self.device,
            worker=self._number,
            started_s=self._began - zero,
            ended_s=time.monotonic() - zero,
            reading=reading,
            failure=failure,
            reason=reason,
        )
