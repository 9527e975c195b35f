"""DOPpler beside naive parallel, serial, and TVM's own measurement, on this machine's CPU.

    .venv/bin/python benchmarks/doppler.py [WORKLOAD ...] [--trials 64] [--repeats 3]
        [--output FILE] [--table]

The ``grid`` tuner proposes the same candidates whatever is measured. They are built once, and then
measured in one run by all five, in a new order in each repeat:

- ``doppler``: rounds of d_p candidates at once, at most one for each core; what it tells is
  calibrated from several rounds, and the best are measured again in isolation.
- ``paper``: the same with the paper's Calibrator, which takes each round by itself, and its K.
- ``naive``: as many at once as there are cores, by the host's clock.
- ``serial``: one at a time, by the host's clock.
- ``local``: TVM's ``LocalRunner`` as it is.

All kernels run on one thread. Wall time is that of measuring; processes are started before. The
truth about a candidate is the median over the repeats of what the serial measurer's processes read
from the thread's clock, when nothing else ran. *Quality* is how much slower than the fastest
candidate the one is that a measurer would choose; *error* is the median of how far what a tuner is
told is from the truth, which flatters ``serial``, whose own readings it is made of. *Floor* is how
far two isolated readings of a candidate are apart, in the median: nothing is known better. A row
is written as soon as it is there. The machine must be quiet.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from workers.measure.effort import BRISK
from workers.measure.parallel.calibrator import (
    CalibratorForm,
    contending_within,
    select_ranked,
)
from workers.measure.parallel.doppler import DopplerMeasurer
from workers.measure.parallel.fixed import FixedMeasurer
from workers.measure.parallel.pool import WorkerPool
from workers.measure.parallel.ranking import measured_in_turns
from workers.measure.parallel.react import ReactPolicy
from workers.measure.parallel.rounds import ParallelRound, Taken
from workers.measure.statistics import median
from workers.tuning.kernels.arguments import ProgramArguments, write_reference
from workers.tuning.kernels.build import BuildOrder
from workers.tuning.kernels.pool import BuildPool
from workers.tuning.kernels.source import TracedSource
from workers.tuning.kernels.subject import KernelSubject
from workers.tuning.program import TensorProgram
from workers.tuning.programs.catalog import family_of, inputs, outputs, workloads
from workers.tuning.recording import usable_cores
from workers.tuning.space import DesignSpace
from workers.tuning.targets import named_target
from workers.tuning.tuners.catalog import open_tuner

WORKLOADS = (
    "matmul.gpt2_attention", "dense.bert_projection", "dense_int8.resnet50_classifier",
    "conv1d_ncw.wav2vec2", "conv1d_nwc.sentence_cnn", "conv2d_nchw.squeezenet_fire2",
    "conv2d_nhwc.inception_v3_1x7", "conv2d_int8.squeezenet_fire5",
    "depthwise_conv2d.mobilenet_middle", "grouped_conv2d.resnext50_conv5",
    "conv3d_ndhwc.voxnet_conv1", "tconv1d_ncw.melgan_last", "correlation_nchw.pwcnet_level4",
    "lstm_cell.gnmt",
)  # fmt: skip
OUTPUT = Path(__file__).parent / "results" / "doppler.json"
LOCAL = "local"
ORDER = ("doppler", "paper", "naive", "serial", LOCAL)

Told = list[float]
"""Of each candidate, in ms; infinite what failed."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where kernels run: a target's and a device's name, and how many candidates at once at
    most."""

    target: str
    device: str
    at_once: int

    @property
    def runtime(self) -> str:
        """What a measuring process loads before its first candidate."""
        loading = "load_cpu" if self.device == "cpu" else "load_cuda"
        return f"workers.tuning.kernels.runtime:{loading}"


@dataclass(frozen=True, slots=True)
class Kernels:
    """What was built of a workload, and of how many candidates."""

    libraries: tuple[Path, ...]
    arguments: ProgramArguments
    tried: int
    build_s: float


def built(program: TensorProgram, trials: int, folder: Path, place: Place) -> Kernels:
    """The grid's candidates, on all cores."""
    target = named_target(place.target)
    space = DesignSpace(family_of(program).prim_func(dict(program.sizes)), target.tvm())
    candidates = open_tuner("grid", space).propose(trials)
    orders = []
    for number, candidate in enumerate(candidates):
        (folder / str(number)).mkdir()
        source = TracedSource(program, candidate)
        orders.append(BuildOrder(source, target, folder / str(number) / "kernel.so"))
    began = time.monotonic()
    with closing(BuildPool(usable_cores())) as pool:
        found = [future.result() for future in pool.build(orders)]
    seconds = time.monotonic() - began
    libraries = tuple(one.library for one in found if one.library is not None)
    arguments = write_reference(program, 1, folder / "reference.npz")
    return Kernels(libraries, arguments, len(candidates), seconds)


class Local:
    """TVM's ``LocalRunner`` with its defaults; its process is not started anew."""

    def __init__(self, program: TensorProgram, place: Place) -> None:
        from tvm.runtime import DataType  # noqa: PLC0415  # an optional extra
        from tvm.s_tir.meta_schedule.arg_info import TensorInfo  # noqa: PLC0415
        from tvm.s_tir.meta_schedule.runner import LocalRunner, RunnerInput  # noqa: PLC0415

        self._input, self._runner = RunnerInput, LocalRunner()
        self._device = place.device.partition(":")[0]
        tensors = (*inputs(program), *outputs(program))
        self._tensors = [TensorInfo(DataType(spec.dtype), spec.shape) for spec in tensors]

    def measure(self, libraries: Sequence[Path]) -> Told:
        """One after the other, as the runner does."""
        given = [self._input(str(path), self._device, self._tensors) for path in libraries]
        results = [future.result() for future in self._runner.run(given)]
        return [
            math.inf if one.run_secs is None else 1e3 * float(one.run_secs[0]) for one in results
        ]


def compared(
    name: str, program: TensorProgram, trials: int, repeats: int, place: Place
) -> dict[str, Any]:
    """One workload with all five."""
    with tempfile.TemporaryDirectory(prefix="plait-doppler-") as scratch:
        kernels = built(program, trials, Path(scratch), place)
        subjects = [KernelSubject(path, kernels.arguments) for path in kernels.libraries]
        local = Local(program, place)
        pool = WorkerPool([place.device], place.runtime)
        state: dict[str, Any] = {}
        truths: list[Told] = []
        degrees: dict[str, list[list[int]]] = {
            CalibratorForm.POOLED: [], CalibratorForm.PAPER: [],
        }  # fmt: skip

        def doppler(form: CalibratorForm) -> tuple[Told, int]:
            rounds: list[ParallelRound] = []
            policy = ReactPolicy(max_dp=place.at_once)
            measurer = DopplerMeasurer(pool, BRISK, policy, calibrator=form)
            told = latencies(measurer.measure(subjects, rounds.append))
            degrees[form].append([one.degree_of_parallelism for one in rounds])
            if form is CalibratorForm.PAPER:
                best = select_ranked(told, contending=0)
                taken = measurer.isolated([subjects[place] for place in best])
            else:
                within = contending_within(measurer.evidence.doubt)
                best = select_ranked(told, contending=within)
                chosen = [subjects[place] for place in best]
                taken = measured_in_turns(measurer.isolated, chosen, contending=within)
            sure = {place: one.latency_ms for place, one in zip(best, taken, strict=True)}
            return told, min(sure, key=sure.__getitem__) if sure else fastest(told)

        def naive() -> tuple[Told, int]:
            told = latencies(FixedMeasurer(pool, place.at_once, BRISK).measure(subjects))
            return told, fastest(told)

        def serial() -> tuple[Told, int]:
            taken = FixedMeasurer(pool, effort=BRISK).measure(subjects)
            truths.append([math.nan if one is None else one.device_ms for one in taken])
            told = latencies(taken)
            return told, fastest(told)

        def by_tvm() -> tuple[Told, int]:
            told = local.measure(kernels.libraries)
            return told, fastest(told)

        measurers: dict[str, Callable[[], tuple[Told, int]]] = {
            "doppler": lambda: doppler(CalibratorForm.POOLED),
            "paper": lambda: doppler(CalibratorForm.PAPER),
            "naive": naive,
            "serial": serial,
            LOCAL: by_tvm,
        }
        try:
            # Every process is started, and has made its arguments.
            FixedMeasurer(pool, place.at_once, timeout_s=60.0).measure(
                subjects[: 2 * place.at_once]
            )
            local.measure(kernels.libraries[:1])
            for label in measurers:
                state[label] = {"wall_s": [], "told": [], "chosen": []}
            for repeat in range(repeats):
                for label in random.Random(repeat).sample(list(measurers), len(measurers)):
                    began = time.monotonic()
                    told, chosen = measurers[label]()
                    state[label]["wall_s"].append(time.monotonic() - began)
                    state[label]["told"].append(told)
                    state[label]["chosen"].append(chosen)
                    seconds = state[label]["wall_s"][-1]
                    print(f"  {name}, {label}: {seconds:.1f} s", file=sys.stderr, flush=True)
        finally:
            pool.close()
    truth = [median(values) for values in zip(*truths, strict=True)]
    apart = [
        abs(one / other - 1)
        for first, second in combinations(truths, 2)
        for one, other in zip(first, second, strict=True)
        if not math.isnan(one / other)
    ]
    return {
        "candidates": kernels.tried,
        "built": len(kernels.libraries),
        "build_s": kernels.build_s,
        "best_ms": min((ms for ms in truth if not math.isnan(ms)), default=None),
        "floor": median(apart) if apart else None,
        "degrees": degrees,
        "measurers": {label: summary(found, truth) for label, found in state.items()},
    }


def latencies(taken: Sequence[Taken | None]) -> Told:
    """What a tuner would be told."""
    return [math.inf if one is None else one.latency_ms for one in taken]


def fastest(told: Told) -> int:
    """The candidate that one would choose by this alone."""
    return min(range(len(told)), key=told.__getitem__)


def summary(found: Mapping[str, Any], truth: Sequence[float]) -> dict[str, Any]:
    """A measurer's repeats, held against the truth."""
    best = min(ms for ms in truth if not math.isnan(ms))
    off = [
        abs(ms / true - 1)
        for told in found["told"]
        for ms, true in zip(told, truth, strict=True)
        if math.isfinite(ms) and not math.isnan(true)
    ]
    return {
        "wall_s": found["wall_s"],
        "failed": [sum(not math.isfinite(ms) for ms in told) for told in found["told"]],
        "quality": [truth[chosen] / best - 1 for chosen in found["chosen"]],
        "error": median(off) if off else None,
    }


def table(rows: Mapping[str, Any]) -> str:
    """For people, and docs/tuning.md."""
    heads = (
        "workload", "built", "DOPpler s", "of the paper's", "of naive", "of serial", "of TVM's",
        "worse than the best by (DOPpler, paper's, naive, serial, TVM's)", "error (the same)",
        "floor",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    ratios: dict[str, list[float]] = {label: [] for label in ORDER[1:]}
    worst: dict[str, list[float]] = {label: [] for label in ORDER}
    errors: dict[str, list[float]] = {label: [] for label in ORDER}
    for name, row in rows.items():
        found = row["measurers"]
        walls = {label: median(found[label]["wall_s"]) for label in ORDER}
        for label, known in ratios.items():
            known.append(walls["doppler"] / walls[label])
        for label in ORDER:
            worst[label].append(median(found[label]["quality"]))
            errors[label].append(found[label]["error"] or math.nan)
        worse = ", ".join(f"{worst[label][-1]:.1%}" for label in ORDER)
        error = ", ".join(f"{errors[label][-1]:.1%}" for label in ORDER)
        shares = " | ".join(f"{walls['doppler'] / walls[label]:.2f}" for label in ratios)
        lines.append(
            f"| {name} | {row['built']} of {row['candidates']} | {walls['doppler']:.1f} |"
            f" {shares} | {worse} | {error} | {row['floor'] or math.nan:.1%} |"
        )
    shares = " | ".join(f"{median(known):.2f}" for known in ratios.values())
    worse = ", ".join(f"{median(worst[label]):.1%}" for label in ORDER)
    error = ", ".join(f"{median(errors[label]):.1%}" for label in ORDER)
    floor = median([row["floor"] or math.nan for row in rows.values()])
    lines.append(f"| median | | | {shares} | {worse} | {error} | {floor:.1%} |")
    return "\n".join(lines)


def main() -> None:
    from machine import machine  # noqa: PLC0415  # what a GPU's step has no need of

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", default=list(WORKLOADS))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(options.output.read_text())["workloads"]))
        return
    known = json.loads(options.output.read_text()) if options.output.exists() else {"workloads": {}}
    known["machine"] = machine()
    every = workloads()
    place = Place("llvm", "cpu", usable_cores())
    for name in options.workloads:
        known["workloads"][name] = compared(
            name, every[name], options.trials, options.repeats, place
        )
        options.output.write_text(json.dumps(known, indent=1) + "\n")
    print(table(known["workloads"]))


if __name__ == "__main__":
    main()
