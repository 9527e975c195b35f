"""Every scheduler, what ``auto`` adds to them, and what a user has without us, on one GPU."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from bench import Bench
from checks import error_of
from subjects import inputs_of, model, original
from torch import Tensor

from workers import schedulers, zoo
from workers.graph.graph import Graph
from workers.measure.compare import Care, compare
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.measure.serial import Timed
from workers.schedulers.auto.propose import propose
from workers.schedulers.base import SchedulerError
from workers.schedules.lower import lower
from workers.schedules.merge import merge_stages
from workers.schedules.schedule import Schedule

MODELS = ("inception_v3", "googlenet", "nasnet_a_large", "randwire", "bert_base", "t5_small")
QUICK = ("squeezenet",)
"""Elsewhere than on a GPU."""

SEARCH_S = 25.0
"""Seconds that all schedulers of one model may measure for."""

BASELINE = "sequential"
TORCH_COMPILE = "torch.compile max-autotune"


def at_batch(batch_size: int) -> Any:
    """The step for one batch size: latencies in ms, interleaved, and speed-ups with 95 % intervals
    over the sequential CUDA Graph."""

    def run(bench: Bench) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in MODELS if bench.real else QUICK:
            if bench.left < 40:
                bench.say(f"{name} and what follows: no time is left")
                break
            key = f"{name}, batch {batch_size}"
            found[key] = bench.attempt(key, lambda n=name: _compared(bench, n, batch_size))
            bench.say(f"{key}: {json.dumps(found[key])}")
        return found

    return run


def _compared(bench: Bench, name: str, batch_size: int) -> dict[str, Any]:
    graph, weights = model(name, batch_size)
    inputs = inputs_of(graph, 0)
    schedules, skipped, seconds = _schedules(bench, graph, weights)
    expected = original(name, graph, inputs)
    with ExitStack() as opened:
        contenders: dict[str, Timed] = {}
        for label, schedule in schedules.items():
            merged = merge_stages(schedule, graph, weights)
            plan = lower(merged.schedule, merged.graph, bench.device.facts.parallelism)
            executable = opened.enter_context(bench.prepare(merged.graph, merged.weights, plan))
            outputs = executable.run(inputs)
            error = error_of(outputs, expected)
            bench.check(error < 1e-2, f"{name}, {label}: off by {error:.2g}")
            contenders[label] = executable
        if bench.real:
            compiled = bench.attempt(TORCH_COMPILE, lambda: Compiled(name, graph))
            if isinstance(compiled, Compiled):
                contenders[TORCH_COMPILE] = compiled
            else:
                skipped[TORCH_COMPILE] = "see the log"
        care = Care(limit_s=1.5) if bench.real else Care(max_rounds=12, limit_s=1.0)
        compared = compare(contenders, inputs, BASELINE, care)
    return {
        "median_ms": {key: one.measurement.latency_ms for key, one in compared.items()},
        "speedup": {key: [one.speedup, one.low, one.high] for key, one in compared.items()},
        "skipped": skipped,
        "seconds": seconds,
    }


def _schedules(
    bench: Bench, graph: Graph, weights: Mapping[str, Tensor]
) -> tuple[dict[str, Schedule], dict[str, str], dict[str, float]]:
    """What each scheduler and ``auto`` find within the time, who could not and why, and how many
    seconds each took."""
    index = MemoryIndex()
    wanted = [(name, name, {}) for name in schedulers.names()]
    wanted.append(("opara-strict", "opara", {"strict": True}))
    found: dict[str, Schedule] = {}
    skipped: dict[str, str] = {}
    seconds: dict[str, float] = {}
    until = time.monotonic() + min(SEARCH_S, bench.left / 2)
    oracle = MeasuringOracle(graph, weights, bench.device, index, deadline=until)
    for label, name, options in wanted:
        begun = time.monotonic()
        try:
            found[label] = schedulers.create(name, options).schedule(graph, oracle).schedule
        except SchedulerError as error:
            skipped[label] = str(error)
        seconds[label] = time.monotonic() - begun
    begun = time.monotonic()
    limit = begun + min(15.0, bench.left / 4)
    proposals = propose(graph, oracle, found, expired=lambda: time.monotonic() > limit)
    seconds["auto"] = time.monotonic() - begun
    found |= {one.name: one.schedule for one in proposals.found}
    return found, skipped | dict(proposals.missing), seconds


class Compiled:
    """The model's own module, compiled by PyTorch with CUDA Graphs and tuned kernels."""

    def __init__(self, name: str, graph: Graph) -> None:
        self._names = graph.inputs
        self._call = torch.compile(zoo.build(name).cuda(), mode="max-autotune")
        self._given: dict[int, Tensor] = {}

    def time(self, inputs: Mapping[str, Tensor], repeats: int) -> list[float]:
        given = [self._on_gpu(inputs[name]) for name in self._names]
        with torch.inference_mode():
            return [self._once(given) for _ in range(repeats)]

    def _once(self, given: list[Tensor]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self._call(*given)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def _on_gpu(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self._given:
            self._given[id(tensor)] = tensor.cuda()
        return self._given[id(tensor)]
