"""A Plan made ready on a GPU: launched kernel by kernel, or as one CUDA Graph."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from workers.devices.base import (
    CancelledError,
    DeviceError,
    Executable,
    MemoryUse,
    Timeline,
)
from workers.devices.checks import check_inputs
from workers.devices.cuda.driver import CapturedGraph
from workers.devices.cuda.failures import reason_of, run_failure
from workers.devices.cuda.launches import program
from workers.devices.cuda.replay import match_replay
from workers.devices.cuda.runner import Runner
from workers.devices.cuda.shared import Shared
from workers.devices.cuda.timeline import kernels, timeline
from workers.devices.cuda.timing import Caller, Timed
from workers.devices.cuda.trace import (
    Record,
    Trace,
    graph_records,
    launched_inside,
    read_trace,
    unclaimed,
    unrecorded,
)
from workers.graph.graph import Graph
from workers.graph.interpreter import CompiledUnit
from workers.graph.operators import is_kernel_free
from workers.hardware.kernel import Kernel
from workers.schedules.plan import Plan

_WARM_UPS = 2
"""Runs before a capture: the first loads kernels and makes the libraries' workspaces, which a
capture must not; the second has what inference-time tuning chose after the first. PyTorch keeps
cuBLAS's and cuDNN's handles, the workspaces of those and cuDNN's plans for each thread, so each
thread warms up."""

_TRACES = 3
"""At most so many until one is complete."""

_MARK = "plait.launch."

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Captured:
    """A CUDA Graph of a whole run, and the values that it leaves in its memory."""

    graph: CapturedGraph
    values: Mapping[str, Tensor]
    replays_per_sample: int


class CudaExecutable(Executable):
    """Runs ``plan`` with the functions ``units`` on ``streams`` of the device.

    ``constants`` are the weights that the graph returns, on the GPU. Captured on the first run if
    ``capture``: not before, because only a run shows which Unit fails. ``mode`` is then ``graph``,
    or ``eager`` where the capture was not wanted, or not possible; ``notes`` say why.

    Inputs are copied into tensors that stay where they are, so that a replay finds them. A run
    ends before its method returns; so executables that share streams never meet on them.
    """

    def __init__(
        self,
        shared: Shared,
        graph: Graph,
        plan: Plan,
        units: Mapping[str, CompiledUnit],
        constants: Mapping[str, Tensor],
        streams: Sequence[Any],
        capture: bool,
        cold: bool,
    ) -> None:
        self._shared, self._driver = shared, shared.driver
        self._graph, self._plan, self._cold = graph, plan, cold
        self._constants = dict(constants)
        self._given: dict[str, Tensor] = {}
        self._runner = Runner(self._driver, program(plan, graph), units, streams, self._check)
        self._wants_capture = capture and bool(plan.launches)
        self._captured: _Captured | None = None
        self._here = threading.local()
        self._caller = Caller()
        self._notes: list[str] = []
        self._cancelled = self._running = self._closed = False

    @property
    def mode(self) -> str:
        """``graph`` once a CUDA Graph was captured, else ``eager``."""
        return "eager" if self._captured is None else "graph"

    @property
    def notes(self) -> tuple[str, ...]:
        """Why there is no CUDA Graph, and what the last timeline is of."""
        return tuple(self._notes)

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with self._turn():
            self._take(inputs)
            self._make_ready()
            self._driver.use(self._runner.lead)
            if self._captured is not None:
                self._captured.graph.replay()
                return self._downloaded(self._captured.values, self._graph.outputs)
            return self._downloaded(self._issue(), self._graph.outputs)

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        """As the interface says. What is timed starts with the inputs on the GPU and ends with the
        outputs there. A graph shorter than ``timing.SHORTEST_MS`` is replayed several times for
        each latency, which is then their mean."""
        with self._turn():
            self._take(inputs)
            self._make_ready()
            self._shared.clocks.warm(self._driver)
            per_sample = 1 if self._captured is None else self._captured.replays_per_sample
            return self._timed().latencies(repeats, per_sample)

    def values(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with self._turn():
            self._take(inputs)
            made = self._issue(keep=True)
            return self._downloaded(
                made, [name for unit in self._graph.units for name in unit.outputs]
            )

    def timeline(self, inputs: Mapping[str, Tensor]) -> Timeline:
        """From the GPU's own records: those of a replay where they can be told apart by Unit, else
        those of launches kernel by kernel, which start later than those of a graph."""
        with self._turn():
            self._take(inputs)
            self._make_ready()
            launched = self._launched()
            recorded: Sequence[tuple[str, Record]] = launched
            source = "of kernels launched one by one"
            captured = self._captured
            if captured is not None:
                replay = captured.graph.replay
                trace = self._traced(replay, lambda t: len(graph_records(t)) == len(launched))
                matched = match_replay(self._plan, launched, graph_records(trace))
                if isinstance(matched, str):
                    source += f" and not of the CUDA Graph, because {matched}"
                else:
                    recorded, source = matched, "of a replay of the CUDA Graph"
            self._note("timeline ", source)
            return timeline(self._plan, self._graph, recorded, self._shared.gpu)

    def profile(self, inputs: Mapping[str, Tensor]) -> tuple[Kernel, ...]:
        """The kernels as they are launched one by one, each Unit's by its launches' correlation
        ids; copies and fills of memory are among them, without a grid."""
        with self._turn():
            self._take(inputs)
            self._warm_up()
            return kernels(self._launched())

    def memory(self, inputs: Mapping[str, Tensor]) -> MemoryUse:
        """Of a run kernel by kernel, which allocates and frees as the captured one did."""
        with self._turn():
            self._take(inputs)
            self._warm_up()
            before = self._driver.allocated_bytes()
            self._driver.reset_peak()
            self._issue()
            self._driver.synchronize()
            peak = self._driver.peak_bytes() - before
        weights = {*self._graph.weights}
        return MemoryUse(
            weights_bytes=sum(self._graph.values[name].nbytes for name in weights),
            peak_bytes=peak + sum(tensor.nbytes for tensor in inputs.values()),
        )

    def cancel(self) -> None:
        if self._running:
            self._cancelled = True

    def close(self) -> None:
        with self._shared.lock:
            if self._closed:
                return
            self._closed = True
            if self._shared.broken is not None:
                # Destroying a graph may end the process then, before anybody is told why.
                self._shared.wrecks.append(self._captured)
            elif self._captured is not None:
                with self._driver.session():
                    self._captured.graph.reset()
            self._captured = None
            self._given.clear()
            self._constants.clear()
            self._runner.forget()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The GPU to oneself until the work is done, also if it fails."""
        shared = self._shared
        with shared.lock:
            if self._closed or shared.closed:
                raise DeviceError(f"the executable of graph {self._graph.name!r} is closed")
            shared.refuse_if_broken()
            self._cancelled, self._running = False, True
            try:
                with self._driver.session():
                    try:
                        self._driver.use(self._runner.lead)
                        yield
                    except DeviceError:
                        raise
                    except RuntimeError as error:  # torch's own, from between the launches
                        raise run_failure(self._graph.name, error) from error
                    finally:
                        shared.settle()
            except RuntimeError:
                shared.refuse_if_broken()  # then even leaving the session fails, in torch's words
                raise
            finally:
                self._running = False

    def _take(self, inputs: Mapping[str, Tensor]) -> None:
        """Check the inputs and put them where runs find them."""
        graph = self._graph
        check_inputs(graph, inputs)
        for name in graph.inputs:
            held = self._given.get(name)
            if held is None:
                self._given[name] = self._driver.upload(inputs[name].contiguous())
            else:
                self._driver.overwrite(held, inputs[name])

    def _issue(self, **how: Any) -> dict[str, Tensor]:
        return self._runner.issue({**self._constants, **self._given}, **how)

    def _downloaded(self, values: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
        return {name: self._driver.download(values[name]) for name in names}

    def _warm_up(self) -> None:
        if not getattr(self._here, "warm", False):
            for _ in range(_WARM_UPS):
                self._issue()
                self._driver.synchronize()
            self._here.warm = True

    def _make_ready(self) -> None:
        """Before the first run: warm up, and capture if that is wanted."""
        if self._captured is not None:
            return
        self._warm_up()
        if not self._wants_capture:
            return
        self._wants_capture = False
        try:
            graph, values = self._capture()
        except CancelledError:
            self._wants_capture = True
            raise
        except RuntimeError as error:
            self._driver.synchronize()
            note = f"no CUDA Graph, kernels are launched one by one: {reason_of(error)}"
            self._notes.append(note)
            _log.warning("%s: graph %r: %s", self._shared.name, self._graph.name, note)
            return
        self._captured = _Captured(graph, values, 1)
        graph.replay()  # the first also loads the graph to the GPU
        self._captured = _Captured(graph, values, self._timed().replays_per_sample())

    def _capture(self) -> tuple[CapturedGraph, dict[str, Tensor]]:
        """One run as a CUDA Graph. Raises RuntimeError if it cannot be captured."""
        driver = self._driver
        driver.use(self._runner.lead)
        collects = gc.isenabled()
        gc.disable()  # what a collection frees on the GPU could break the capture
        try:
            return self._capture_run()
        finally:
            if collects:
                gc.enable()

    def _capture_run(self) -> tuple[CapturedGraph, dict[str, Tensor]]:
        driver = self._driver
        driver.begin_capture()
        failure: BaseException | None = None
        values: dict[str, Tensor] = {}
        try:
            values = self._issue(capturing=True)
        except BaseException as error:
            failure = error
        driver.use(self._runner.lead)
        try:
            graph = driver.end_capture()
        except RuntimeError as error:
            # A launch that broke the capture says more than the capture's end.
            raise (failure or error) from error
        if failure is not None:
            graph.reset()
            raise failure
        return graph, {name: values[name] for name in self._graph.outputs}

    def _timed(self) -> Timed:
        captured = self._captured
        launch: Callable[[], object] = self._issue if captured is None else captured.graph.replay

        def checked() -> None:
            self._check()
            launch()

        return Timed(
            self._driver,
            self._runner.lead,
            checked,
            held=captured is not None,
            cold=self._cold,
            caller=self._caller,
        )

    def _launched(self) -> tuple[tuple[str, Record], ...]:
        """What each Unit launched, in launch order, from a traced run kernel by kernel."""
        units = [launch.unit for launch in self._plan.launches]

        def body() -> None:
            self._issue(mark=lambda number: self._driver.annotate(f"{_MARK}{number}"))

        trace = self._traced(body, lambda trace: not unrecorded(trace, _MARK))
        if not trace.records and not all(is_kernel_free(o.target) for o in self._graph.operators):
            raise DeviceError(
                f"the profiler of {self._shared.name} recorded no kernels of graph"
                f" {self._graph.name!r}; CUPTI may be in use by another profiler, or not allowed"
            )
        if lost := unclaimed(trace):
            self._note("profile ", f"lacks {len(lost)} kernels without a launch in the trace")
        if missing := unrecorded(trace, _MARK):
            self._note("trace ", f"lacks the records of {missing} launches")
        found = launched_inside(trace, _MARK)
        return tuple((units[int(number)], record) for number, record in found)

    def _traced(self, body: Callable[[], None], complete: Callable[[Trace], bool]) -> Trace:
        """A trace of ``body``; another one if the profiler lost some of it."""
        for _ in range(_TRACES - 1):
            trace = read_trace(self._driver.traced(body))
            if complete(trace):
                return trace
        return read_trace(self._driver.traced(body))

    def _note(self, about: str, words: str) -> None:
        """Note ``words`` in place of what was noted about the same before."""
        self._notes = [note for note in self._notes if not note.startswith(about)]
        self._notes.append(about + words)

    def _check(self) -> None:
        if self._cancelled:
            raise CancelledError(f"the run of graph {self._graph.name!r} was cancelled")
