"""DOPpler beside naive parallel, serial and TVM's own measurement, on one GPU."""

from __future__ import annotations

import json
import time
from importlib.util import find_spec
from typing import Any

import doppler
from bench import Bench

from workers.tuning.programs.catalog import workloads

WORKLOADS = (
    "matmul.gpt2_attention", "conv2d_nchw.squeezenet_fire2", "depthwise_conv2d.mobilenet_middle",
    "dense.bert_projection", "conv2d_nhwc.inception_v3_1x7", "conv1d_ncw.wav2vec2",
)  # fmt: skip
"""In the order of what would be missed most: small, medium and large programs."""

TRIALS, REPEATS = 64, 2
AT_ONCE = 64
"""Candidates on the GPU at most, as in the paper (Section 5.1)."""

QUICK = ("matmul.gpt2_attention",)
QUICK_TRIALS = 6
"""Elsewhere than on a GPU."""


def measurers(bench: Bench) -> dict[str, Any]:
    """Each workload's rows of ``benchmarks/doppler.py``, and their table, in text. TVM must be
    there."""
    if find_spec("tvm") is None:
        bench.check(False, "TVM is not installed: there is nothing to build candidates with")
        return {}
    place = doppler.Place("llvm", "cpu", doppler.usable_cores())
    if bench.real:
        place = doppler.Place("cuda", bench.device_name, AT_ONCE)
    trials, repeats = (TRIALS, REPEATS) if bench.real else (QUICK_TRIALS, 1)
    every, found, longest = workloads(), {}, 30.0
    for name in WORKLOADS if bench.real else QUICK:
        if bench.left < longest:
            bench.say(f"{name} and what follows: no time is left")
            break
        began = time.monotonic()
        row = bench.attempt(
            name, lambda n=name: doppler.compared(n, every[n], trials, repeats, place)
        )
        longest = max(longest, 1.2 * (time.monotonic() - began))
        bench.say(f"{name}: {json.dumps(row)}")
        if "error" not in row:
            found[name] = row
    if found:
        bench.say("\n" + doppler.table(found))
    return {"workloads": found}
