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
truth about a candidate is the median of isolated readings of the thread's clock that none of the
five has taken: two passes over all candidates in each repeat, in between. *Error* is the median of
how far what a tuner is told is from the truth; that of ``serial`` is of isolated readings too, so
that it says how well anything can be known here. *Floor* is how far two of the passes are apart, in
the median. *Quality* is how much slower than the best candidate the one is that a measurer would
choose: in the end all that were chosen, and those that seem fastest by the truth, are measured in
turns, in isolation, as the minimum of many noisy truths is lower than any of them. A row is written
as soon as it is there. The machine must be quiet.
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
PASSES = 2
"""Over all candidates, for the truth, in each repeat."""

LEADERS, TURNS = 4, 11
"""So many of the fastest by the truth are measured once more, with all that were chosen, and how
often each."""

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


Chosen = tuple[Told, int]
"""What a tuner would be told, and the candidate that it would choose."""


@dataclass
class Contest:
    """The five on the kernels of one workload. ``degrees`` has those of DOPpler's rounds, by
    Calibrator, of each repeat."""

    kernels: Kernels
    pool: WorkerPool
    local: Local
    at_once: int

    def __post_init__(self) -> None:
        self.subjects = [
            KernelSubject(path, self.kernels.arguments) for path in self.kernels.libraries
        ]
        self.degrees: dict[str, list[list[int]]] = {}
        self.measurers: dict[str, Callable[[], Chosen]] = {
            "doppler": lambda: self._doppler(CalibratorForm.POOLED),
            "paper": lambda: self._doppler(CalibratorForm.PAPER),
            "naive": lambda: self._fixed(self.at_once),
            "serial": lambda: self._fixed(1),
            LOCAL: lambda: _by_told(self.local.measure(self.kernels.libraries)),
        }

    def begin(self) -> None:
        """Every process is started, and has made its arguments."""
        some = self.subjects[: 2 * self.at_once]
        FixedMeasurer(self.pool, self.at_once, timeout_s=60.0).measure(some)
        self.local.measure(self.kernels.libraries[:1])

    def isolated(self, places: Sequence[int]) -> Told:
        """NaN what failed."""
        chosen = [self.subjects[place] for place in places]
        taken = FixedMeasurer(self.pool, effort=BRISK).isolated(chosen)
        return [one.device_ms for one in taken]

    def _fixed(self, degree: int) -> Chosen:
        measurer = FixedMeasurer(self.pool, degree, BRISK)
        return _by_told(latencies(measurer.measure(self.subjects)))

    def _doppler(self, form: CalibratorForm) -> Chosen:
        rounds: list[ParallelRound] = []
        policy = ReactPolicy(max_dp=self.at_once)
        measurer = DopplerMeasurer(self.pool, BRISK, policy, calibrator=form)
        told = latencies(measurer.measure(self.subjects, rounds.append))
        self.degrees.setdefault(form, []).append([one.degree_of_parallelism for one in rounds])
        if form is CalibratorForm.PAPER:
            best = select_ranked(told, contending=0)
            taken = measurer.isolated([self.subjects[place] for place in best])
        else:
            within = contending_within(measurer.evidence.doubt)
            best = select_ranked(told, contending=within)
            chosen = [self.subjects[place] for place in best]
            taken = measured_in_turns(measurer.isolated, chosen, contending=within)
        sure = {place: one.latency_ms for place, one in zip(best, taken, strict=True)}
        return told, min(sure, key=sure.__getitem__) if sure else fastest(told)


def compared(
    name: str, program: TensorProgram, trials: int, repeats: int, place: Place
) -> dict[str, Any]:
    """One workload with all five."""
    with tempfile.TemporaryDirectory(prefix="plait-doppler-") as scratch:
        kernels = built(program, trials, Path(scratch), place)
        with closing(WorkerPool([place.device], place.runtime)) as pool:
            contest = Contest(kernels, pool, Local(program, place), place.at_once)
            contest.begin()
            state, passes = _repeats(name, contest, repeats)
            truth = [median(values) for values in zip(*passes, strict=True)]
            finals = _finals(contest, state, truth)
    apart = [
        abs(one / other - 1)
        for first, second in combinations(passes, 2)
        for one, other in zip(first, second, strict=True)
        if not math.isnan(one / other)
    ]
    return {
        "candidates": kernels.tried,
        "built": len(kernels.libraries),
        "build_s": kernels.build_s,
        "best_ms": min(finals.values(), default=None),
        "floor": median(apart) if apart else None,
        "degrees": contest.degrees,
        "measurers": {label: summary(found, truth, finals) for label, found in state.items()},
    }


def _repeats(
    name: str, contest: Contest, repeats: int
) -> tuple[dict[str, dict[str, list[Any]]], list[Told]]:
    """What each measurer took, told and chose in each repeat, and the passes for the truth."""
    state: dict[str, dict[str, list[Any]]] = {
        label: {"wall_s": [], "told": [], "chosen": []} for label in contest.measurers
    }
    passes: list[Told] = []
    for repeat in range(repeats):
        parts = [*contest.measurers, *[""] * PASSES]
        for label in random.Random(repeat).sample(parts, len(parts)):
            if not label:
                passes.append(contest.isolated(range(len(contest.subjects))))
                continue
            began = time.monotonic()
            told, chosen = contest.measurers[label]()
            seconds = time.monotonic() - began
            for what, value in (("wall_s", seconds), ("told", told), ("chosen", chosen)):
                state[label][what].append(value)
            print(f"  {name}, {label}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return state, passes


def _finals(
    contest: Contest, state: Mapping[str, Mapping[str, Sequence[int]]], truth: Told
) -> dict[int, float]:
    """In ms, of all that were chosen and the fastest by the truth, measured in turns; without those
    that fail."""
    known = [place for place, ms in enumerate(truth) if not math.isnan(ms)]
    leaders = sorted(known, key=truth.__getitem__)[:LEADERS]
    places = sorted({*leaders, *(place for found in state.values() for place in found["chosen"])})
    turns = []
    for turn in range(TURNS):
        order = random.Random(turn).sample(places, len(places))
        turns.append(dict(zip(order, contest.isolated(order), strict=True)))
    latencies = {place: median([turn[place] for turn in turns]) for place in places}
    return {place: ms for place, ms in latencies.items() if not math.isnan(ms)}


def _by_told(told: Told) -> Chosen:
    return told, fastest(told)


def latencies(taken: Sequence[Taken | None]) -> Told:
    """What a tuner would be told."""
    return [math.inf if one is None else one.latency_ms for one in taken]


def fastest(told: Told) -> int:
    """The candidate that one would choose by this alone."""
    return min(range(len(told)), key=told.__getitem__)


def summary(
    found: Mapping[str, Any], truth: Sequence[float], finals: Mapping[int, float]
) -> dict[str, Any]:
    """A measurer's repeats, held against the truth, and what it chose, against the best."""
    best = min(finals.values(), default=math.nan)
    off = [
        abs(ms / true - 1)
        for told in found["told"]
        for ms, true in zip(told, truth, strict=True)
        if math.isfinite(ms) and not math.isnan(true)
    ]
    return {
        "wall_s": found["wall_s"],
        "failed": [sum(not math.isfinite(ms) for ms in told) for told in found["told"]],
        "quality": [finals.get(chosen, math.inf) / best - 1 for chosen in found["chosen"]],
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
