"""What each host of the CPU does in one run of a Plan: a list of actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns

from torch import Tensor

from workers.devices.cpu_workers import Worker
from workers.devices.signals import Signal
from workers.graph.interpreter import CompiledUnit
from workers.schedules.arrangement import Step

Action = Callable[[], object]
Values = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Program:
    """The actions of one host. ``names`` tells for which Unit each of them is; ``signals`` are the
    positions of those that must happen even if a Unit failed, or other hosts would wait for
    ever."""

    actions: tuple[Action, ...]
    names: tuple[str, ...]
    signals: tuple[int, ...]

    def exchange_signals(self, start: int = 0) -> None:
        """Only the signals, from action ``start`` on."""
        for position in self.signals:
            if position >= start:
                self.actions[position]()


def make_program(
    steps: Sequence[Step],
    worker: Worker,
    cores: Sequence[int],
    signals: Mapping[int, Signal],
    launches: Mapping[str, Action],
    free: Callable[[tuple[str, ...]], object],
) -> Program:
    """The program of ``worker`` for ``steps``: ``launches`` by Unit, and ``free`` for the names of
    values that are dead. ``cores`` are the machine's numbers of the steps' cores."""
    actions: list[tuple[Action, str]] = []
    exchanged: list[int] = []
    place: tuple[int, int] | None = None
    for step in steps:
        for wait in step.waits:
            exchanged.append(len(actions))
            actions.append((signals[wait.signal].wait, step.unit))
        if (cores[step.core], step.threads) != place:
            place = (cores[step.core], step.threads)
            actions.append((partial(worker.take, *place), step.unit))
        if step.frees_before:
            actions.append((partial(free, step.frees_before), step.unit))
        actions.append((launches[step.unit], step.unit))
        if step.frees_after:
            actions.append((partial(free, step.frees_after), step.unit))
        for number in step.sends:
            exchanged.append(len(actions))
            actions.append((signals[number].send, step.unit))
    return Program(
        tuple(action for action, _ in actions),
        tuple(name for _, name in actions),
        tuple(exchanged),
    )


def launch(unit: CompiledUnit, values: Values) -> Action:
    """Calls the Unit on its inputs in ``values`` and puts its outputs there."""
    function, inputs, outputs = unit.function, unit.inputs, unit.outputs
    if len(outputs) != 1:

        def launch_any() -> None:
            values.update(zip(outputs, function(*[values[name] for name in inputs]), strict=True))

        return launch_any
    (output,) = outputs
    if len(inputs) != 1:

        def launch_one_output() -> None:
            (values[output],) = function(*[values[name] for name in inputs])

        return launch_one_output
    (only,) = inputs

    def launch_one_to_one() -> None:
        (values[output],) = function(values[only])

    return launch_one_to_one


def free(values: Values, names: tuple[str, ...]) -> None:
    for name in names:
        del values[name]


def timed(action: Action, ended: Callable[[int, int], None]) -> Action:
    """``action``, after which ``ended`` is told when it began and ended, in ns."""

    def run() -> None:
        start = perf_counter_ns()
        action()
        ended(start, perf_counter_ns())

    return run
