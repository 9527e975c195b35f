"""When a job waits for a quiet machine, measures again, and gives up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from backend.jobs.schemas import LogEvent
from workers.measure.noise import NoisyMachineError, Quiet
from workers.measure.processes import CpuSample
from workers.runner.problems import job_problem
from workers.runner.quiet import Watch
from workers.runner.reporting import Reporter

QUIET = Quiet(0.01, 0.02, 0.0, 1.0)
BUSY = Quiet(0.9, 1.8, 0.5, 1.0, complaint="others take 90%")


@dataclass
class ScriptedGuard:
    """Finds one entry of ``script`` after the other; what is busy is refused unless allowed."""

    script: list[Quiet]
    allow: bool = False
    waited: list[float] = field(default_factory=list)

    def check(self) -> Quiet:
        found = self.script.pop(0)
        if found.complaint and not self.allow:
            raise NoisyMachineError(found)
        return found

    def wait_until_quiet(self, seconds: float) -> Quiet:
        self.waited.append(seconds)
        return self.check()

    def start(self) -> CpuSample | None:
        return None

    def finish(self, started: CpuSample | None) -> Quiet:
        return self.check()


class Logs:
    """The part of a Recorder that is heard here."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def log(self, event: LogEvent) -> None:
        self.said.append((event.level, event.message))


def watch(
    script: Sequence[Quiet], *, allow: bool = False, seconds: float = 60
) -> tuple[Watch, ScriptedGuard, Logs]:
    guard, logs = ScriptedGuard(list(script), allow), Logs()
    return Watch(guard, seconds, Reporter(logs, 1)), guard, logs  # type: ignore[arg-type]  # only logs


def counter() -> tuple[Callable[[], int], list[int]]:
    taken: list[int] = []

    def take() -> int:
        taken.append(len(taken))
        return taken[-1]

    return take, taken


def test_on_a_quiet_machine_nothing_is_said() -> None:
    watching, guard, logs = watch([QUIET, QUIET])
    take, taken = counter()
    assert watching.measure(take) == (0, QUIET)
    assert (taken, guard.waited, logs.said) == ([0], [], [])


def test_a_busy_machine_is_waited_for_and_the_user_is_told() -> None:
    watching, guard, logs = watch([BUSY, QUIET])
    watching.wait()
    assert guard.waited == [60]
    assert [level for level, _ in logs.said] == ["warning", "info"]
    assert "up to 60 s: others take 90%" in logs.said[0][1]


def test_it_gives_up_with_a_problem_that_says_what_to_do() -> None:
    watching, guard, _ = watch([BUSY, BUSY])
    with pytest.raises(NoisyMachineError) as raised:
        watching.wait()
    assert guard.waited == [60]
    problem = job_problem(raised.value)
    assert problem is not None
    assert problem.kind == "noisy_machine"
    assert "allow_noise" in problem.detail


def test_without_patience_it_does_not_wait() -> None:
    watching, guard, _ = watch([BUSY], seconds=0)
    with pytest.raises(NoisyMachineError):
        watching.wait()
    assert guard.waited == []


def test_a_disturbed_measurement_is_taken_once_more() -> None:
    watching, _, logs = watch([QUIET, BUSY, QUIET, QUIET])
    take, taken = counter()
    assert watching.measure(take) == (1, QUIET)
    assert taken == [0, 1]
    assert "measuring again" in logs.said[0][1]


def test_one_that_is_disturbed_twice_is_not_reported() -> None:
    watching, _, _ = watch([QUIET, BUSY, QUIET, BUSY])
    take, taken = counter()
    with pytest.raises(NoisyMachineError):
        watching.measure(take)
    assert taken == [0, 1]


def test_noise_that_is_allowed_is_measured_in_and_told() -> None:
    watching, guard, logs = watch([BUSY, BUSY], allow=True)
    take, taken = counter()
    assert watching.measure(take) == (0, BUSY)
    assert (taken, guard.waited) == ([0], [])
    assert [level for level, _ in logs.said] == ["warning"]
