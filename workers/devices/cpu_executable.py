"""A Plan made ready on the CPU: one program for each host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter, length_hint
from threading import Lock
from time import perf_counter_ns

from torch import Tensor

from workers.devices.base import (
    CancelledError,
    DeviceError,
    Executable,
    MemoryUse,
    Span,
    Surroundings,
    Timeline,
)
from workers.devices.checks import check_inputs
from workers.devices.cpu_memory import LiveStorages, Weights
from workers.devices.cpu_program import Action, Program, free, launch, make_program, timed
from workers.devices.cpu_surroundings import Scratch, disturbance
from workers.devices.cpu_workers import Worker
from workers.devices.signals import BlockingSignal, Signal, SpinningSignal
from workers.graph.graph import Graph
from workers.graph.interpreter import CompiledUnit, observed
from workers.hardware.kernel import Kernel
from workers.schedules.arrangement import Arrangement


class CpuExecutable(Executable):
    """Runs on ``workers``, one for each host of the arrangement; ``lock`` keeps other executables
    off them meanwhile. ``cores`` are the machine's numbers of the arrangement's cores, ``scratch``
    is memory to displace what is in the caches. Values live in one dictionary that all hosts
    share."""

    def __init__(
        self,
        graph: Graph,
        units: Sequence[CompiledUnit],
        weights: Mapping[str, Tensor],
        arrangement: Arrangement,
        workers: Sequence[Worker],
        cores: tuple[int, ...],
        lock: Lock,
        scratch: Scratch,
    ) -> None:
        self._graph, self._arrangement = graph, arrangement
        self._workers, self._cores, self._lock = tuple(workers), cores, lock
        self._scratch = scratch
        self._values: dict[str, Tensor] = {}
        self._constants = {name: weights[name] for name in graph.outputs if name in graph.weights}
        self._weights = Weights(weights[name] for name in graph.weights)
        self._units = {unit.name: unit for unit in units}
        self._signals = {
            wait.signal: _signal(wait.spin)
            for host in arrangement.hosts
            for step in host.steps
            for wait in step.waits
        }
        self._starts: list[Signal] = [BlockingSignal() for _ in workers[1:]]
        self._ends = [_signal(arrangement.spin_at_end) for _ in workers[1:]]
        self._programs = self._make_programs(
            {name: launch(unit, self._values) for name, unit in self._units.items()},
            partial(free, self._values),
        )
        self._computed = tuple(name for name in graph.outputs if name in graph.producers)
        # Why the run in progress ends early, the first reason first. Its list is the one thing
        # that a host looks at between two actions.
        self._failures: list[DeviceError] = []
        self._over = False
        self._running = False
        self._state = Lock()
        self._closed = False

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return self._execute(inputs, 1, self._programs)[0]

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        return _milliseconds(self._execute(inputs, repeats, self._programs)[1])

    def time_within(
        self, inputs: Mapping[str, Tensor], repeats: int, surroundings: Surroundings
    ) -> list[float]:
        """What leads in runs on all threads of the first host, so what comes before it does, too,
        and displaces what the caches of all these cores held."""
        self._refuse_if_closed()
        host, worker = self._arrangement.hosts[0], self._workers[0]
        disturb = disturbance(surroundings, self._scratch)
        begins: list[int] = []

        def before() -> None:
            worker.take(self._cores[host.cores[0]], len(host.cores))
            disturb()

        launches = {name: launch(unit, self._values) for name, unit in self._units.items()}
        if surroundings.lead_in:
            last = host.steps[surroundings.lead_in - 1].unit
            launches[last] = timed(launches[last], lambda _, end: begins.append(end))
        programs = self._make_programs(launches, partial(free, self._values))
        touched = surroundings.weights_bytes or surroundings.values_bytes
        _, runs = self._execute(inputs, repeats, programs, before=before if touched else None)
        if not surroundings.lead_in:
            return _milliseconds(runs)
        return _milliseconds([(begin, end) for begin, (_, end) in zip(begins, runs, strict=True)])

    def values(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self._refuse_if_closed()
        launches = {name: launch(unit, self._values) for name, unit in self._units.items()}
        names = [name for unit in self._graph.units for name in unit.outputs]
        return self._execute(inputs, 1, self._make_programs(launches, _keep), names)[0]

    def timeline(self, inputs: Mapping[str, Tensor]) -> Timeline:
        self._refuse_if_closed()
        spans: list[tuple[int, int, str]] = []

        def end(unit: str, start: int, end: int) -> None:
            spans.append((start, end, unit))

        launches = {
            name: timed(launch(unit, self._values), partial(end, name))
            for name, unit in self._units.items()
        }
        self._execute(inputs, 1, self._make_programs(launches, partial(free, self._values)))
        stream = {step.unit: step.stream for host in self._arrangement.hosts for step in host.steps}
        origin = min((start for start, _, _ in spans), default=0)
        return Timeline(
            tuple(
                Span(
                    unit=name,
                    kind=self._graph.unit(name).kind,
                    stream=stream[name],
                    start_ms=(start - origin) / 1e6,
                    end_ms=(end - origin) / 1e6,
                )
                for start, end, name in sorted(spans)
            )
        )

    def profile(self, inputs: Mapping[str, Tensor]) -> tuple[Kernel, ...]:
        """One Kernel for each function that a Unit calls: an operator, those that are views too,
        or what fuses several; all of a Unit for a provider that makes one function of it. The
        duration is that of the call, with what it takes to make it."""
        self._refuse_if_closed()
        kernels: list[tuple[int, Kernel]] = []

        def seen(unit: str, name: str, start: int, end: int, results: Sequence[Tensor]) -> None:
            kernels.append((start, Kernel(unit, name, (end - start) / 1e6)))

        launches = {
            name: launch(observed(unit, partial(seen, name)), self._values)
            for name, unit in self._units.items()
        }
        self._execute(inputs, 1, self._make_programs(launches, partial(free, self._values)))
        return tuple(kernel for _, kernel in sorted(kernels, key=itemgetter(0)))

    def memory(self, inputs: Mapping[str, Tensor]) -> MemoryUse:
        """The peak counts inputs, values from their computation to where the Plan frees them, and
        what the operators of a Unit hand to one another until it ends; not what an operator takes
        and returns while it runs."""
        self._refuse_if_closed()
        live = LiveStorages(self._weights)

        def seen(unit: str, name: str, start: int, end: int, results: Sequence[Tensor]) -> None:
            live.hold(f"within {unit}", results)

        def measured(unit: CompiledUnit) -> Action:
            action = launch(observed(unit, partial(seen, unit.name)), self._values)

            def run() -> None:
                action()
                for name in unit.outputs:
                    live.hold(f"value {name}", [self._values[name]])
                live.release(f"within {unit.name}")

            return run

        def forget(names: tuple[str, ...]) -> None:
            free(self._values, names)
            for name in names:
                live.release(f"value {name}")

        live.hold("inputs", [inputs[name] for name in self._graph.inputs if name in inputs])
        launches = {name: measured(unit) for name, unit in self._units.items()}
        self._execute(inputs, 1, self._make_programs(launches, forget))
        return MemoryUse(
            weights_bytes=sum(spec.nbytes for spec in self._graph.specs(self._graph.weights)),
            peak_bytes=live.peak_bytes,
        )

    def cancel(self) -> None:
        with self._state:
            if self._running:
                self._failures.append(
                    CancelledError(f"the run of graph {self._graph.name!r} was cancelled")
                )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._constants.clear()
            self._units.clear()
            self._programs.clear()

    def _make_programs(
        self, launches: Mapping[str, Action], free: Callable[[tuple[str, ...]], object]
    ) -> list[Program]:
        return [
            make_program(host.steps, worker, self._cores, self._signals, launches, free)
            for host, worker in zip(self._arrangement.hosts, self._workers, strict=True)
        ]

    def _execute(
        self,
        inputs: Mapping[str, Tensor],
        repeats: int,
        programs: Sequence[Program],
        wanted: Sequence[str] | None = None,
        before: Action | None = None,
    ) -> tuple[dict[str, Tensor], list[tuple[int, int]]]:
        """Run ``repeats`` times, each after ``before`` on the first host; the last run's ``wanted``
        values, which are the graph's outputs unless named, and each run's start and end in ns."""
        runs: list[tuple[int, int]] = []
        outputs: dict[str, Tensor] = {}
        finished = BlockingSignal()
        with self._lock:
            self._refuse_if_closed()
            check_inputs(self._graph, inputs)
            self._values.update(self._constants)
            self._values.update((name, inputs[name]) for name in self._graph.inputs)
            self._over = False
            with self._state:
                self._failures = []
                self._running = True
            for number, worker in enumerate(self._workers[1:]):
                worker.submit(partial(self._follow, programs[number + 1], number))
            self._workers[0].submit(
                partial(self._lead, programs[0], repeats, before, runs, finished)
            )
            try:
                finished.wait()
            except BaseException:
                # An interrupt: end the run early, but leave no thread in it.
                self._failures.append(DeviceError("the run was interrupted"))
                finished.wait()
                raise
            finally:
                with self._state:
                    self._running = False
                    failures = self._failures
                if not failures:
                    names = self._graph.outputs if wanted is None else wanted
                    outputs = {name: self._values[name] for name in names}
                self._values.clear()
        if failures:
            raise failures[0]
        return outputs, runs

    def _lead(
        self,
        program: Program,
        repeats: int,
        before: Action | None,
        runs: list[tuple[int, int]],
        finished: Signal,
    ) -> None:
        """The first host's part: time each run, and let the followers go at the end."""
        for repeat in range(repeats):
            if self._failures:
                break
            if repeat:
                for name in self._computed:
                    self._values.pop(name, None)
            if before is not None and not self._succeeds(before):
                break
            start = perf_counter_ns()
            for follower in self._starts:
                follower.send()
            self._perform(program)
            for follower in self._ends:
                follower.wait()
            runs.append((start, perf_counter_ns()))
        self._over = True
        for follower in self._starts:
            follower.send()
        for follower in self._ends:
            follower.wait()
        finished.send()

    def _follow(self, program: Program, number: int) -> None:
        while True:
            self._starts[number].wait()
            if self._over:
                break
            self._perform(program)
            self._ends[number].send()
        self._ends[number].send()

    def _perform(self, program: Program) -> None:
        """One run of one host. After a failure anywhere only the signals are exchanged."""
        failures = self._failures
        actions = iter(program.actions)
        try:
            for action in actions:
                if failures:
                    break
                action()
            else:
                return
        except Exception as error:
            failure = DeviceError(f"unit {program.names[_at(actions, program)]!r} failed: {error}")
            failure.__cause__ = error
            failures.append(failure)
        program.exchange_signals(start=_at(actions, program))

    def _succeeds(self, before: Action) -> bool:
        try:
            before()
        except Exception as error:
            failure = DeviceError(f"what comes before a timed run failed: {error}")
            failure.__cause__ = error
            self._failures.append(failure)
        return not self._failures

    def _refuse_if_closed(self) -> None:
        if self._closed or any(worker.closed for worker in self._workers):
            raise DeviceError(f"the executable of graph {self._graph.name!r} is closed")


def _at(actions: Iterator[Action], program: Program) -> int:
    """Which action the iterator gave last: told afterwards, so that no launch pays for counting."""
    return len(program.actions) - length_hint(actions) - 1


def _milliseconds(runs: Sequence[tuple[int, int]]) -> list[float]:
    """How long each took, of starts and ends in ns."""
    return [(end - start) / 1e6 for start, end in runs]


def _signal(spin: bool) -> Signal:
    return SpinningSignal() if spin else BlockingSignal()


def _keep(names: tuple[str, ...]) -> None:
    """Free nothing."""
