"""Everything that a GPU must show of the CUDA device, in one call of ten minutes or less.

    python3 benchmarks/gpu/run.py --out DIR [--device cuda:0] [--minutes 9] [STEP ...]
    python3 benchmarks/gpu/run.py --out DIR2 inductor ceilings suite astray
    python3 benchmarks/gpu/run.py --out DIR3 contenders-1
    python3 benchmarks/gpu/run.py --out DIR4 contenders-8
    python3 benchmarks/gpu/run.py --out DIR5 contenders-32
    python3 benchmarks/gpu/run.py --out DIR6 doppler

The first call may end before its last steps; the second runs those alone. The others compare every
scheduler, what ``auto`` adds, and ``torch.compile``, at one batch size each, and the measurers of
kernel tuning; they run only if they are named.

Needs this repository and PyTorch, NumPy and NetworkX, nothing else; ``doppler`` needs TVM and nvcc,
too. Each step is guarded: one that
fails does not hide the others, and after one that hangs or breaks the GPU for its process, a new
process does the rest. Written into DIR, after every step:
``results.json`` (an environment stamp and what each step found), ``log.txt``, ``profiles.jsonl``
(kernel profiles for the simulated device of the same GPU, ``workers/devices/recorded.py``) and
``timelines.json``.
The exit status is 1 if a check failed.

``--device cpu`` runs what does not need a GPU on the CPU device; ``--device emulated`` runs nearly
all on the tests' emulation of CUDA, which finds mistakes of this script, and times nothing real.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]

import checks  # noqa: E402  # the repository must be found first
import contenders  # noqa: E402
import probes  # noqa: E402
import speed  # noqa: E402
import tuning  # noqa: E402
from bench import Bench, Step  # noqa: E402

STEPS = (
    Step("environment", 30, probes.environment),
    Step("driver", 40, probes.driver, needs="cuda"),
    Step("core", 60, checks.core),
    Step("stress", 40, checks.stress),
    Step("fallback", 20, checks.fallback, needs="cuda"),
    Step("limits", 30, checks.limits, needs="cuda"),
    Step("launches", 30, speed.launches, needs="cuda"),
    Step("speed", 130, speed.models),
    Step("models", 120, checks.models),
    Step("records", 40, checks.records),
    Step("many_streams", 30, checks.many_streams),
    Step("profiles", 50, speed.profiles),
    Step("timelines", 30, speed.timelines),
    Step("inductor", 60, speed.inductor, needs="real"),
    Step("ceilings", 20, probes.ceilings, needs="real"),
    Step("suite", 90, checks.suite, needs="real"),
    Step("astray", 60, checks.astray, needs="real"),
)
NAMED = (
    *(Step(f"contenders-{batch}", 520, contenders.at_batch(batch)) for batch in (1, 8, 32)),
    Step("doppler", 520, tuning.measurers),
)
"""In the order of what would be missed most, each with the seconds that it should take at most.
Nothing is traced before it is timed: once CUPTI was in use, it slows down every launch of the
process."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help="only these")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--resume", action="store_true", help="keep the results that DIR has")
    options = parser.parse_args()
    known = [step.name for step in (*STEPS, *NAMED)]
    unknown = [name for name in options.steps if name not in known]
    if unknown:
        parser.error(f"no step {unknown[0]!r}; known: {', '.join(known)}")
    chosen = [step for step in (*STEPS, *NAMED) if step.name in options.steps] or list(STEPS)
    again = (
        str(Path(__file__).resolve()),
        *("--out", str(options.out), "--device", options.device),
        *("--minutes", str(options.minutes)),
    )
    bench = Bench(options.device, options.out, options.minutes * 60, again=again)
    return bench.run(chosen, options.resume)


if __name__ == "__main__":
    sys.exit(main())
