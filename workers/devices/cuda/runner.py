"""Giving a Program to a GPU's streams, launch by launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workers.devices.cuda.driver import Driver, Event
from workers.devices.cuda.failures import unit_failure
from workers.devices.cuda.launches import Issue, Program

if TYPE_CHECKING:
    from torch import Tensor

    from workers.graph.interpreter import CompiledUnit

Mark = Callable[[int], AbstractContextManager[None]]
"""What to put around the launch of that number."""


@dataclass(frozen=True, slots=True)
class _Events:
    """Those of the Plan, that of the start, and one for each stream to be joined."""

    plan: tuple[Event, ...]
    start: Event
    ends: tuple[Event, ...]

    @staticmethod
    def of(driver: Driver, program: Program) -> _Events:
        return _Events(
            tuple(driver.event() for _ in range(program.events)),
            driver.event(),
            tuple(driver.event() for _ in program.joins),
        )


class Runner:
    """Runs a Program on ``streams``; ``check`` is called before each launch and may raise."""

    def __init__(
        self,
        driver: Driver,
        program: Program,
        units: Mapping[str, CompiledUnit],
        streams: Sequence[Any],
        check: Callable[[], None],
    ) -> None:
        self._driver, self._program = driver, program
        self._units, self._streams, self._check = units, streams, check
        self._kept = replace(
            program, issues=tuple(replace(issue, frees=()) for issue in program.issues)
        )
        self._events = _Events.of(driver, program)

    @property
    def lead(self) -> Any:
        """The stream on which a run starts and ends."""
        return self._streams[self._program.lead]

    def issue(
        self,
        given: Mapping[str, Tensor],
        keep: bool = False,
        mark: Mark | None = None,
        capturing: bool = False,
    ) -> dict[str, Tensor]:
        """Give one run to the streams, without waiting for it; the values left at its end.

        ``given`` are the graph's inputs and constants. With ``keep`` nothing is freed on the way.
        Raises DeviceError naming the Unit, and leaves what was given to the streams so far.
        """
        program, driver = self._kept if keep else self._program, self._driver
        # What was last recorded in a capture means nothing outside of it.
        events = _Events.of(driver, program) if capturing else self._events
        values = dict(given)
        lead = self.lead
        if program.forks:
            events.start.record(lead)
        current: Any = None
        for number, issue in enumerate(program.issues):
            self._check()
            stream = self._streams[issue.stream]
            try:
                if current is not stream:
                    driver.use(stream)
                    current = stream
                self._launch(issue, stream, values, events, mark and mark(number))
            except Exception as error:
                raise unit_failure(issue.unit, error) from error
        for joined, end in zip(program.joins, events.ends, strict=True):
            end.record(self._streams[joined])
            end.wait(lead)
        driver.use(lead)
        return values

    def forget(self) -> None:
        """Drop the Units' functions, and the weights with them."""
        self._units = {}

    def _launch(
        self,
        issue: Issue,
        stream: Any,
        values: dict[str, Tensor],
        events: _Events,
        mark: AbstractContextManager[None] | None,
    ) -> None:
        for name in issue.frees:
            del values[name]
        if issue.forks:
            events.start.wait(stream)
        for event in issue.waits:
            events.plan[event].wait(stream)
        unit = self._units[issue.unit]
        arguments = [values[name] for name in unit.inputs]
        if mark is None:
            results = unit.function(*arguments)
        else:
            with mark:
                results = unit.function(*arguments)
        values.update(zip(unit.outputs, results, strict=True))
        if issue.records is not None:
            events.plan[issue.records].record(stream)
