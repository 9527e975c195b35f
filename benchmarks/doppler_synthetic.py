"""REACT on a simulated machine whose latencies and interference are known (DOPpler, Figure 12).

    .venv/bin/python benchmarks/doppler_synthetic.py [--output FILE]

Everything is simulated: a host of 16 cores with one GPU (``tests/support/synthetic_machine.py``),
three sizes of tensor programs, 512 candidates each in batches of 64. The *right* degree of
parallelism is found by trying all of them: the largest at which the GPU's own clock is off by no
more than τ on average and no more than τ of the candidates fail. Beside it: what REACT ran, round
by round, how much simulated time DOPpler took beside serial and naive parallel measurement, and how
far what each told was from the truth: DOPpler as it is here, which calibrates from several rounds,
with the paper's Calibrator, and with the published code's REACT and Calibrator. Takes seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.synthetic_machine import (  # noqa: E402  # the repository must be found first
    PROGRAMS,
    SyntheticCandidate,
    SyntheticPool,
    program,
    right_degree,
)

from workers.measure.parallel.calibrator import CalibratorForm  # noqa: E402
from workers.measure.parallel.doppler import DopplerMeasurer  # noqa: E402
from workers.measure.parallel.fixed import FixedMeasurer  # noqa: E402
from workers.measure.parallel.react import ReactForm, ReactPolicy  # noqa: E402
from workers.measure.parallel.rounds import ParallelRound, Taken  # noqa: E402
from workers.measure.statistics import median  # noqa: E402

COUNT, BATCH, MOST = 512, 64, 64
FORMS = {
    "doppler": (ReactForm.PAPER, CalibratorForm.POOLED),
    "paper": (ReactForm.PAPER, CalibratorForm.PAPER),
    "published": (ReactForm.PUBLISHED, CalibratorForm.PUBLISHED),
}
OUTPUT = ROOT / "benchmarks" / "results" / "doppler_synthetic.json"


def of_program(name: str) -> dict[str, Any]:
    """One size of program with every measurer."""
    candidates = program(PROGRAMS[name], COUNT, seed=1)
    found: dict[str, Any] = {"right": right_degree(PROGRAMS[name]), "measurers": {}}
    for label in ("serial", "naive", *FORMS):
        pool = SyntheticPool()
        if label == "serial":
            measurer: Any = FixedMeasurer(pool)  # type: ignore[arg-type]
        elif label == "naive":
            measurer = FixedMeasurer(pool, MOST)  # type: ignore[arg-type]
        else:
            form, calibrator = FORMS[label]
            policy = ReactPolicy(form, max_dp=MOST)
            measurer = DopplerMeasurer(
                pool,  # type: ignore[arg-type]
                policy=policy,
                calibrator=calibrator,
            )
        rounds: list[ParallelRound] = []
        taken: list[Taken] = []
        for start in range(0, COUNT, BATCH):
            taken += measurer.measure(candidates[start : start + BATCH], rounds.append)
        found["measurers"][label] = {
            "simulated_s": pool.now_s,
            "degrees": [one.degree_of_parallelism for one in rounds],
            "failed": sum(one.failure is not None for one in taken),
            "median_error": error(taken, candidates),
        }
    return found


def error(taken: Sequence[Taken], candidates: Sequence[SyntheticCandidate]) -> float | None:
    """Of what the tuner is told, where it is told a latency."""
    off = [
        abs(one.latency_ms / candidate.latency_ms - 1)
        for one, candidate in zip(taken, candidates, strict=True)
        if one.failure is None
    ]
    return median(off) if off else None


def table(programs: dict[str, Any]) -> str:
    """For people, and docs/tuning.md."""
    heads = (
        "program", "right d_p", "REACT, first 10 rounds", "serial s", "naive s (error, failed)",
        "DOPpler s (error)", "saved", "the paper's s (error)", "the published code's s (error)",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, found in programs.items():
        serial, naive, ours = (
            found["measurers"][label] for label in ("serial", "naive", "doppler")
        )
        degrees = " ".join(map(str, ours["degrees"][:10]))
        wrong = "none told" if naive["median_error"] is None else f"{naive['median_error']:.1%}"
        saved = 1 - ours["simulated_s"] / serial["simulated_s"]
        forms = [
            f"{row['simulated_s']:.0f} ({row['median_error']:.1%})"
            for row in (found["measurers"][label] for label in FORMS)
        ]
        lines.append(
            f"| {name} | {found['right']} | {degrees} | {serial['simulated_s']:.0f}"
            f" | {naive['simulated_s']:.0f} ({wrong}, {naive['failed']})"
            f" | {forms[0]} | {saved:.0%} | {forms[1]} | {forms[2]} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    programs = {name: of_program(name) for name in PROGRAMS}
    options.output.write_text(
        json.dumps({"simulated": True, "programs": programs}, indent=1) + "\n"
    )
    print(table(programs))


if __name__ == "__main__":
    main()
