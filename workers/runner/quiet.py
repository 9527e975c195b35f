"""When a job may measure: while the machine is quiet, or when its user takes noise for granted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from workers.devices.base import DeviceFacts
from workers.measure.noise import Guard, NoisyMachineError, Quiet, guard_for
from workers.runner.reporting import Reporter

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class NoisePolicy:
    """``seconds`` to wait for quiet, unless the job measures in spite of noise (``allow``)."""

    allow: bool = False
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Watch:
    """The noise guard over one batch size of a job. It tells the job's user what it waits for."""

    guard: Guard
    seconds: float
    reporter: Reporter

    @classmethod
    def over(cls, facts: DeviceFacts, policy: NoisePolicy, reporter: Reporter) -> Watch:
        return cls(guard_for(facts, policy.allow), policy.seconds, reporter)

    def wait(self) -> None:
        """Return when it is quiet. Raises NoisyMachineError if it does not become so in time."""
        try:
            found = self.guard.check()
        except NoisyMachineError as error:
            if not self.seconds:
                raise
            self.reporter.warn(
                f"waiting for the machine to become quiet, up to {self.seconds:g} s:"
                f" {error.found.complaint}"
            )
            self.guard.wait_until_quiet(self.seconds)
            self.reporter.log("the machine is quiet")
            return
        if found.complaint is not None:
            self.reporter.warn(f"measuring on a busy machine, as was asked: {found.complaint}")

    def measure(self, take: Callable[[], ResultT]) -> tuple[ResultT, Quiet]:
        """What ``take`` measures, and how quiet it was meanwhile. If others kept the machine too
        busy, it is thrown away and taken once more. Raises NoisyMachineError if they do again."""
        self.wait()
        try:
            return self._observe(take)
        except NoisyMachineError as error:
            self.reporter.warn(f"measuring again, it was disturbed: {error.found.complaint}")
        self.wait()
        return self._observe(take)

    def _observe(self, take: Callable[[], ResultT]) -> tuple[ResultT, Quiet]:
        started = self.guard.start()
        taken = take()
        return taken, self.guard.finish(started)
