"""What the machine is, and whether the driver layer does what it says."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from bench import Bench
from subjects import graph_of, wide

from workers.devices import discover
from workers.devices.cuda.probe import probe

_QUERY = (
    "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,power.draw,"
    "memory.total,memory.used,compute_mode"
)
_PACKAGES = ("torch", "triton", "numpy", "networkx", "cupti-python", "nvidia-cudnn-cu13")


def environment(bench: Bench) -> dict[str, Any]:
    """Facts, versions, clocks; and that the facts are what PyTorch says of the same GPU."""
    found: dict[str, Any] = {
        "facts": asdict(bench.device.facts),
        "discovered": [facts.name for facts in discover()],
        "packages": {name: _version(name) for name in _PACKAGES},
        "nvidia_smi": _nvidia_smi(),
    }
    if bench.real:
        found["probe"] = asdict(probe())
        facts = bench.device.facts
        seen = torch.cuda.get_device_properties(int(facts.name.removeprefix("cuda:")))
        assert facts.gpu is not None
        for what, ours, theirs in (
            ("name", facts.gpu.name, seen.name),
            ("SMs", facts.gpu.sm_count, seen.multi_processor_count),
            ("capability", facts.gpu.compute_capability, (seen.major, seen.minor)),
            ("L2", facts.gpu.l2_bytes, seen.L2_cache_size),
            ("threads per SM", facts.gpu.threads_per_sm, seen.max_threads_per_multi_processor),
            ("torch", facts.versions["torch"], torch.__version__),
        ):
            bench.check(ours == theirs, f"{what}: the driver says {ours}, PyTorch {theirs}")
        again = next(other for other in discover() if other.name == facts.name)
        bench.check(again == facts, "discovered twice, the facts differ")
    bench.say(json.dumps(found["facts"], default=str))
    return found


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _nvidia_smi() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout


def driver(bench: Bench) -> dict[str, Any]:
    """Streams of our own, events, a pause of the right length, a flush of the L2."""
    made = bench.device._shared.driver  # the layer itself is what is tested here
    found: dict[str, Any] = {}
    with made.session():
        streams = bench.device._shared.take_streams(100)
        if bench.real:
            handles = {stream.cuda_stream for stream in streams}
            bench.check(len(handles) == 100, f"100 streams have {len(handles)} handles")
        made.use(streams[0])
        found["hold_ms"] = {}
        for wanted in (0.1, 1.0, 10.0):
            times = [_between(made, streams[0], lambda w=wanted: made.hold(w)) for _ in range(5)]
            found["hold_ms"][wanted] = statistics.median(times)
        found["flush_ms"] = [_between(made, streams[0], made.flush_l2) for _ in range(5)]
        found["empty_ms"] = [_between(made, streams[0], lambda: None) for _ in range(20)]
        begun = time.perf_counter()
        made.busy(40)
        found["busy_seconds"] = time.perf_counter() - begun
    if bench.real:
        held = found["hold_ms"][10.0]
        bench.check(3 < held < 40, f"a pause of 10 ms took {held:.2f} ms")
    graph, weights = graph_of(wide(3))
    bench.say(f"{found}; {len(graph.units)} units, {len(weights)} weight")
    return found


def _between(made: Any, stream: Any, body: Any) -> float:
    start, end = made.event(timed=True), made.event(timed=True)
    start.record(stream)
    body()
    end.record(stream)
    made.synchronize()
    return float(start.elapsed_time(end))


def ceilings(bench: Bench) -> dict[str, Any]:
    """The rates that the facts' peaks stand beside: a large copy and large matrix products."""
    found: dict[str, Any] = {}
    with torch.inference_mode():
        source = torch.ones(1 << 30, device="cuda")
        target = torch.empty_like(source)
        found["copy_gb_s"] = 2 * source.nbytes / 1e6 / _median_ms(lambda: target.copy_(source))
        side = 8192
        a = torch.linspace(-1, 1, side * side, device="cuda").reshape(side, side)
        before = torch.backends.cuda.matmul.allow_tf32
        for name, tf32 in (("fp32_tflops", False), ("tf32_tflops", True)):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            found[name] = 2 * side**3 / 1e9 / _median_ms(lambda: torch.mm(a, a))
        torch.backends.cuda.matmul.allow_tf32 = before
    facts = bench.device.facts.gpu
    bench.say(f"{found}; the facts say {facts}")
    return found


def _median_ms(body: Any) -> float:
    body()
    times = []
    for _ in range(7):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        body()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)
