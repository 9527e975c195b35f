"""A Plan made ready on the CPU: one list of actions for each host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from time import perf_counter_ns

import torch
from torch import Tensor

from workers.devices.base import (
    CancelledError,
    DeviceError,
    Executable,
    Kernel,
    MemoryUse,
    Span,
    Timeline,
)
from workers.devices.cpu_workers import Worker
from workers.devices.signals import BlockingSignal, Signal, SpinningSignal
from workers.graph.graph import Graph
from workers.graph.interpreter import CompiledUnit, compile_unit
from workers.schedules.arrangement import Arrangement, Step

Action = Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Program:
    """What a host does in one run. ``names`` tells for which Unit each action is; ``signals`` are
    the positions of those that must happen even if a Unit failed, or other hosts would wait for
    ever."""

    actions: tuple[Action, ...]
    names: tuple[str, ...]
    signals: tuple[int, ...]

    def exchange_signals(self, start: int = 0) -> None:
        """Only the signals, from action ``start`` on."""
        for position in self.signals:
            if position >= start:
                self.actions[position]()


class CpuExecutable(Executable):
    """Runs on ``workers``, one for each host of the arrangement; ``lock`` keeps other executables
    off them meanwhile. ``cores`` are the machine's numbers of the arrangement's cores. Values live
    in one dictionary that all hosts share."""

    def __init__(
        self,
        graph: Graph,
        weights: Mapping[str, Tensor],
        arrangement: Arrangement,
        workers: Sequence[Worker],
        cores: tuple[int, ...],
        lock: Lock,
    ) -> None:
        missing = [name for name in graph.weights if name not in weights]
        if missing:
            raise DeviceError(f"graph {graph.name!r} needs weight {missing[0]!r}, which is missing")
        self._graph, self._arrangement = graph, arrangement
        self._workers, self._cores, self._lock = tuple(workers), cores, lock
        self._values: dict[str, Tensor] = {}
        self._constants = {name: weights[name] for name in graph.outputs if name in graph.weights}
        self._launches = {
            unit.name: _launch(compile_unit(graph, unit, weights), self._values)
            for unit in graph.units
        }
        self._signals = {
            wait.signal: _signal(wait.spin)
            for host in arrangement.hosts
            for step in host.steps
            for wait in step.waits
        }
        self._starts: list[Signal] = [BlockingSignal() for _ in workers[1:]]
        self._ends = [_signal(arrangement.spin_at_end) for _ in workers[1:]]
        self._programs = [
            self._program(host.steps, worker)
            for host, worker in zip(arrangement.hosts, workers, strict=True)
        ]
        self._computed = tuple(name for name in graph.outputs if name in graph.producers)
        self._failure: DeviceError | None = None
        self._over = False
        self._running = False
        self._closed = False

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return self._execute(inputs, 1, self._programs)[0]

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        return self._execute(inputs, repeats, self._programs)[1]

    def values(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self._refuse_if_closed()
        kept = [
            [replace(step, frees_before=(), frees_after=()) for step in host.steps]
            for host in self._arrangement.hosts
        ]
        programs = [
            self._program(steps, worker) for steps, worker in zip(kept, self._workers, strict=True)
        ]
        names = [name for unit in self._graph.units for name in unit.outputs]
        return self._execute(inputs, 1, programs, names)[0]

    def timeline(self, inputs: Mapping[str, Tensor]) -> Timeline:
        spans: list[tuple[str, int, int, int]] = []
        self._refuse_if_closed()
        programs = [
            self._program(host.steps, worker, spans)
            for host, worker in zip(self._arrangement.hosts, self._workers, strict=True)
        ]
        self._execute(inputs, 1, programs)
        origin = min((start for _, _, start, _ in spans), default=0)
        return Timeline(
            tuple(
                Span(
                    unit=name,
                    kind=self._graph.unit(name).kind,
                    stream=stream,
                    start_ms=(start - origin) / 1e6,
                    end_ms=(end - origin) / 1e6,
                )
                for name, stream, start, end in sorted(spans, key=lambda span: span[2])
            )
        )

    def profile(self, inputs: Mapping[str, Tensor]) -> tuple[Kernel, ...]:
        return tuple(
            Kernel(span.unit, span.kind, span.end_ms - span.start_ms)
            for span in self.timeline(inputs).spans
        )

    def memory(self, inputs: Mapping[str, Tensor]) -> MemoryUse:
        made = self.values(inputs)
        return MemoryUse(
            weights_bytes=sum(self._graph.values[name].nbytes for name in self._graph.weights),
            peak_bytes=sum(tensor.nbytes for tensor in (*inputs.values(), *made.values())),
        )

    def cancel(self) -> None:
        if self._running:
            self._failure = CancelledError(f"the run of graph {self._graph.name!r} was cancelled")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._constants.clear()
            self._launches.clear()
            self._programs.clear()

    def _program(
        self,
        steps: Sequence[Step],
        worker: Worker,
        spans: list[tuple[str, int, int, int]] | None = None,
    ) -> _Program:
        """The actions of a host; with ``spans``, each Unit's start and end are appended there."""
        actions: list[tuple[Action, str]] = []
        signals: list[int] = []
        place: tuple[int, int] | None = None
        for step in steps:
            for wait in step.waits:
                signals.append(len(actions))
                actions.append((self._signals[wait.signal].wait, step.unit))
            if (self._cores[step.core], step.threads) != place:
                place = (self._cores[step.core], step.threads)
                actions.append((partial(worker.take, *place), step.unit))
            if step.frees_before:
                actions.append((partial(_free, self._values, step.frees_before), step.unit))
            launch = self._launches[step.unit]
            if spans is not None:
                launch = partial(_timed, launch, spans, step.unit, step.stream)
            actions.append((launch, step.unit))
            if step.frees_after:
                actions.append((partial(_free, self._values, step.frees_after), step.unit))
            for number in step.sends:
                signals.append(len(actions))
                actions.append((self._signals[number].send, step.unit))
        return _Program(
            tuple(action for action, _ in actions),
            tuple(name for _, name in actions),
            tuple(signals),
        )

    def _execute(
        self,
        inputs: Mapping[str, Tensor],
        repeats: int,
        programs: Sequence[_Program],
        wanted: Sequence[str] | None = None,
    ) -> tuple[dict[str, Tensor], list[float]]:
        """Run ``repeats`` times; the last run's ``wanted`` values, which are the graph's outputs
        unless named, and each run's latency in ms."""
        latencies: list[float] = []
        outputs: dict[str, Tensor] = {}
        finished = BlockingSignal()
        with self._lock:
            self._refuse_if_closed()
            self._check(inputs)
            self._values.update(self._constants)
            self._values.update((name, inputs[name]) for name in self._graph.inputs)
            self._failure, self._over = None, False
            self._running = True
            for number, worker in enumerate(self._workers[1:]):
                worker.submit(partial(self._follow, programs[number + 1], number))
            self._workers[0].submit(partial(self._lead, programs[0], repeats, latencies, finished))
            try:
                finished.wait()
            except BaseException:
                # An interrupt: end the run early, but leave no thread in it.
                self._failure = DeviceError("the run was interrupted")
                finished.wait()
                raise
            finally:
                self._running = False
                if self._failure is None:
                    names = self._graph.outputs if wanted is None else wanted
                    outputs = {name: self._values[name] for name in names}
                self._values.clear()
        if self._failure is not None:
            raise self._failure
        return outputs, latencies

    def _lead(
        self, program: _Program, repeats: int, latencies: list[float], finished: Signal
    ) -> None:
        """The first host's part: time each run, and let the followers go at the end."""
        for repeat in range(repeats):
            if self._failure is not None:
                break
            if repeat:
                for name in self._computed:
                    self._values.pop(name, None)
            start = perf_counter_ns()
            for follower in self._starts:
                follower.send()
            self._perform(program)
            for follower in self._ends:
                follower.wait()
            latencies.append((perf_counter_ns() - start) / 1e6)
        self._over = True
        for follower in self._starts:
            follower.send()
        for follower in self._ends:
            follower.wait()
        finished.send()

    def _follow(self, program: _Program, number: int) -> None:
        while True:
            self._starts[number].wait()
            if self._over:
                break
            self._perform(program)
            self._ends[number].send()
        self._ends[number].send()

    def _perform(self, program: _Program) -> None:
        """One run of one host. After a failure only the signals are exchanged."""
        if self._failure is not None:
            program.exchange_signals()
            return
        done = -1
        try:
            for done, action in enumerate(program.actions):  # noqa: B007  # read on failure
                action()
        except Exception as error:
            if self._failure is None:
                failure = DeviceError(f"unit {program.names[done]!r} failed: {error}")
                failure.__cause__ = error
                self._failure = failure
            program.exchange_signals(start=done)

    def _check(self, inputs: Mapping[str, Tensor]) -> None:
        for name in self._graph.inputs:
            if name not in inputs:
                raise DeviceError(f"input {name!r} of graph {self._graph.name!r} is missing")
            spec, given = self._graph.values[name], inputs[name]
            if tuple(given.shape) != spec.shape or given.dtype != getattr(torch, spec.dtype):
                raise DeviceError(
                    f"input {name!r} is {given.dtype} {tuple(given.shape)};"
                    f" graph {self._graph.name!r} takes torch.{spec.dtype} {spec.shape}"
                )

    def _refuse_if_closed(self) -> None:
        if self._closed or any(worker.closed for worker in self._workers):
            raise DeviceError(f"the executable of graph {self._graph.name!r} is closed")


def _signal(spin: bool) -> Signal:
    return SpinningSignal() if spin else BlockingSignal()


def _launch(unit: CompiledUnit, values: dict[str, Tensor]) -> Action:
    """Calls the Unit on its inputs in ``values`` and puts its outputs there."""
    function, inputs, outputs = unit.function, unit.inputs, unit.outputs
    if len(outputs) != 1:

        def launch() -> None:
            values.update(zip(outputs, function(*[values[name] for name in inputs]), strict=True))

        return launch
    (output,) = outputs
    if len(inputs) != 1:

        def launch_one_output() -> None:
            (values[output],) = function(*[values[name] for name in inputs])

        return launch_one_output
    (only,) = inputs

    def launch_one_to_one() -> None:
        (values[output],) = function(values[only])

    return launch_one_to_one


def _free(values: dict[str, Tensor], names: tuple[str, ...]) -> None:
    for name in names:
        del values[name]


def _timed(launch: Action, spans: list[tuple[str, int, int, int]], name: str, stream: int) -> None:
    start = perf_counter_ns()
    launch()
    spans.append((name, stream, start, perf_counter_ns()))
