"""How fast the device runs Plans, and the records that other parts of the repository need."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

import torch
from bench import Bench
from checks import QUICK
from subjects import (
    chain,
    chains,
    graph_of,
    greedy,
    inputs_of,
    model,
    sequential,
    spread,
    wide,
)
from torch import Tensor

from workers import zoo
from workers.devices.base import Executable
from workers.devices.recorded import RecordedProfile, append_profiles, unit_signature
from workers.graph.graph import Graph
from workers.hardware.kernel import Kernel
from workers.schedules.plan import Launch, Plan, Stream

SUBJECTS = (
    ("inception_v3", 1), ("squeezenet", 1), ("randwire", 1), ("nasnet_a_large", 1),
    ("bert_base", 1), ("googlenet", 1), ("t5_small", 1), ("inception_v3", 32), ("lstm_tc", 1),
)  # fmt: skip

PROFILED = (
    ("inception_v3", 1), ("randwire", 1), ("nasnet_a_large", 1), ("squeezenet", 1),
    ("bert_base", 1), ("inception_v3", 32), ("googlenet", 1), ("resnet50", 1), ("t5_small", 1),
)  # fmt: skip

ROUNDS, REPEATS = 7, 15


def launches(bench: Bench) -> dict[str, Any]:
    """What a launch costs, kernel by kernel and in a graph, and what a wait for an event adds."""
    length = 200
    graph, weights = graph_of(chain(length), 8)
    inputs = inputs_of(graph, 0)
    found: dict[str, float] = {}
    hopping = Plan(
        (Stream(), Stream()),
        tuple(
            Launch(
                f"u{i}",
                i % 2,
                waits=(i - 1,) if i else (),
                records=i if i + 1 < length else None,
            )
            for i in range(length)
        ),
    )
    for name, plan in (("one stream", sequential(graph)), ("to and fro", hopping)):
        for capture in bench.captures:
            with bench.prepare(graph, weights, plan, capture) as executable:
                executable.run(inputs)
                executable.time(inputs, 5)
                ms = statistics.median(executable.time(inputs, 31))
                found[f"{name}, {'graph' if capture else 'eager'}: us a unit"] = ms * 1e3 / length
    tiny, held = graph_of(chain(1), 8)
    with bench.prepare(tiny, held, sequential(tiny)) as executable:
        executable.run(inputs_of(tiny, 0))
        samples = executable.time(inputs_of(tiny, 0), 200)
        found["one unit, graph: us"] = statistics.median(samples) * 1e3
        deviation = statistics.pstdev(samples) / statistics.mean(samples)
        found["one unit, graph: relative deviation"] = deviation
    bench.say(json.dumps(found))
    return found


def models(bench: Bench) -> dict[str, Any]:
    """Sequential and multi-stream CUDA Graphs and launches kernel by kernel, interleaved; and what
    a user has without us: the model itself, as it is and as one CUDA Graph."""
    found: dict[str, Any] = {}
    for name, batch_size in SUBJECTS if bench.real else QUICK:
        if bench.left < 10:
            bench.say(f"{name} and what follows: no time is left")
            break
        key = f"{name}, batch {batch_size}"
        found[key] = bench.attempt(key, lambda n=name, b=batch_size: _timed(bench, n, b))
        bench.say(f"{key}: {json.dumps(found[key])}")
    return found


def _timed(bench: Bench, name: str, batch_size: int) -> dict[str, Any]:
    graph, weights = model(name, batch_size)
    inputs = inputs_of(graph, 0)
    plans = {
        "sequential, eager": (sequential(graph), False),
        "sequential, graph": (sequential(graph), True),
        "greedy, graph": (greedy(graph), True),
        "chains, graph": (chains(graph), True),
        "chains, eager": (chains(graph), False),
        "random, 8 streams, graph": (spread(graph, 8, 0), True),
    }
    with ExitStack() as opened:
        contenders: dict[str, Executable] = {
            key: opened.enter_context(bench.prepare(graph, weights, plan, capture))
            for key, (plan, capture) in plans.items()
        }
        if bench.cuda:
            cold = bench.prepare(graph, weights, sequential(graph), cold=True)
            contenders["sequential, graph, cold L2"] = opened.enter_context(cold)
        found = _interleaved(bench, contenders, inputs)
        found["streams"] = {key: len(plan.streams) for key, (plan, _) in plans.items()}
        found["modes"] = {
            key: getattr(executable, "mode", None) for key, executable in contenders.items()
        }
    if bench.real:
        found["the model itself"] = bench.attempt(
            f"{name} itself", lambda: _original(name, graph, inputs)
        )
    return found


def _interleaved(
    bench: Bench, contenders: Mapping[str, Executable], inputs: Mapping[str, Tensor]
) -> dict[str, Any]:
    rounds, repeats = (ROUNDS, REPEATS) if bench.real else (2, 2)
    for executable in contenders.values():
        executable.run(inputs)
        executable.time(inputs, repeats)
    medians: dict[str, list[float]] = {key: [] for key in contenders}
    for _ in range(rounds):
        for key, executable in contenders.items():
            medians[key].append(statistics.median(executable.time(inputs, repeats)))
    base = medians["sequential, graph"]
    return {
        "median_ms": {key: statistics.median(of) for key, of in medians.items()},
        "speedup_over_sequential_graph": {
            key: statistics.median(b / x for b, x in zip(base, of, strict=True))
            for key, of in medians.items()
        },
        "spread": {key: (max(of) - min(of)) / statistics.median(of) for key, of in medians.items()},
    }


def _original(name: str, graph: Graph, inputs: Mapping[str, Tensor]) -> dict[str, float]:
    """The model's own module on the GPU: eager, and captured as PyTorch does."""
    module = zoo.build(name).cuda()
    given = [inputs[key].cuda() for key in graph.inputs]
    with torch.inference_mode():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                module(*given)
        torch.cuda.current_stream().wait_stream(side)
        found = {"eager_ms": _events(lambda: module(*given))}
        whole = torch.cuda.CUDAGraph()
        with torch.cuda.graph(whole):
            module(*given)
        found["graph_ms"] = _events(whole.replay)
        whole.reset()
    return found


def _events(body: Any) -> float:
    times = []
    for _ in range(40):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        body()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[10:])


def profiles(bench: Bench) -> dict[str, Any]:
    """Kernel profiles of models' Units, each the median of several runs, for ``sim:`` devices."""
    path = bench.out / "profiles.jsonl"
    path.unlink(missing_ok=True)
    found: dict[str, Any] = {}
    for name, batch_size in PROFILED if bench.real else QUICK:
        if bench.left < 8:
            bench.say(f"{name} and what follows: no time is left")
            break
        key = f"{name}, batch {batch_size}"
        found[key] = bench.attempt(key, lambda n=name, b=batch_size: _profiled(bench, n, b, path))
        bench.say(f"{key}: {found[key]}")
    return found


def _profiled(bench: Bench, name: str, batch_size: int, path: Any) -> dict[str, Any]:
    graph, weights = model(name, batch_size)
    inputs = inputs_of(graph, 0)
    with bench.prepare(graph, weights, sequential(graph), capture=False) as executable:
        runs = [_by_unit(executable.profile(inputs)) for _ in range(5 if bench.real else 2)]
        graph_ms = _graph_ms(bench, graph, weights, inputs)
    facts = bench.device.facts
    gpu = facts.gpu.name if facts.gpu else facts.name
    kept, unequal, kernel_ms = [], 0, 0.0
    for position, unit in enumerate(graph.units):
        seen = [run.get(unit.name, ()) for run in runs]
        names = [[kernel.name for kernel in kernels] for kernels in seen]
        if names.count(names[-1]) < len(names) - 1:  # the first may have tuned or loaded something
            unequal += 1
            continue
        same = [kernels for kernels, of in zip(seen, names, strict=True) if of == names[-1]]
        kernels = tuple(
            replace(kernel, duration_ms=statistics.median(k[i].duration_ms for k in same))
            for i, kernel in enumerate(seen[-1])
        )
        kernel_ms += sum(kernel.duration_ms for kernel in kernels)
        kept.append(
            RecordedProfile(gpu, "aten", unit_signature(graph, position), kernels, facts.versions)
        )
    append_profiles(path, kept)
    bench.check(not unequal, f"{name}: {unequal} units launch other kernels each time")
    return {
        "units": len(kept),
        "kernels": sum(len(profile.kernels) for profile in kept),
        "without_kernels": sum(not profile.kernels for profile in kept),
        "kernel_ms": kernel_ms,
        "sequential_graph_ms": graph_ms,
    }


def _graph_ms(
    bench: Bench, graph: Graph, weights: Mapping[str, Tensor], inputs: Mapping[str, Tensor]
) -> float:
    with bench.prepare(graph, weights, sequential(graph)) as executable:
        executable.run(inputs)
        return statistics.median(executable.time(inputs, 21))


def _by_unit(kernels: tuple[Kernel, ...]) -> dict[str, tuple[Kernel, ...]]:
    found: dict[str, tuple[Kernel, ...]] = {}
    for kernel in kernels:
        found[kernel.unit] = (*found.get(kernel.unit, ()), kernel)
    return found


def timelines(bench: Bench) -> dict[str, Any]:
    """Timelines of multi-stream graphs: what they are of, how much ran at once."""
    kept: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for name, batch_size in (("inception_v3", 1), ("randwire", 1)) if bench.real else QUICK[:1]:
        graph, weights = model(name, batch_size)
        inputs = inputs_of(graph, 0)
        for kind, plan in (("sequential", sequential(graph)), ("chains", chains(graph))):
            with bench.prepare(graph, weights, plan) as executable:
                line = executable.timeline(inputs)
                latency = statistics.median(executable.time(inputs, 21))
            busy = sum(span.end_ms - span.start_ms for span in line.spans)
            end = max(span.end_ms for span in line.spans)
            key = f"{name}, {kind}"
            kept[key] = asdict(line)
            found[key] = {
                "notes": getattr(executable, "notes", None),
                "end_ms": end,
                "timed_ms": latency,
                "units_at_once": busy / end if end else 0,
                "mean_warps": _mean_level(line.resident_warps, end),
            }
            bench.say(f"{key}: {found[key]}")
    (bench.out / "timelines.json").write_text(json.dumps(kept))
    return found


def _mean_level(steps: tuple[tuple[float, float], ...], end: float) -> float:
    if not steps:
        return 0.0
    area = 0.0
    for (start, level), (stop, _) in zip(steps, [*steps[1:], (end, 0.0)], strict=True):
        area += level * (stop - start)
    return area / end if end else 0.0


def inductor(bench: Bench) -> dict[str, Any]:
    """The provider that compiles Units: right, capturable, and how fast beside ``aten``."""
    found: dict[str, Any] = {}
    for name, graph, weights in (
        ("wide", *graph_of(wide(6), 128)),
        ("squeezenet", *model("squeezenet", 1)),
    ):
        if bench.left < 15:
            bench.say(f"{name}: no time is left")
            break
        inputs = inputs_of(graph, 0)
        begun = time.monotonic()
        with (
            bench.prepare(graph, weights, chains(graph), provider="inductor") as executable,
            bench.prepare(graph, weights, chains(graph)) as other,
        ):
            outputs, expected = executable.run(inputs), other.run(inputs)
            seconds = time.monotonic() - begun
            for key, wanted in expected.items():
                error = float((outputs[key] - wanted).abs().max() / wanted.abs().max())
                bench.check(error < 1e-2, f"{name}, output {key}: off by {error:.2g} from aten")
            found[name] = {
                "compile_seconds": seconds,
                "inductor_ms": statistics.median(executable.time(inputs, 21)),
                "aten_ms": statistics.median(other.time(inputs, 21)),
                "notes": getattr(executable, "notes", None),
            }
        bench.say(f"{name}: {found[name]}")
    return found
