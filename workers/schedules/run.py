"""Run this model with the schedule that Plait found for it.

    python run.py                     random input, prints the shapes of the outputs
    python run.py --input in.pt       a tensor or a dictionary of tensors, saved with torch.save
    python run.py --output out.pt     saves the outputs as a dictionary
    python run.py --sequential        one unit after the other instead of the schedule
    python run.py --bench             compares the schedule with the sequential order
    python run.py --device cuda       on a GPU, or the CPU (default: what it was tuned for)
    python run.py --no-graph          on a GPU: launch every unit instead of replaying a CUDA graph

From Python: ``from run import load; model = load(); outputs = model(x)``, tensors from tensors and
NumPy arrays from NumPy arrays.

Needs Linux, Python 3.11 or newer and PyTorch 2.11 or newer, and nothing else, unless units were
tuned with ONNX Runtime (``provider`` in ``schedule.json``): without that it is slower. Reads
``schedule.json``, ``model/graph.json`` and ``model/weights.safetensors`` beside it. Calls ATen
operators, the ``FUSED`` ones that stand for several of them in ``schedule.json``, and ONNX Runtime
with the models there; the first run packs weights for these and takes longer. The part for GPUs is
tested for its order of launches and events, but not yet run on a GPU.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import ctypes
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


def load(
    directory: str | Path = Path(__file__).parent, device: str | None = None, graph: bool = True
) -> Model:
    """Read the model and its schedule. ``device`` is ``cpu``, ``cuda`` or ``cuda:N``; None is what
    it was tuned for, or the CPU where there is no GPU. On a GPU, ``graph`` replays a CUDA graph
    where one can be captured. On a CPU, the calling thread's own operators run on one thread from
    then on. Raises ArtifactError."""
    directory = Path(directory)
    _keep_freed_memory()
    model = _read_json(directory / "model" / "graph.json", GRAPH)
    schedule = _read_json(directory / "schedule.json", SCHEDULE)
    weights = read_safetensors(directory / "model" / "weights.safetensors")
    missing = [name for name in model["weights"] if name not in weights]
    if missing:
        raise ArtifactError(f"weights.safetensors has no weight {missing[0]!r}")
    return Model(model, schedule, weights, choose_device(device, schedule), graph)


def choose_device(asked: str | None, schedule: Mapping[str, Any]) -> torch.device:
    """What to run on. Raises ArtifactError for a GPU that is not there."""
    there = torch.cuda.is_available()
    if asked is None:
        return torch.device("cuda" if there and not _for_cpu(schedule) else "cpu")
    device = torch.device(asked)
    if device.type not in ("cpu", "cuda"):
        raise ArtifactError(f"device {asked!r} is not known; this program runs on cpu and cuda")
    if device.type == "cuda" and (not there or (device.index or 0) >= torch.cuda.device_count()):
        raise ArtifactError(f"device {asked!r} is not here; run with --device cpu")
    return device


def _for_cpu(schedule: Mapping[str, Any]) -> bool:
    """Whether the schedule was tuned on a CPU, and not on a GPU or a simulated one."""
    return str(schedule["key"]["device_fingerprint"]).startswith("cpu-")


class Model:
    """A model with its schedule. Calling it runs the schedule; one call at a time. ``notes`` says
    what is done otherwise than it was tuned, and why."""

    def __init__(
        self,
        graph: Mapping[str, Any],
        schedule: Mapping[str, Any],
        weights: Values,
        device: torch.device | None = None,
        use_cuda_graph: bool = True,
    ) -> None:
        self.schedule = schedule
        self.device = device or torch.device("cpu")
        self.notes: list[str] = []
        self.inputs: dict[str, Mapping[str, Any]] = {
            name: graph["values"][name] for name in graph["inputs"]
        }
        self._specs = {
            name: (tuple(spec["shape"]), dtype, _dtype_of_arrays(dtype))
            for name, spec in self.inputs.items()
            for dtype in [getattr(torch, spec["dtype"])]
        }
        self.outputs: list[str] = graph["outputs"]
        units = Units(graph, schedule, self.device, self.notes)
        self._engine: CpuEngine | CudaEngine
        if self.device.type == "cuda":
            by_name = {unit["name"]: units.get(unit["name"], 1) for unit in graph["units"]}
            given = graph, schedule, weights, by_name, self.notes
            self._engine = CudaEngine(*given, self.device, use_cuda_graph)
        else:
            self._engine = CpuEngine(graph, schedule, weights, units, self.notes)
        self._direct = self._engine.direct
        self._lock = Lock()

    def __call__(self, *inputs: Any, sequential: bool = False, **named: Any) -> dict[str, Any]:
        """The outputs by name. Inputs are given in order or by name, as tensors or as NumPy arrays,
        and the outputs are of the same kind. Arrays in order go to ONNX Runtime at once where it
        runs all of the model: a small one is done before anything more could be."""
        if self._direct and not (sequential or named) and len(inputs) == len(self._specs):
            run, own, results, names = self._direct
            if type(inputs[0]) is not Tensor:
                try:
                    return dict(zip(names, run(results, dict(zip(own, inputs)))))  # noqa: B905
                except Exception:  # noqa: S110  # what is wrong, is said below
                    pass
        if len(inputs) > len(self._specs):
            raise ValueError(f"it takes {len(self._specs)} inputs, and {len(inputs)} were given")
        given = dict(zip(self._specs, inputs, strict=False)) | named
        arrays = self._check(given)
        with self._lock:
            return (self._engine.run_arrays if arrays else self._engine.run)(given, sequential)

    def _check(self, inputs: dict[str, Any]) -> bool:
        """Whether the inputs are NumPy arrays. Raises ValueError for inputs that the model does not
        take."""
        arrays = 0
        for name, (shape, dtype, of_arrays) in self._specs.items():
            given = inputs.get(name)
            kind = getattr(given, "dtype", None)
            if kind is None or given is None:
                raise ValueError(f"input {name!r} is missing; inputs: {', '.join(self.inputs)}")
            if given.shape != shape or (kind is not dtype and kind != of_arrays):
                raise ValueError(
                    f"input {name!r} is {kind} {tuple(given.shape)}; the model takes {dtype}"
                    f" {shape}"
                )
            arrays += kind is not dtype
        if len(inputs) != len(self._specs):
            unknown = next(name for name in inputs if name not in self._specs)
            raise ValueError(f"there is no input {unknown!r}; inputs: {', '.join(self.inputs)}")
        if arrays not in (0, len(inputs)):
            raise ValueError("some inputs are tensors and some are arrays; give all as one of them")
        return arrays > 0

    def time(self, inputs: Mapping[str, Tensor], sequential: bool = False) -> float:
        """Run once and return how long it took in ms, on a GPU by its own clock. The first run, in
        which units are compiled and graphs captured, takes longer."""
        with self._lock:
            self._check(dict(inputs))
            return self._engine.time(inputs, sequential)

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


def _dtype_of_arrays(dtype: torch.dtype) -> Any:
    """NumPy's type of that name; None where it has none, or where there is no NumPy."""
    try:
        return torch.empty(0, dtype=dtype).numpy().dtype
    except (TypeError, RuntimeError):
        return None


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


CPU = torch.device("cpu")
Run = Callable[[Values], None]
"""Runs a unit: reads its inputs from a dictionary and puts its outputs there."""


FUSED = (
    "mkldnn._convolution_pointwise.default",
    "mkldnn._linear_pointwise.default",
    "aten.cudnn_convolution_relu.default",
    "aten.cudnn_convolution_add_relu.default",
    "aten._addmm_activation.default",
)
CHANNELS_LAST, TRANSPOSED = "channels_last", "transposed"
PACKINGS = (
    CHANNELS_LAST,
    TRANSPOSED,
    "mkldnn._reorder_convolution_weight.default",
    "mkldnn._reorder_linear_weight.default",
)


class Units:
    """The units as functions: by the calls that they were tuned with where those can be made here,
    and else, with a note, by plain ATen operators."""

    def __init__(
        self,
        graph: Mapping[str, Any],
        schedule: Mapping[str, Any],
        device: torch.device,
        notes: list[str],
    ) -> None:
        self._units = {unit["name"]: unit for unit in graph["units"]}
        self._device, self._notes = device, notes
        chosen = {entry["unit"]: entry.get("provider") for entry in schedule["plan"]["launches"]}
        self._by_inductor = {
            name
            for name in self._units
            if (chosen.get(name) or schedule.get("provider")) == "inductor"
        }
        kernels = schedule.get("kernels", {"device": device.type, "units": {}})
        self._kernels: Mapping[str, Any] = kernels["units"]
        if kernels["device"] != device.type:
            if self._kernels:
                notes.append(f"its fused calls are for {kernels['device']}; they are not used here")
            self._kernels = {}
        self._onnx: Mapping[str, Any] = kernels.get("onnx", {})
        if self._onnx and device.type != "cpu":
            notes.append(f"it was tuned with ONNX Runtime, which is not used on {device}")
            self._onnx = {}
        self._made: dict[tuple[str, int], Run] = {}
        self._alone: dict[int, Session] = {}
        self._cores = os.sched_getaffinity(0)

    def alone(self, arrangement: Mapping[str, Any], weights: Values) -> Session | None:
        """What runs all of a graph on the thread that calls it, where one session of ONNX Runtime
        does, which brings threads of its own: giving a run to another thread takes as long as many
        a small model."""
        steps = [step for host in arrangement["hosts"] for step in host["steps"]]
        if len(steps) != 1 or len(self._units) != 1 or steps[0]["unit"] not in self._onnx:
            return None
        name, threads = steps[0]["unit"], steps[0]["threads"]
        if threads not in self._alone:
            try:
                made = Session(self._onnx[name], weights, threads, True, self._cores)
            except Exception:
                return None  # the unit says why when it first runs, and does without
            self._alone[threads] = made
        return self._alone[threads]

    def get(self, name: str, threads: int) -> Run:
        """The unit for a host of so many threads, for which its weights are packed."""
        key = (name, threads if name in self._kernels or name in self._onnx else 0)
        if key not in self._made:
            self._made[key] = self._make(self._units[name], threads)
        return self._made[key]

    def _make(self, unit: Mapping[str, Any], threads: int) -> Run:
        plain = compile_unit(unit, self._device)
        if model := self._onnx.get(unit["name"]):
            alone = len(self._units) == 1
            return _or_plain(
                lambda values: Session(model, values, threads, alone, self._cores),
                plain,
                f"unit {unit['name']!r} runs without ONNX Runtime",
                self._notes,
            )
        if unit["name"] in self._by_inductor:
            function = _function(unit, self._device)
            return _or_plain(
                lambda values: _runs(torch.compile(function, dynamic=False), unit),
                plain,
                f"unit {unit['name']!r} runs uncompiled",
                self._notes,
            )
        if kernels := self._kernels.get(unit["name"]):
            for call in kernels["calls"]:
                _check_fused(call["target"], FUSED)
                for argument in call["arguments"]:
                    _argument(argument)  # refuses what may not pack
            return _or_plain(
                lambda values: _runs(_function(unit, self._device, kernels, values), unit),
                plain,
                "units run without their fused calls",
                self._notes,
            )
        return plain


class Session:
    """ONNX Runtime on a unit's model, which reads its weights where they lie. Its threads may use
    all ``cores``. After a run they spin for a moment if the unit is ``alone``, and not beside other
    units."""

    def __init__(
        self,
        model: Mapping[str, Any],
        values: Values,
        threads: int,
        alone: bool,
        cores: Iterable[int],
    ) -> None:
        import onnxruntime  # noqa: PLC0415  # optional

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        if alone:
            options.add_session_config_entry("session.intra_op.spin_duration_us", "1000")
        else:
            options.add_session_config_entry("session.force_spinning_stop", "1")
        arrays = [values[name].numpy() for name in model["weights"]]
        weights = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays]
        options.add_external_initializers([f"weight_{i}" for i in range(len(weights))], weights)
        with _pinned_to(cores):  # its threads inherit it: a host's own core would be the only one
            self._session = onnxruntime.InferenceSession(
                base64.b64decode(model["model"]), options, providers=["CPUExecutionProvider"]
            )
        self._held = arrays, weights
        self._inputs = [(f"input_{i}", name) for i, name in enumerate(model["inputs"])]
        self._own = [f"output_{i}" for i in range(len(model["outputs"]))]
        self._outputs = model["outputs"]

    def __call__(self, values: Values) -> None:
        """Run the unit on tensors."""
        given = {own: values[name].contiguous().numpy() for own, name in self._inputs}
        found = map(torch.from_numpy, self._session.run(self._own, given))
        values.update(zip(self._outputs, found, strict=True))

    def of_arrays(self, graph: Mapping[str, Any]) -> Direct | None:
        """How to run the graph on NumPy arrays if the unit is all of it; ONNX Runtime checks
        them."""
        own = {name: own for own, name in self._inputs}
        if own.keys() != set(graph["inputs"]) or self._outputs != graph["outputs"] or not own:
            return None
        return self._session.run, [own[name] for name in graph["inputs"]], self._own, self._outputs


Direct = tuple[Callable[..., Any], Sequence[str], Sequence[str], Sequence[str]]
"""A session's ``run``, its names of the inputs and of the outputs, and the graph's of these."""


@contextlib.contextmanager
def _pinned_to(cores: Iterable[int]) -> Iterator[None]:
    """The calling thread, and those that are started meanwhile, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _or_plain(make: Callable[[Values], Run], plain: Run, note: str, notes: list[str]) -> Run:
    """What ``make`` makes of the values when the unit first runs, or ``plain`` if that fails or
    cannot run. On a CPU that is on the thread that runs the unit, with its number of threads, for
    which oneDNN packs weights; with another number it would pack them anew at every call."""
    chosen: list[Run] = []

    def run(values: Values) -> None:
        if chosen:
            chosen[0](values)
            return
        with _FIRST_RUN:
            try:
                made = make(values)
                made(values)
            except Exception as error:
                reason = (str(error).strip() or repr(error)).splitlines()[0]
                if (text := f"{note}: {reason:.200}") not in notes:
                    notes.append(text)
                made = plain
                made(values)
            chosen.append(made)

    return run


_FIRST_RUN = Lock()


def compile_unit(unit: Mapping[str, Any], device: torch.device = CPU) -> Run:
    """The unit by plain operators. What an operator makes of no tensor is made on ``device``."""
    return _runs(_function(unit, device), unit)


def _runs(function: Callable[..., Any], unit: Mapping[str, Any]) -> Run:
    names, outputs = [*unit["inputs"], *unit["weights"]], unit["outputs"]

    def run(values: Values) -> None:
        values.update(zip(outputs, function(*[values[name] for name in names]), strict=True))

    return run


_NO_KERNELS: Mapping[str, Any] = {"calls": (), "channels_last": ()}


def _function(
    unit: Mapping[str, Any],
    device: torch.device,
    kernels: Mapping[str, Any] = _NO_KERNELS,
    weights: Mapping[str, Tensor] | None = None,
) -> Callable[..., Any]:
    """The unit as a Python function of its inputs and weights that returns its outputs. With
    ``kernels``, their calls stand for some of its operators, with ``weights`` packed for them.

    Its text holds nothing of the files, only numbers and numbered names::

        def unit(v0, v1):
            v2 = c0(v0, c1, None, [1, 1], [0, 0], [1, 1], 1, c2, [], c3)
            v3 = c4([v2, v0], 1)
            return (v3,)
    """
    bound: dict[str, Any] = {}
    variables = {
        name: f"v{number}" for number, name in enumerate([*unit["inputs"], *unit["weights"]])
    }
    lines = [f"def unit({', '.join(variables.values())}):"]

    def bind(value: Any) -> str:
        bound[name := f"c{len(bound)}"] = value
        return name

    def expression(argument: Any) -> str:
        if isinstance(argument, _Reference):
            if argument not in variables:
                raise ArtifactError(f"unit {unit['name']!r} reads {argument!r} from nowhere")
            return variables[argument]
        if isinstance(argument, _Packing):
            return bind(argument.packed(weights or {}))
        if isinstance(argument, list):
            return f"[{', '.join(map(expression, argument))}]"
        # Of other numbers, inf has no literal; a text could be anything.
        return (
            repr(argument) if argument is None or type(argument) in (bool, int) else bind(argument)
        )

    for name in kernels["channels_last"]:
        variables[name] = bind(_Packing(CHANNELS_LAST, name, []).packed(weights or {}))
    calls = {call["operators"][-1]: call for call in kernels["calls"]}
    stood_for = {name for call in kernels["calls"] for name in call["operators"][:-1]}
    for operator in unit["operators"]:
        if operator.get("name") in stood_for:
            continue
        data = calls.get(operator.get("name"), operator)
        fused = data is not operator
        function = _fused_operator(data["target"], FUSED) if fused else _operator(data["target"])
        arguments = [expression(_argument(argument)) for argument in data["arguments"]]
        keywords = {name: expression(_argument(v)) for name, v in data["keywords"].items()}
        if device.type != "cpu" and any(a.name == "device" for a in function._schema.arguments):
            keywords["device"] = bind(device)
        if unnamed := [name for name in keywords if not name.isidentifier()]:
            raise ArtifactError(f"unit {unit['name']!r} has an argument called {unnamed[0]!r}")
        arguments += [f"{name}={text}" for name, text in keywords.items()]
        results = [variables.setdefault(name, f"v{len(variables)}") for name in operator["outputs"]]
        several = [str(result.type) for result in function._schema.returns] != ["Tensor"]
        left = ", ".join(results) + ("," if several else "")
        lines.append(f"    {left} = {bind(function)}({', '.join(arguments)})")
    lines.append(f"    return ({''.join(variables[name] + ', ' for name in unit['outputs'])})")
    exec("\n".join(lines), bound)  # noqa: S102  # the text is made here, of numbered names
    made: Callable[..., Any] = bound.pop("unit")
    return made


class _Packing:
    """A weight in the layout that a call wants it in."""

    def __init__(self, recipe: str, weight: str, arguments: list[Any]) -> None:
        _check_fused(recipe, PACKINGS)
        self._recipe, self._weight = recipe, weight
        self._arguments = [_argument(argument) for argument in arguments]

    def packed(self, weights: Mapping[str, Tensor]) -> Tensor:
        weight = weights[self._weight]
        if self._recipe == CHANNELS_LAST:
            return weight.contiguous(memory_format=torch.channels_last)
        if self._recipe == TRANSPOSED:
            return weight.t()
        made: Tensor = _fused_operator(self._recipe, PACKINGS)(weight, *self._arguments)
        return made


class _Reference(str):
    """The name of a tensor among the arguments of an operator."""

    __slots__ = ()


def _argument(data: Any) -> Any:
    if isinstance(data, list):
        return [_argument(item) for item in data]
    if isinstance(data, dict):
        if "packed" in data:
            return _Packing(data["packed"], data["weight"], data["arguments"])
        ((kind, content),) = data.items()
        if kind == "value":
            return _Reference(content)
        return getattr(torch, content) if kind == "dtype" else float(content)
    return data


def _operator(target: str) -> Any:
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


def _check_fused(target: str, allowed: Sequence[str]) -> None:
    if target not in allowed:
        raise ArtifactError(f"fused call {target!r} is not allowed")


def _fused_operator(target: str, allowed: Sequence[str]) -> Any:
    """One of ``allowed``. Raises ArtifactError for others, AttributeError if it is not here."""
    _check_fused(target, allowed)
    found: Any = torch.ops
    for name in target.split("."):
        found = getattr(found, name)
    return found


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
        self._inbox, self._ready = BlockingSignal(), BlockingSignal()
        Thread(target=self._serve, name=f"plait-{cores[0]}", daemon=True).start()
        self._ready.wait()  # or the next host's threads could be taken for this one's team

    def submit(self, task: Callable[[], None]) -> None:
        self._task = task
        self._inbox.send()

    def take(self, place: tuple[int, int]) -> None:
        """From the thread itself: go to a core and use so many intra-operator threads."""
        if place == self._place:
            return
        core, threads = place
        os.sched_setaffinity(0, {core})
        torch.set_num_threads(threads)
        # An idle team spins; while this thread works alone, it makes way for other hosts.
        policy = os.SCHED_IDLE if threads == 1 else os.SCHED_OTHER
        with contextlib.suppress(PermissionError):  # in some containers: right, if slower
            for thread in self._team:
                os.sched_setscheduler(thread, policy, os.sched_param(0))
        self._place = place

    def _serve(self) -> None:
        torch.get_num_threads()  # initialises this thread's count, which would be reset later
        os.sched_setaffinity(0, {self._cores[0]})
        torch.set_num_threads(len(self._cores))
        before = _threads()
        torch.zeros(32768 * len(self._cores)).add_(1)  # large enough to start the whole team
        self._team = sorted(_threads() - before)
        for thread, core in zip(self._team, self._cores[1:], strict=False):
            with contextlib.suppress(ProcessLookupError):  # it ended since
                os.sched_setaffinity(thread, {core})
        self._ready.send()
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
        unit: Callable[[str, int], Run],
        hosts: Hosts,
    ) -> None:
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
            [
                (
                    [self._signals[wait["signal"]] for wait in step["waits"]],
                    (cores[step["core"] % len(cores)], step["threads"]),
                    step["frees_before"],
                    unit(step["unit"], step["threads"]),
                    step["frees_after"],
                    step["sends"],
                    step["unit"],
                )
                for step in host["steps"]
            ]
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
        for waits, place, frees_before, unit, frees_after, sends, name in self._steps[number]:
            for signal in waits:
                signal.wait()
            # After a failure the signals still flow, or other hosts would wait for ever.
            if self._error is None:
                try:
                    host.take(place)
                    for dead in frees_before:
                        del values[dead]
                    unit(values)
                    for dead in frees_after:
                        del values[dead]
                except Exception as error:
                    failure = RuntimeError(f"unit {name!r} failed: {error}")
                    failure.__cause__ = error
                    self._error = failure
            for sent in sends:
                self._signals[sent].send()
        self._ends[number].send()


class CpuEngine:
    """Runs the schedule on the cores that this process may use; ``direct`` is there where that is
    one session of ONNX Runtime."""

    def __init__(
        self,
        graph: Mapping[str, Any],
        schedule: Mapping[str, Any],
        weights: Values,
        units: Units,
        notes: list[str],
    ) -> None:
        # A second team of threads, that of the caller, would slow those of the hosts down.
        torch.set_num_threads(1)
        self._weights, self._outputs = weights, graph["outputs"]
        planned, hosts = schedule["arrangement"], Hosts()
        cores = sorted({core for host in planned["hosts"] for core in host["cores"]})
        if not _for_cpu(schedule):
            notes.append("the schedule is for a GPU; on the CPU the units run one after the other")
            cores = list(range(len(os.sched_getaffinity(0))))
            planned = _one_after_another(graph, cores)
        orders = {True: _one_after_another(graph, cores), False: planned}
        alone = {kind: units.alone(order, weights) for kind, order in orders.items()}
        scheduled = alone[False]
        self.direct = scheduled.of_arrays(graph) if scheduled is not None else None
        self._runs: dict[bool, Run] = {
            kind: alone[kind] or Runner(order, units.get, hosts).run
            for kind, order in orders.items()
        }

    def run(self, inputs: Mapping[str, Tensor], sequential: bool) -> Values:
        values = {**self._weights, **inputs}
        self._runs[sequential](values)
        return {name: values[name] for name in self._outputs}

    def run_arrays(self, inputs: Mapping[str, Any], sequential: bool) -> dict[str, Any]:
        return _with_arrays(self.run, inputs, sequential)

    def time(self, inputs: Mapping[str, Tensor], sequential: bool) -> float:
        start = time.perf_counter()
        self.run(inputs, sequential)
        return (time.perf_counter() - start) * 1e3


def _with_arrays(
    run: Callable[[Values, bool], Values], inputs: Mapping[str, Any], sequential: bool
) -> dict[str, Any]:
    found = run({name: torch.from_numpy(array) for name, array in inputs.items()}, sequential)
    return {name: tensor.cpu().numpy() for name, tensor in found.items()}


def _one_after_another(graph: Mapping[str, Any], cores: Sequence[int]) -> dict[str, Any]:
    """The arrangement of the sequential order, every unit with all the cores."""
    last = {name: unit["name"] for unit in graph["units"] for name in unit["inputs"]}
    dead: dict[str, list[str]] = {unit["name"]: [] for unit in graph["units"]}
    for unit in graph["units"]:
        for name in unit["outputs"]:
            if name not in graph["outputs"]:
                dead[last.get(name, unit["name"])].append(name)
    alone = {"core": cores[0], "threads": len(cores), "waits": [], "sends": [], "frees_before": []}
    steps = [alone | {"unit": name, "frees_after": frees} for name, frees in dead.items()]
    return {"hosts": [{"cores": cores, "steps": steps}]}


class StreamRunner:
    """Gives units to CUDA streams as a plan says. ``cuda`` is ``torch.cuda``.

    A run begins on the current stream and ends there: every stream waits for what was given to it
    before, and it waits for them all. Nothing is freed in between, because memory that one stream
    freed could be used again while another one reads it.
    """

    def __init__(self, plan: Mapping[str, Any], units: Mapping[str, Run], cuda: Any) -> None:
        self._launches, self._units, self._cuda = plan["launches"], units, cuda
        used = dict.fromkeys(launch["stream"] for launch in self._launches)
        # PyTorch has 32 streams; beyond them some are the same, which is right, if less parallel.
        self._streams = {number: cuda.Stream() for number in used}

    def run(self, values: Values) -> None:
        """Give one run to the streams, without waiting for its end."""
        home = self._cuda.current_stream()
        start = self._cuda.Event()
        start.record(home)
        for stream in self._streams.values():
            stream.wait_event(start)
        events: dict[int, Any] = {}
        for launch in self._launches:
            stream = self._streams[launch["stream"]]
            for event in launch["waits"]:
                stream.wait_event(events[event])
            with self._cuda.stream(stream):
                try:
                    self._units[launch["unit"]](values)
                except Exception as error:
                    raise RuntimeError(f"unit {launch['unit']!r} failed: {error}") from error
            if launch["records"] is not None:
                events[launch["records"]] = self._cuda.Event()
                events[launch["records"]].record(stream)
        for stream in self._streams.values():
            home.wait_stream(stream)


class CudaEngine:
    """Runs the schedule on a GPU: captured as a CUDA graph where that works, else launch by
    launch."""

    def __init__(
        self,
        graph: Mapping[str, Any],
        schedule: Mapping[str, Any],
        weights: Values,
        units: Mapping[str, Run],
        notes: list[str],
        device: torch.device,
        use_graph: bool,
        cuda: Any = torch.cuda,
    ) -> None:
        self.direct: Direct | None = None
        self._outputs, self._device, self._cuda = graph["outputs"], device, cuda
        self._use_graph, self._notes = use_graph, notes
        alone = {"stream": 0, "waits": [], "records": None}
        one_stream = [alone | {"unit": unit["name"]} for unit in graph["units"]]
        with self._session():
            self._weights = {name: weight.to(device) for name, weight in weights.items()}
            self._runners = {
                False: StreamRunner(schedule["plan"], units, cuda),
                True: StreamRunner({"launches": one_stream}, units, cuda),
            }
        self._captured: dict[bool, Captured | None] = {}

    def run(self, inputs: Mapping[str, Tensor], sequential: bool) -> Values:
        with self._session():
            given = {name: tensor.to(self._device) for name, tensor in inputs.items()}
            values = self._launch(given, sequential)
            self._cuda.synchronize()
            # The next replay writes over what this one returned.
            return {name: values[name].clone() for name in self._outputs}

    def run_arrays(self, inputs: Mapping[str, Any], sequential: bool) -> dict[str, Any]:
        return _with_arrays(self.run, inputs, sequential)

    def time(self, inputs: Mapping[str, Tensor], sequential: bool) -> float:
        with self._session():
            given = {name: tensor.to(self._device) for name, tensor in inputs.items()}
            start, end = (self._cuda.Event(enable_timing=True) for _ in range(2))
            self._cuda.synchronize()
            start.record()
            values = self._launch(given, sequential)
            end.record()
            self._cuda.synchronize()
            del values  # not before the GPU has ended with them
            return float(start.elapsed_time(end))

    def _launch(self, inputs: Values, sequential: bool) -> Values:
        """Give one run to the GPU: all its values by name. They must live until it has ended."""
        if self._use_graph and sequential not in self._captured:
            runner, captured = self._runners[sequential], None
            try:
                captured = Captured(runner, self._weights, inputs, self._cuda)
            except RuntimeError as error:
                # What broke the capture says more than that it could not be ended.
                reason = str(error.__context__ or error).strip().partition("\n")[0]
                self._notes.append(f"no CUDA graph, units are launched one by one: {reason:.200}")
            self._captured[sequential] = captured
        if ready := self._captured.get(sequential):
            return ready.replay(inputs)
        values = {**self._weights, **inputs}
        self._runners[sequential].run(values)
        return values

    @contextlib.contextmanager
    def _session(self) -> Iterator[None]:
        with self._cuda.device(self._device), torch.inference_mode():
            yield


class Captured:
    """One run as a CUDA graph, with a place for its inputs."""

    def __init__(self, runner: StreamRunner, weights: Values, inputs: Values, cuda: Any) -> None:
        self._inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        beside = cuda.Stream()
        beside.wait_stream(cuda.current_stream())
        with cuda.stream(beside):
            for _ in range(3):  # kernels are chosen, compiled and loaded before the capture
                runner.run({**weights, **self._inputs})
        cuda.current_stream().wait_stream(beside)
        cuda.synchronize()
        self._values = {**weights, **self._inputs}
        self._graph = cuda.CUDAGraph()
        # The outer one puts the stream back if the capture cannot be ended, which PyTorch does not.
        with cuda.stream(cuda.current_stream()), cuda.graph(self._graph):
            runner.run(self._values)

    def replay(self, inputs: Values) -> Values:
        for name, place in self._inputs.items():
            place.copy_(inputs[name])
        self._graph.replay()
        return self._values


def bench(model: Model, inputs: Mapping[str, Tensor], repeats: int) -> None:
    """Print the median latency of the schedule and of the sequential order, run in turns."""
    samples: dict[str, list[float]] = {"schedule": [], "sequential": []}
    for turn in range(repeats + 5):
        for name in sorted(samples, reverse=turn % 2 == 0):
            latency = model.time(inputs, sequential=name == "sequential")
            if turn >= 5:  # the first runs warm up
                samples[name].append(latency)
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
    parser.add_argument("--device", help="cpu or cuda (default: what the schedule is for, if here)")
    parser.add_argument("--no-graph", dest="graph", action="store_false", help="no CUDA graph")
    parser.add_argument("--repeats", type=int, default=50, help="runs of --bench (default 50)")
    options = parser.parse_args()
    try:
        model = load(device=options.device, graph=options.graph)
    except (ArtifactError, RuntimeError) as error:
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
        else:
            outputs = model(sequential=options.sequential, **inputs)
    except (TypeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for note in model.notes:
        print(f"note: {note}", file=sys.stderr)
    if options.bench:
        return 0
    for name, tensor in outputs.items():
        print(f"{name}: {str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}")
    if options.output is not None:
        torch.save({name: tensor.clone() for name, tensor in outputs.items()}, options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
