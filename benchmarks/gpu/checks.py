"""What must be right on the device: results, messages, memory, limits."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from bench import Bench, CheckError
from subjects import (
    chain,
    chains,
    graph_of,
    greedy,
    inputs_of,
    model,
    original,
    random_dag,
    sequential,
    spread,
    unit_of,
    wide,
)
from torch import Tensor

from workers.devices.base import CancelledError, DeviceError
from workers.devices.cuda.precision import full_precision
from workers.graph.graph import Graph, TensorSpec, ValueRef
from workers.graph.interpreter import run_graph
from workers.schedules.plan import Launch, Plan, Stream
from workers.schedules.validate import PlanError

ROOT = Path(__file__).resolve().parents[2]

EXACT = 1e-4
"""Largest error allowed, relative to the largest magnitude, without TF32: that of
``workers.measure.verify``."""

OVERLAP_MS = 0.002
"""By how much the profiler's times may contradict each other."""

TF32 = 1e-2
"""With TF32, whose products have float16's mantissa: float16's tolerance."""

MODELS = (
    ("squeezenet", 1), ("inception_v3", 1), ("randwire", 1), ("nasbench_0", 1), ("bert_base", 1),
    ("nasnet_a_large", 1), ("resnet50", 1), ("t5_small", 1), ("lstm_tc", 1), ("deepfm", 8),
    ("googlenet", 1), ("convnext", 1), ("seq2seq_nmt", 1), ("deepspeech2", 1),
    ("nasnet_a_cifar", 1), ("mobilenet_v1", 1), ("resnext29_16x64d", 1), ("inception_v3", 16),
    ("vgg16", 1), ("alexnet", 1), ("nasbench_1", 1), ("resnet18", 4),
)  # fmt: skip
"""With batch sizes; as many as there is time for, what the papers schedule first."""

QUICK = (("squeezenet", 1), ("nasbench_0", 1))
"""Elsewhere than on a GPU."""


def error_of(outputs: Mapping[str, Tensor], expected: Sequence[Tensor]) -> float:
    """The largest error relative to the output's largest magnitude; infinite for NaN."""
    worst = 0.0
    for found, wanted in zip(outputs.values(), expected, strict=True):
        if found.shape != wanted.shape or found.dtype != wanted.dtype or found.isnan().any():
            return float("inf")
        if wanted.numel():
            scale = float(wanted.double().abs().max()) or 1.0
            worst = max(worst, float((found.double() - wanted.double()).abs().max()) / scale)
    return worst


def core(bench: Bench) -> dict[str, Any]:
    """The heart of the devices' conformance suite, without what the suite needs."""
    found: dict[str, Any] = {}
    for name, dag in (("chain", chain(30)), ("wide", wide(12)), ("diamond", wide(2))):
        graph, weights = graph_of(dag, 8, name)
        for capture in bench.captures:
            for plan in (sequential(graph), greedy(graph), spread(graph, 4, 1)):
                with bench.prepare(graph, weights, plan, capture) as executable:
                    for seed in (0, 1, 0):
                        inputs = inputs_of(graph, seed)
                        wanted = run_graph(graph, weights, inputs)
                        error = error_of(executable.run(inputs), list(wanted.values()))
                        bench.check(error < 1e-5, f"{name}, capture {capture}: off by {error:.2g}")
                    latencies = executable.time(inputs_of(graph, 2), 20)
                    bench.check(
                        len(latencies) == 20 and all(0 < ms < 1000 for ms in latencies),
                        f"{name}: latencies {latencies}",
                    )
                    values = executable.values(inputs_of(graph, 0))
                    bench.check(len(values) == len(graph.units), f"{name}: {len(values)} values")
                    use = executable.memory(inputs_of(graph, 0))
                    found[f"{name}, capture {capture}, {len(plan.streams)} streams"] = {
                        "latency_ms": sorted(latencies)[10],
                        "peak_bytes": use.peak_bytes,
                        "mode": getattr(executable, "mode", None),
                        "notes": getattr(executable, "notes", None),
                    }
                    if capture:
                        notes = getattr(executable, "notes", ())
                        mode = getattr(executable, "mode", "")
                        bench.check(mode == "graph", f"{name} was not captured: {notes}")
    bench.attempt("messages", lambda: _messages(bench))
    bench.attempt("two executables", lambda: _two_at_once(bench))
    bench.attempt("cancel", lambda: found.update(_cancel(bench)))
    bench.attempt("inputs and weights as outputs", lambda: _given_outputs(bench))
    return found


def records(bench: Bench) -> dict[str, Any]:
    """Timelines and profiles by the device's own records: every Unit once, after what it reads."""
    found: dict[str, Any] = {}
    graph, weights = graph_of(wide(6), 8)
    for capture in bench.captures:
        with bench.prepare(graph, weights, spread(graph, 3, 2), capture) as executable:
            spans = {span.unit: span for span in executable.timeline(inputs_of(graph, 0)).spans}
            bench.check(len(spans) == len(graph.units), f"{len(spans)} spans")
            for unit, before in zip(graph.units, graph.predecessors, strict=True):
                for other in (spans[graph.units[position].name] for position in before):
                    bench.check(
                        other.end_ms <= spans[unit.name].start_ms + OVERLAP_MS,
                        f"{unit.name} starts at {spans[unit.name].start_ms},"
                        f" {other.unit} ends at {other.end_ms}",
                    )
            kernels = executable.profile(inputs_of(graph, 0))
            units = {kernel.unit for kernel in kernels}
            bench.check(len(units) == len(graph.units), f"{len(units)} units have kernels")
            notes = getattr(executable, "notes", None)
            found[f"capture {capture}"] = {"notes": notes, "kernels": [asdict(k) for k in kernels]}
            bench.say(f"notes: {notes}")
    return found


def _messages(bench: Bench) -> None:
    graph, weights = graph_of(wide(4), 8)
    plan = greedy(graph)
    _raises(
        bench, DeviceError, "weight 'w', which is missing", lambda: bench.prepare(graph, {}, plan)
    )
    _raises(
        bench,
        PlanError,
        "is never launched",
        lambda: bench.prepare(graph, weights, replace(plan, launches=plan.launches[:3])),
    )
    with bench.prepare(graph, weights, plan) as executable:
        _raises(bench, DeviceError, "input 'x' of graph", lambda: executable.run({}))
        _raises(
            bench,
            DeviceError,
            "takes torch.float32",
            lambda: executable.run({"x": torch.zeros(8, 8, dtype=torch.float64)}),
        )
    executable.close()
    _raises(bench, DeviceError, "closed", lambda: executable.run(inputs_of(graph, 0)))
    wrong = {"w": torch.zeros(9, 8)}
    with bench.prepare(graph, wrong, plan) as executable:
        for _ in range(3):
            _raises(
                bench,
                DeviceError,
                "unit 'u0' failed",
                lambda: executable.time(inputs_of(graph, 0), 5),
            )
    other = bench.open()
    other.close()
    other.close()
    _raises(bench, DeviceError, "closed", lambda: other.prepare(graph, weights, plan))


def _raises(bench: Bench, kind: type[Exception], words: str, body: Any) -> None:
    try:
        body()
    except kind as error:
        bench.check(words in str(error), f"{error!r} does not say {words!r}")
    else:
        bench.check(False, f"no {kind.__name__} that says {words!r}")


def _two_at_once(bench: Bench) -> None:
    subjects = [graph_of(wide(4), 8), graph_of(chain(9), 8)]
    prepared = [bench.prepare(graph, weights, spread(graph, 3, 0)) for graph, weights in subjects]

    def run(turn: int) -> None:
        (graph, weights), executable = subjects[turn % 2], prepared[turn % 2]
        inputs = inputs_of(graph, turn)
        error = error_of(executable.run(inputs), list(run_graph(graph, weights, inputs).values()))
        if error > 1e-5:
            raise CheckError(f"off by {error:.2g} in turn {turn}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(40)))
    for executable in prepared:
        executable.close()


def _cancel(bench: Bench) -> dict[str, float]:
    graph, weights = graph_of(wide(4), 8)
    took = {}
    for capture in bench.captures:
        with bench.prepare(graph, weights, spread(graph, 3, 0), capture) as executable:
            executable.run(inputs_of(graph, 0))
            timer = threading.Timer(0.3, executable.cancel)
            timer.start()
            begun = time.monotonic()
            _raises(
                bench,
                CancelledError,
                "cancelled",
                lambda: executable.time(inputs_of(graph, 0), 10**7),
            )
            took[f"cancel_seconds, capture {capture}"] = time.monotonic() - begun - 0.3
            executable.run(inputs_of(graph, 0))
    return took


def _given_outputs(bench: Bench) -> None:
    graph, weights = graph_of(chain(2), 8)
    graph = replace(graph, outputs=("x", "w", "u1", "u0"))
    inputs = inputs_of(graph, 0)
    with bench.prepare(graph, weights, sequential(graph)) as executable:
        for _ in range(2):
            wanted = list(run_graph(graph, weights, inputs).values())
            error = error_of(executable.run(inputs), wanted)
            bench.check(error < 1e-5, f"outputs that were given are off by {error:.2g}")


def stress(bench: Bench) -> dict[str, Any]:
    """Random graphs on random streams, with kernels long enough to overlap: what is freed or
    waited for wrongly shows as a wrong number. Until the time is used."""
    draw = random.Random(0)
    runs, worst = 0, 0.0
    while bench.left > 2 and (bench.real or runs < 40):
        side = draw.choice([16, 128, 512]) if bench.real else 8
        graph, weights = graph_of(random_dag(draw.randrange(2, 60), draw), side)
        inputs = [inputs_of(graph, draw.randrange(10**6)) for _ in range(2)]
        wanted = [list(run_graph(graph, weights, given).values()) for given in inputs]
        plan = spread(graph, draw.choice([2, 3, 8, 40]), draw.randrange(10**6))
        for capture in bench.captures:
            with bench.prepare(graph, weights, plan, capture) as executable:
                for _ in range(3):
                    for given, expected in zip(inputs, wanted, strict=True):
                        error = error_of(executable.run(given), expected)
                        worst = max(worst, error)
                        bench.check(error < EXACT, f"run {runs} is off by {error:.2g}")
                        runs += 1
                executable.time(inputs[0], 5)
                error = error_of(executable.run(inputs[1]), wanted[1])
                bench.check(error < EXACT, f"after timing, off by {error:.2g}")
        if len(bench.failures) > 5:
            break
    bench.say(f"{runs} runs, largest relative error {worst:.2g}")
    return {"runs": runs, "largest_relative_error": worst}


def many_streams(bench: Bench) -> dict[str, Any]:
    """64 branches, each on a stream of its own: twice what PyTorch's pool has."""
    branches = 64
    graph, weights = graph_of(wide(branches), 256 if bench.real else 8)
    plan = Plan(
        tuple(Stream() for _ in range(branches)),
        (
            Launch("u0", 0, records=0),
            Launch("u1", 0),
            *(Launch(f"u{i}", i - 1, waits=(0,), records=i - 1) for i in range(2, branches + 1)),
            Launch(f"u{branches + 1}", 0, waits=tuple(range(1, branches))),
        ),
    )
    found: dict[str, Any] = {}
    inputs = inputs_of(graph, 0)
    wanted = list(run_graph(graph, weights, inputs).values())
    for capture in bench.captures:
        for name, given in (("sequential", sequential(graph)), ("64 streams", plan)):
            with bench.prepare(graph, weights, given, capture) as executable:
                error = error_of(executable.run(inputs), wanted)
                bench.check(error < EXACT, f"{name}, capture {capture}: off by {error:.2g}")
                spans = executable.timeline(inputs).spans
                found[f"{name}, capture {capture}"] = {
                    "latency_ms": sorted(executable.time(inputs, 21))[10],
                    "most_at_once": _most_at_once([(s.start_ms, s.end_ms) for s in spans]),
                    "peak_bytes": executable.memory(inputs).peak_bytes,
                    "notes": getattr(executable, "notes", None),
                }
    bench.say(json.dumps(found))
    return found


def _most_at_once(spans: Sequence[tuple[float, float]]) -> int:
    changes = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    level = most = 0
    for _, change in changes:
        level += change
        most = max(most, level)
    return most


def models(bench: Bench) -> dict[str, Any]:
    """The zoo's models against what they compute themselves on the CPU: sequential, greedy, and
    random streams, captured and kernel by kernel; once more with PyTorch's default TF32."""
    found: dict[str, Any] = {}
    for name, batch_size in MODELS if bench.real else QUICK:
        if bench.left < 12:
            bench.say(f"{name} and what follows: no time is left")
            break
        key = f"{name}, batch {batch_size}"
        found[key] = bench.attempt(key, lambda n=name, b=batch_size: _model(bench, n, b))
        bench.say(f"{key}: {found[key]}")
    return found


def _model(bench: Bench, name: str, batch_size: int) -> dict[str, Any]:
    begun = time.monotonic()
    graph, weights = model(name, batch_size)
    inputs = inputs_of(graph, 7)
    expected = original(name, graph, inputs)
    imported = time.monotonic() - begun
    errors: dict[str, float] = {}
    with full_precision():
        for kind, plan in (
            ("sequential", sequential(graph)),
            ("greedy", greedy(graph)),
            ("chains", chains(graph)),
            ("random, 5 streams", spread(graph, 5, 1)),
            ("random, 40 streams", spread(graph, 40, 2)),
        ):
            for capture in bench.captures:
                key = f"{kind}, {'graph' if capture else 'eager'}"
                with bench.prepare(graph, weights, plan, capture) as executable:
                    errors[key] = error_of(executable.run(inputs), expected)
                    again = error_of(executable.run(inputs), expected)
                    notes = getattr(executable, "notes", ())
                if notes:
                    bench.say(f"{name}, {key}: {notes}")
                bench.check(
                    max(errors[key], again) < EXACT, f"{name}, {key}: off by {errors[key]:.2g}"
                )
    with bench.prepare(graph, weights, chains(graph)) as executable:
        errors["chains, TF32 as PyTorch has it"] = off = error_of(executable.run(inputs), expected)
        bench.check(off < TF32, f"{name} with TF32: off by {off:.2g}")
    return {"units": len(graph.units), "import_seconds": round(imported, 1), "errors": errors}


def fallback(bench: Bench) -> dict[str, Any]:
    """A graph that cannot be captured: selecting by a mask reads the mask back. It must run kernel
    by kernel and say why, and captures must work after it."""
    rows, mask = TensorSpec((8, 8), "float32"), TensorSpec((8,), "bool")
    unit = unit_of("picked", "aten.index.Tensor", (ValueRef("x"), (ValueRef("mask"),)), ("mask",))
    values = {"x": rows, "mask": mask, "picked": TensorSpec((4, 8), "float32")}
    graph = Graph("masked", ("x",), ("picked",), ("mask",), values, (unit,))
    weights = {"mask": torch.arange(8) % 2 == 0}
    inputs = inputs_of(graph, 0)
    with bench.prepare(graph, weights, sequential(graph)) as executable:
        for _ in range(2):
            error = error_of(executable.run(inputs), [inputs["x"][weights["mask"]]])
            bench.check(error == 0, f"off by {error:.2g}")
        executable.time(inputs, 5)
        mode, notes = getattr(executable, "mode", ""), getattr(executable, "notes", ())
    if bench.real:
        bench.check(mode == "eager", f"the mode is {mode!r}")
        bench.check(any("no CUDA Graph" in note for note in notes), f"notes are {notes}")
    bench.say(f"{mode}: {notes}")
    after, held = graph_of(wide(5), 64)
    with bench.prepare(after, held, spread(after, 3, 0)) as executable:
        given = inputs_of(after, 0)
        error = error_of(executable.run(given), list(run_graph(after, held, given).values()))
        bench.check(error < EXACT, f"after it, off by {error:.2g}")
        good = getattr(executable, "mode", "") == "graph"
        bench.check(good, f"after it, nothing is captured: {getattr(executable, 'notes', ())}")
    return {"mode": mode, "notes": notes}


def limits(bench: Bench) -> dict[str, Any]:
    """Memory that does not suffice is said, and used memory is given back."""
    device, driver = bench.device, bench.device._shared.driver
    size = (device.facts.memory_bytes if bench.real else 1 << 20) // 4
    # The sum of two values, each bigger than half of what is there.
    spec = TensorSpec((size,), "float32")
    unit = unit_of("big", "aten.full.default", ((size,), 1.0), ())
    double = unit_of("sum", "aten.add.Tensor", (ValueRef("big"), ValueRef("big")), ())
    double = replace(double, inputs=("big",))
    small = TensorSpec((1,), "float32")
    values = {"x": small, "big": spec, "sum": spec}
    graph = Graph("big", ("x",), ("sum",), (), values, (replace(unit, inputs=()), double))
    said = ""
    if bench.real:
        executable = bench.prepare(graph, {}, sequential(graph))
        try:
            executable.run(inputs_of(graph, 0))
        except DeviceError as error:
            said = str(error)
            bench.check("memory is full" in said, said)
            bench.check(isinstance(error.__cause__, torch.OutOfMemoryError), repr(error.__cause__))
        else:
            bench.check(False, "more memory than there is was used")
        executable.close()
    graph, weights = graph_of(chain(60), 512 if bench.real else 8)
    inputs = inputs_of(graph, 0)
    peaks = {}
    before = driver.allocated_bytes()
    for streams in (1, 4, 16):
        with bench.prepare(graph, weights, spread(graph, streams, 0)) as executable:
            executable.run(inputs)
            peaks[streams] = executable.memory(inputs).peak_bytes
    everything = 60 * graph.values["u0"].nbytes
    if bench.real:
        bench.check(peaks[1] < everything / 6, f"{peaks} of {everything} bytes")
    del executable
    after = driver.allocated_bytes()
    bench.say(f"peaks {peaks} of {everything}; allocated before {before}, after {after}; {said}")
    return {"peaks": peaks, "everything": everything, "before": before, "after": after}


def suite(bench: Bench) -> dict[str, Any]:
    """The repository's own conformance suite on this device, where pytest and hypothesis are."""
    missing = [name for name in ("pytest", "hypothesis", "pytest_timeout") if not find_spec(name)]
    if missing:
        return {"state": f"not run: {', '.join(missing)} not installed"}
    command = [
        sys.executable, "-m", "pytest", "-v", "--noconftest", "-c", os.devnull, "-p",
        "no:cacheprovider", "-p", "no:randomly", "--rootdir", str(ROOT), "-k", "cuda",
        str(ROOT / "tests" / "devices" / "test_devices_conformance.py"),
    ]  # fmt: skip
    path = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
    written = bench.out / "suite.txt"
    with TemporaryDirectory(prefix="plait-suite-") as folder, written.open("w") as file:
        try:
            code: int | str = subprocess.run(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=max(bench.left, 10),
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            ).returncode
        except subprocess.TimeoutExpired:
            code = "no time left"
    said = written.read_text()
    bench.say(said[-6000:])
    bench.check(code == 0, f"pytest ended with {code}; {written.name} has what it said")
    return {"tail": said[-400:]}


_ASTRAY = """
import sys
sys.path[:0] = sys.argv[1].split(':')
import torch
from subjects import sequential, unit_of
from workers.devices import open_device
from workers.devices.base import DeviceError
from workers.graph.graph import Graph, TensorSpec, ValueRef
rows, places = TensorSpec((4, 8), 'float32'), TensorSpec((2,), 'int64')
unit = unit_of('picked', 'aten.embedding.default', (ValueRef('table'), ValueRef('x')), ('table',))
graph = Graph('astray', ('x',), ('picked',), ('table',),
              {'x': places, 'table': rows, 'picked': TensorSpec((2, 8), 'float32')}, (unit,))
device = open_device(sys.argv[2])
executable = device.prepare(graph, {'table': torch.ones(4, 8)}, sequential(graph))
executable.run({'x': torch.tensor([0, 1])})
for _ in range(2):
    try:
        executable.run({'x': torch.tensor([0, 1 << 40])})
    except DeviceError as error:
        print('said:', error)
"""


def astray(bench: Bench) -> dict[str, Any]:
    """A kernel that reads outside of its memory, in a process of its own: CUDA fails every call
    from then on, and the device must say so."""
    places = f"{ROOT / 'benchmarks' / 'gpu'}:{ROOT}"
    run = subprocess.run(
        [sys.executable, "-u", "-c", _ASTRAY, places, bench.device_name],
        capture_output=True,
        text=True,
        check=False,
        timeout=max(bench.left, 10),
    )
    said = [line for line in run.stdout.splitlines() if line.startswith("said:")]
    bench.check(
        len(said) == 2 and all("start a new process" in line for line in said),
        f"it said {said}; {run.stderr[-800:]}",
    )
    return {"said": said, "returncode": run.returncode, "stderr": run.stderr[-800:]}
