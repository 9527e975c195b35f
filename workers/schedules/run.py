"""Run this model with the schedule that Plait found for it.

    python run.py                     random input, prints the shapes of the outputs
    python run.py --input in.pt       a tensor or a dictionary of tensors, saved with torch.save
    python run.py --output out.pt     saves the outputs as a dictionary
    python run.py --sequential        one unit after the other instead of the schedule
    python run.py --bench             compares the schedule with the sequential order

From Python: ``from run import load; model = load(); outputs = model(x)``.

Needs Linux, Python 3.11 or newer and PyTorch, nothing else. Reads ``schedule.json``,
``model/graph.json`` and ``model/weights.safetensors`` beside it; runs ATen operators only.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any

if __name__ == "__main__":
    # Keeps teams of threads awake between operators even where several of them share the cores.
    # OpenMP reads it when PyTorch is loaded; where this file is imported, set it before Python.
    os.environ.setdefault("OMP_WAIT_POLICY", "active")
    os.environ.setdefault("GOMP_SPINCOUNT", "300000")

import torch
from torch import Tensor

GRAPH = ("plait.graph", 1)
SCHEDULE = ("plait.schedule", 1)
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip

Values = dict[str, Tensor]


class ArtifactError(RuntimeError):
    """Files that this program cannot run; says which and why."""


def load(directory: str | Path = Path(__file__).parent) -> Model:
    """Read the model and its schedule. Raises ArtifactError."""
    directory = Path(directory)
    _keep_freed_memory()
    graph = _read_json(directory / "model" / "graph.json", GRAPH)
    schedule = _read_json(directory / "schedule.json", SCHEDULE)
    weights = read_safetensors(directory / "model" / "weights.safetensors")
    missing = [name for name in graph["weights"] if name not in weights]
    if missing:
        raise ArtifactError(f"weights.safetensors has no weight {missing[0]!r}")
    return Model(graph, schedule, weights)


class Model:
    """A model with its schedule. Calling it runs the schedule; one call at a time."""

    def __init__(
        self, graph: Mapping[str, Any], schedule: Mapping[str, Any], weights: Values
    ) -> None:
        self.schedule = schedule
        self.inputs: dict[str, Mapping[str, Any]] = {
            name: graph["values"][name] for name in graph["inputs"]
        }
        self.outputs: list[str] = graph["outputs"]
        self._weights = weights
        self._units = {unit["name"]: compile_unit(unit) for unit in graph["units"]}
        self._hosts = Hosts()
        self._scheduled = Runner(schedule["arrangement"], self._units, self._hosts)
        self._sequential = Runner(_one_after_another(graph, schedule), self._units, self._hosts)
        self._lock = Lock()

    def __call__(
        self, *tensors: Tensor, sequential: bool = False, **named: Tensor
    ) -> dict[str, Tensor]:
        """The outputs by name. Inputs are given in order or by name."""
        inputs = dict(zip(self.inputs, tensors, strict=False)) | named
        for name, spec in self.inputs.items():
            if name not in inputs:
                raise ValueError(f"input {name!r} is missing; inputs: {', '.join(self.inputs)}")
            shape, dtype = tuple(spec["shape"]), getattr(torch, spec["dtype"])
            if tuple(inputs[name].shape) != shape or inputs[name].dtype != dtype:
                raise ValueError(
                    f"input {name!r} is {inputs[name].dtype} {tuple(inputs[name].shape)};"
                    f" the model takes {dtype} {shape}"
                )
        with self._lock:
            values = {**self._weights, **{name: inputs[name] for name in self.inputs}}
            (self._sequential if sequential else self._scheduled).run(values)
            return {name: values[name] for name in self.outputs}

    def random_inputs(self, seed: int) -> dict[str, Tensor]:
        """Standard normal inputs; zeros and ones where the model takes integers."""
        generator = torch.Generator().manual_seed(seed)
        made = {}
        for name, spec in self.inputs.items():
            dtype = getattr(torch, spec["dtype"])
            if dtype.is_floating_point:
                made[name] = torch.randn(spec["shape"], generator=generator).to(dtype)
            else:
                made[name] = torch.randint(0, 2, spec["shape"], generator=generator).to(dtype)
        return made


def _keep_freed_memory() -> None:
    """Up to a gigabyte, where the C library can: or every run gets its pages from the kernel."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def _read_json(path: Path, expected: tuple[str, int]) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        found = (data["format"], data["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{path} cannot be read: {error!r}") from error
    if found != expected:
        raise ArtifactError(f"{path} is {found[0]} {found[1]}; this program reads {expected}")
    return data


def read_safetensors(path: Path) -> Values:
    """Every tensor of a safetensors file: 8 bytes of header size, a JSON header, the data."""
    try:
        content = bytearray(path.read_bytes())
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(bytes(content[8:start]))
        header.pop("__metadata__", None)
        return {name: _tensor(entry, content, start) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{path} cannot be read: {error!r}") from error


def _tensor(entry: Mapping[str, Any], content: bytearray, start: int) -> Tensor:
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    begin, end = entry["data_offsets"]
    count = math.prod(shape)
    if not 0 <= begin <= end <= len(content) - start or end - begin != count * dtype.itemsize:
        raise ValueError(f"data offsets {begin}, {end} do not fit shape {shape}")
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(content, dtype=dtype, count=count, offset=start + begin).reshape(shape)


def compile_unit(unit: Mapping[str, Any]) -> Callable[[Values], None]:
    """A function that reads the unit's inputs from a dictionary and puts its outputs there."""
    calls = []
    for operator in unit["operators"]:
        arguments = [_argument(argument) for argument in operator["arguments"]]
        keywords = {name: _argument(value) for name, value in operator["keywords"].items()}
        calls.append((_operator(operator["target"]), arguments, keywords, operator["outputs"]))
    outputs = unit["outputs"]

    def run(values: Values) -> None:
        made: Values = {}

        def fill(argument: Any) -> Any:
            if isinstance(argument, _Reference):
                return made[argument] if argument in made else values[argument]
            return [fill(item) for item in argument] if isinstance(argument, list) else argument

        for function, arguments, keywords, names in calls:
            result = function(
                *map(fill, arguments), **{name: fill(value) for name, value in keywords.items()}
            )
            made.update(
                zip(names, (result,) if isinstance(result, Tensor) else result, strict=True)
            )
        values.update((name, made[name]) for name in outputs)

    return run


class _Reference(str):
    """The name of a tensor among the arguments of an operator."""

    __slots__ = ()


def _argument(data: Any) -> Any:
    if isinstance(data, list):
        return [_argument(item) for item in data]
    if isinstance(data, dict):
        ((kind, content),) = data.items()
        if kind == "value":
            return _Reference(content)
        return getattr(torch, content) if kind == "dtype" else float(content)
    return data


def _operator(target: str) -> Callable[..., Any]:
    """An ATen operator that computes and does nothing else. Raises ArtifactError for others."""
    namespace, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    if namespace != "aten" or name == "from_file":
        raise ArtifactError(f"operator {target!r} is not allowed")
    operator = getattr(getattr(torch.ops.aten, name, None), overload, None)
    if not isinstance(operator, torch._ops.OpOverload):
        raise ArtifactError(f"PyTorch {torch.__version__} has no operator {target!r}")
    if operator._schema.is_mutable:
        raise ArtifactError(f"operator {target!r} changes its operands")
    return operator


class BlockingSignal:
    """From one thread to one other, which sleeps until it comes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()
        self.send, self.wait = self._lock.release, self._lock.acquire


class SpinningSignal:
    """From one thread to one other, which spins until it comes: quicker, but takes up a core."""

    def __init__(self) -> None:
        quick, slow = ctypes.PyDLL(None), ctypes.CDLL(None)  # slow: without the interpreter lock
        self._memory = ctypes.create_string_buffer(128)
        address = ctypes.c_void_p((ctypes.addressof(self._memory) + 63) // 64 * 64)
        quick.pthread_spin_init(address, 0)
        slow.pthread_spin_lock(address)
        self.send = lambda: quick.pthread_spin_unlock(address)
        self.wait = lambda: slow.pthread_spin_lock(address)


Signal = BlockingSignal | SpinningSignal


class Host:
    """A thread on one core that leads a team of intra-operator threads on others."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = cores
        self._place = (cores[0], len(cores))
        self._team: list[int] = []
        self._task: Callable[[], None] = lambda: None
        self._inbox = BlockingSignal()
        Thread(target=self._serve, name=f"plait-{cores[0]}", daemon=True).start()

    def submit(self, task: Callable[[], None]) -> None:
        self._task = task
        self._inbox.send()

    def take(self, core: int, threads: int) -> None:
        """From the thread itself: go to ``core`` and use ``threads`` intra-operator threads."""
        if (core, threads) == self._place:
            return
        os.sched_setaffinity(0, {core})
        torch.set_num_threads(threads)
        # An idle team spins; while this thread works alone, it makes way for other hosts.
        policy = os.SCHED_IDLE if threads == 1 else os.SCHED_OTHER
        with contextlib.suppress(PermissionError):  # in some containers: right, if slower
            for thread in self._team:
                os.sched_setscheduler(thread, policy, os.sched_param(0))
        self._place = (core, threads)

    def _serve(self) -> None:
        torch.get_num_threads()  # initialises this thread's count, which would be reset later
        os.sched_setaffinity(0, {self._cores[0]})
        torch.set_num_threads(len(self._cores))
        before = _threads()
        torch.zeros(32768 * len(self._cores)).add_(1)  # large enough to start the whole team
        self._team = sorted(_threads() - before)
        for thread, core in zip(self._team, self._cores[1:], strict=False):
            os.sched_setaffinity(thread, {core})
        with torch.inference_mode():
            while True:
                self._inbox.wait()
                self._task()


def _threads() -> set[int]:
    return {int(entry.name) for entry in Path("/proc/self/task").iterdir()}


class Hosts:
    """Started hosts by their cores, for runners to share: idle teams slow busy ones down."""

    def __init__(self) -> None:
        self._started: dict[tuple[int, ...], list[Host]] = {}

    def on(self, teams: Sequence[tuple[int, ...]]) -> list[Host]:
        """A host for each team, started where there is none yet."""
        given: list[Host] = []
        for cores in teams:
            ready = self._started.setdefault(cores, [])
            free = [host for host in ready if host not in given]
            if not free:
                free = [Host(cores)]
                ready.extend(free)
            given.append(free[0])
        return given


class Runner:
    """Runs units as an arrangement says: on which host, in which order, after which signals."""

    def __init__(
        self,
        arrangement: Mapping[str, Any],
        units: Mapping[str, Callable[[Values], None]],
        hosts: Hosts,
    ) -> None:
        self._units = units
        self._error: Exception | None = None
        cores = sorted(os.sched_getaffinity(0))
        planned = arrangement["hosts"]
        # With fewer cores than planned for, a spinning thread would hold up the one it waits for.
        used = [step["core"] for host in planned for step in host["steps"]]
        fits = max(used, default=0) < len(cores)
        self._signals: dict[int, Signal] = {
            wait["signal"]: SpinningSignal() if wait["spin"] and fits else BlockingSignal()
            for host in planned
            for step in host["steps"]
            for wait in step["waits"]
        }
        self._steps = [
            [step | {"core": cores[step["core"] % len(cores)]} for step in host["steps"]]
            for host in planned
        ]
        self._hosts = hosts.on(
            [tuple(cores[core % len(cores)] for core in host["cores"]) for host in planned]
        )
        self._ends = [BlockingSignal() for _ in planned]

    def run(self, values: Values) -> None:
        """Compute every unit. Raises RuntimeError naming the unit that failed."""
        self._error = None
        for number, host in enumerate(self._hosts):
            host.submit(partial(self._perform, number, values))
        for end in self._ends:
            end.wait()
        if self._error is not None:
            raise self._error

    def _perform(self, number: int, values: Values) -> None:
        host = self._hosts[number]
        for step in self._steps[number]:
            for wait in step["waits"]:
                self._signals[wait["signal"]].wait()
            # After a failure the signals still flow, or other hosts would wait for ever.
            if self._error is None:
                try:
                    host.take(step["core"], step["threads"])
                    for name in step["frees_before"]:
                        del values[name]
                    self._units[step["unit"]](values)
                    for name in step["frees_after"]:
                        del values[name]
                except Exception as error:
                    failure = RuntimeError(f"unit {step['unit']!r} failed: {error}")
                    failure.__cause__ = error
                    self._error = failure
            for signal in step["sends"]:
                self._signals[signal].send()
        self._ends[number].send()


def _one_after_another(graph: Mapping[str, Any], schedule: Mapping[str, Any]) -> dict[str, Any]:
    """The arrangement of the sequential order, every unit with all the cores of the schedule."""
    hosts = schedule["arrangement"]["hosts"]
    cores = sorted({core for host in hosts for core in host["cores"]})
    last = {name: unit["name"] for unit in graph["units"] for name in unit["inputs"]}
    dead: dict[str, list[str]] = {unit["name"]: [] for unit in graph["units"]}
    for unit in graph["units"]:
        for name in unit["outputs"]:
            if name not in graph["outputs"]:
                dead[last.get(name, unit["name"])].append(name)
    steps = [
        {
            "unit": name,
            "core": cores[0],
            "threads": len(cores),
            "waits": [],
            "sends": [],
            "frees_before": [],
            "frees_after": frees,
        }
        for name, frees in dead.items()
    ]
    return {"hosts": [{"cores": cores, "steps": steps}]}


def bench(model: Model, inputs: Mapping[str, Tensor], repeats: int) -> None:
    """Print the median latency of the schedule and of the sequential order, run in turns."""
    samples: dict[str, list[float]] = {"schedule": [], "sequential": []}
    for turn in range(repeats + 5):
        for name in sorted(samples, reverse=turn % 2 == 0):
            start = time.perf_counter()
            model(sequential=name == "sequential", **inputs)
            if turn >= 5:  # the first runs warm up
                samples[name].append((time.perf_counter() - start) * 1e3)
    medians = {name: statistics.median(latencies) for name, latencies in samples.items()}
    for name, latency in medians.items():
        print(f"{name:<11}{latency:9.3f} ms  (median of {repeats})")
    print(f"{'speed-up':<11}{medians['sequential'] / medians['schedule']:9.3f}")


def main() -> int:
    """The command line; see the top of the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", type=Path, help="a .pt file with the inputs")
    parser.add_argument("--output", type=Path, help="where to save the outputs, as a .pt file")
    parser.add_argument("--seed", type=int, default=0, help="of the random input (default 0)")
    parser.add_argument("--sequential", action="store_true", help="ignore the schedule")
    parser.add_argument("--bench", action="store_true", help="compare with the sequential order")
    parser.add_argument("--repeats", type=int, default=50, help="runs of --bench (default 50)")
    options = parser.parse_args()
    try:
        model = load()
    except ArtifactError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    tuned = model.schedule["key"]["versions"].get("torch")
    if tuned != torch.__version__:
        print(f"note: tuned with PyTorch {tuned}, this is {torch.__version__}", file=sys.stderr)
    if options.input is None:
        inputs = model.random_inputs(options.seed)
    else:
        given = torch.load(options.input, weights_only=True)
        inputs = given if isinstance(given, dict) else {next(iter(model.inputs)): given}
    try:
        if options.bench:
            bench(model, inputs, options.repeats)
            return 0
        outputs = model(sequential=options.sequential, **inputs)
    except (TypeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, tensor in outputs.items():
        print(f"{name}: {str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}")
    if options.output is not None:
        torch.save({name: tensor.clone() for name, tensor in outputs.items()}, options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
