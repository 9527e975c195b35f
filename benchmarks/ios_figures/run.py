"""The experiments of the IOS paper on simulated GPUs, beside what the paper and its repository say.

    .venv/bin/python benchmarks/ios_figures/run.py [--only SECTION ...] [--large MODE]
        [--output benchmarks/results/ios_figures.json] [--document docs/ios.md]

Nothing here ran on a GPU: every latency is of ``SimDevice(gpu, "streams")``, whose launches a CPU
thread issues one by one as IOS's engine does, or of one CUDA Graph in the sections that say so.

``--only`` runs some sections, such as ``schedules_v100`` or ``schedules_v100:randwire``, and leaves
the others in the output file as they are. ``--document`` writes the tables of the output file into
the document, between the comments that name them. ``--only`` without sections does nothing else.
Searches are exhaustive, as the paper's, but for NASNet (exact) and RandWire (guided), unless
``--large`` says otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from machine import machine  # noqa: E402  # its folder must be found first
from searches import Searches  # noqa: E402
from sections import SECTIONS  # noqa: E402
from tables import fill  # noqa: E402

from workers.devices.sim.version import MODEL_VERSION  # noqa: E402
from workers.schedulers.ios.scheduler import Mode  # noqa: E402

NOTE = (
    "simulated_... are computed by a simulator and were never measured on a GPU; published_... were"
    " measured by IOS's authors, see benchmarks/ios_published.py. cpu_seconds is the time of the"
    " search with its simulations, which found some stages known from sections run before."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--large", choices=get_args(Mode))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--document", type=Path)
    options = parser.parse_args()
    chosen = _chosen(options.only)
    taken_on = machine()
    report: dict[str, Any] = {"simulated": True, "note": NOTE, "sections": {}}
    if options.output and options.output.exists():
        report["sections"] = json.loads(options.output.read_text())["sections"]
    searches = Searches(options.large)
    for name in chosen:
        print(f"{name} (simulated)", flush=True)
        started = time.process_time()
        rows = SECTIONS[name](searches)
        report["sections"][name] = {
            "computed_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": taken_on,
            "simulator": MODEL_VERSION,
            "cpu_seconds": round(time.process_time() - started, 1),
            "rows": _rounded(rows),
        }
        print(f"  {report['sections'][name]['cpu_seconds']} s of CPU", flush=True)
        if options.output:
            options.output.write_text(json.dumps(report, indent=1) + "\n")
    if options.document:
        fill(options.document, report["sections"])


def _chosen(only: Sequence[str] | None) -> list[str]:
    """All sections, or those of a name, with or without a network after a colon."""
    if only is None:
        return list(SECTIONS)
    known = {*SECTIONS, *(name.partition(":")[0] for name in SECTIONS)}
    if unknown := [name for name in only if name not in known]:
        raise SystemExit(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    return [name for name in SECTIONS if {name, name.partition(":")[0]} & {*only}]


def _rounded(value: Any) -> Any:
    """Six digits say more than a simulator knows."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value


if __name__ == "__main__":
    main()
