"""Candidates for measuring processes that end in every way there is. They are real work: what
spins takes a core, and what crashes dies by a signal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workers.measure.measurement import Failure
from workers.measure.parallel.subject import Run, SubjectError


@dataclass(frozen=True)
class Spinning:
    """Computes for ``ms`` of a core's time in every run."""

    ms: float

    @contextmanager
    def open(self, device: str) -> Iterator[Spinning]:
        yield self

    def check(self) -> None:
        return

    def time(self, repeats: int) -> list[Run]:
        return [self._run() for _ in range(repeats)]

    def _run(self) -> Run:
        wall, own = time.perf_counter_ns(), time.thread_time_ns()
        while time.thread_time_ns() - own < self.ms * 1e6:
            pass
        used = time.thread_time_ns() - own
        return Run((time.perf_counter_ns() - wall) / 1e6, used / 1e6)


@dataclass(frozen=True)
class Ending(Spinning):
    """Ends by ``how`` when it is opened, checked or first run."""

    how: str = ""

    @contextmanager
    def open(self, device: str) -> Iterator[Spinning]:
        if self.how == "memory":
            raise MemoryError
        if self.how == "compile":
            raise SubjectError(Failure.COMPILE, "no such intrinsic")
        if self.how == "launch":
            raise RuntimeError(f"{device} has no such kernel")
        yield self

    def check(self) -> None:
        if self.how == "wrong":
            raise SubjectError(Failure.WRONG_RESULT, "output 0 differs by 0.5")

    def time(self, repeats: int) -> list[Run]:
        if self.how == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.how == "exit":
            os._exit(3)
        if self.how == "hang":
            time.sleep(60)
        return super().time(repeats)


@dataclass(frozen=True)
class Crowded(Spinning):
    """Fails if more than ``most`` of its kind run at once: they meet in ``folder``."""

    folder: str = ""
    most: int = 1

    @contextmanager
    def open(self, device: str) -> Iterator[Spinning]:
        mark = Path(self.folder, str(os.getpid()))
        mark.touch()
        try:
            yield self
        finally:
            mark.unlink()

    def check(self) -> None:
        time.sleep(0.1)
        if len(list(Path(self.folder).iterdir())) > self.most:
            raise MemoryError
