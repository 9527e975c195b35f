"""What Opara's paper measures (Section 5.2), on simulated GPUs beside what its text says.

    .venv/bin/python benchmarks/opara_figures.py [--output benchmarks/results/opara_figures.json]

Every latency here is simulated. The models are as they are imported, every ATen operator a Unit,
because the paper's systems run PyTorch's operators one by one: nothing is fused, and batch norm is
an operator. Most bars of the paper's figures have no number in its text; these are not guessed.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from networks import with_batch

from workers import zoo
from workers.devices.sim.device import SimDevice
from workers.devices.sim.launch_path import PATHS, Issue
from workers.graph.graph import Graph
from workers.graph.importers.pt2 import import_program
from workers.graph.operators import is_kernel_free
from workers.graph.passes import optimise
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.schedulers import create
from workers.schedulers.base import Scheduler
from workers.schedulers.opara import OparaScheduler
from workers.schedules.lower import lower
from workers.schedules.schedule import Schedule, StreamSchedule
from workers.zoo.catalog import find

LENGTH = 32  # of BERT's sequences in Section 2.2; not said for Section 5 and for T5

FIGURE_5 = (
    ("bert_base", "a100"),
    ("t5_small", "a100"),
    ("googlenet", "rtx2080super"),
    ("inception_v3", "rtx2080super"),
)
FIGURE_8 = ("rtx2080super", (1, 2, 4, 8, 16, 32))
FIGURE_9 = ("a100", (1, 2, 4, 8))

PUBLISHED = {
    "figure 5": {
        "opara over pytorch": "1.85 to 4.18",
        "opara over cuda graph": "up to 1.68",
        "opara over nimble": "up to 1.29",
        "bert_base": {"opara over pytorch": 4.06, "opara over cuda graph": 1.08},
        "t5_small": {"opara over nimble": 1.093},
    },
    "figure 8": {"opara over cuda graph": {1: 1.41, 32: 1.09}},
    "figure 9": {"opara over nimble": "1.08 to 1.15"},
    "launch order, section 2.3": {
        "googlenet, rtx2080super": "up to 29 % less latency",
        "googlenet, a100": "around 10.3 %",
    },
    "streams": {
        "googlenet": {"opara": 28, "nimble": 4},
        "t5_small": {"opara": 6, "nimble": 3},
    },
}
"""All that the text of Sections 2.3 and 5.2 says of these; the rest are bars and lines in
pictures."""


@dataclass(frozen=True, slots=True)
class System:
    """A way to run a model: a schedule, and how its launches reach the GPU."""

    scheduler: Scheduler
    issue: Issue = "graph"


SYSTEMS: Mapping[str, System] = {
    "pytorch": System(create("sequential"), "eager"),
    "cuda graph": System(create("sequential")),
    "nimble": System(create("nimble")),
    "opara, strict": System(OparaScheduler(strict=True)),
    "opara": System(OparaScheduler()),
}


@cache
def imported(name: str) -> tuple[Graph, Mapping[str, Any]]:
    print(f"importing {name}", file=sys.stderr)
    length = LENGTH if find(name).inputs[0].longest is not None else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        graph, weights = import_program(zoo.program(name, 1, length), 1)
    return graph, weights


@cache
def device(gpu: str, issue: Issue) -> SimDevice:
    return SimDevice(gpu, issue)


def oracle(graph: Graph, gpu: str) -> MeasuringOracle:
    return MeasuringOracle(graph, {}, device(gpu, "graph"), MemoryIndex())


def latency_ms(graph: Graph, gpu: str, schedule: Schedule, issue: Issue = "graph") -> float:
    return device(gpu, issue).latency_ms(graph, lower(schedule, graph, 1))


def latencies(graph: Graph, gpu: str) -> dict[str, float]:
    found = oracle(graph, gpu)
    return {
        name: latency_ms(graph, gpu, s.scheduler.schedule(graph, found).schedule, s.issue)
        for name, s in SYSTEMS.items()
    }


def ratios(found: Mapping[str, float]) -> dict[str, float]:
    """Of both forms of Opara over the others, and of all over PyTorch."""
    made = {f"{name} over pytorch": found["pytorch"] / ms for name, ms in found.items()}
    for opara in ("opara, strict", "opara"):
        for other in ("cuda graph", "nimble"):
            made[f"{opara} over {other}"] = found[other] / found[opara]
    del made["pytorch over pytorch"]
    return {name: round(ratio, 3) for name, ratio in made.items()}


def row(graph: Graph, gpu: str, batch: int = 1) -> dict[str, Any]:
    found = latencies(graph, gpu)
    return {
        "latency_ms": {name: round(ms, 4) for name, ms in found.items()},
        "per_second": {name: round(batch / ms * 1e3, 1) for name, ms in found.items()},
        "ratios": ratios(found),
    }


def figure_5() -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for name, gpu in FIGURE_5:
        graph, _ = imported(name)
        found = row(graph, gpu)
        launches = sum(not all(is_kernel_free(o.target) for o in u.operators) for u in graph.units)
        rows[f"{name}, {gpu}"] = {
            **found,
            "kernels": launches,
            "pytorch_us_for_each_kernel": round(found["latency_ms"]["pytorch"] * 1e3 / launches, 2),
        }
    return rows


def by_batch(gpu: str, batches: tuple[int, ...]) -> dict[str, Any]:
    graph, _ = imported("inception_v3")
    return {str(batch): row(with_batch(graph, batch), gpu, batch) for batch in batches}


def launch_orders() -> dict[str, Any]:
    """GoogLeNet with Algorithm 1's streams and only the launch order changed; the graph's order is
    depth-first, branch after branch."""
    graph, _ = imported("googlenet")
    rows = {}
    for gpu in ("rtx2080super", "a100"):
        asked = oracle(graph, gpu)
        found = {
            name: SYSTEMS[name].scheduler.schedule(graph, asked).schedule
            for name in ("opara, strict", "opara")
        }
        strict = found["opara, strict"]
        assert isinstance(strict, StreamSchedule)
        in_order = sorted(strict.placements, key=lambda p: graph.index[p.unit])
        found["the graph's order"] = StreamSchedule("opara", tuple(in_order))
        rows[f"googlenet, {gpu}"] = {
            name: round(latency_ms(graph, gpu, schedule), 4) for name, schedule in found.items()
        }
    return rows


def counted(schedule: Schedule) -> int:
    assert isinstance(schedule, StreamSchedule)
    return len({placement.stream for placement in schedule.placements})


def streams() -> dict[str, Any]:
    """How many streams there are, for what is one Unit in two ways and as it is imported."""
    rows: dict[str, Any] = {}
    for name, gpu in FIGURE_5:
        graph, weights = imported(name)
        for units in ("imported", "operator", "fused"):
            made = graph if units == "imported" else optimise(graph, weights, units)[0]
            asked = oracle(made, gpu)
            rows.setdefault(name, {})[units] = {
                "units": len(made.units),
                **{
                    system: counted(SYSTEMS[system].scheduler.schedule(made, asked).schedule)
                    for system in ("nimble", "opara, strict", "opara")
                },
            }
    return rows


def show(title: str, rows: Mapping[str, Any]) -> None:
    print(f"\n{title}")
    for label, found in rows.items():
        print(f"  {label}")
        for name, value in found.items():
            print(f"    {name}: {value}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    sections: dict[str, Any] = {
        "figure 5": figure_5(),
        "figure 8": by_batch(*FIGURE_8),
        "figure 9": by_batch(*FIGURE_9),
        "launch order, section 2.3": launch_orders(),
        "streams": streams(),
    }
    for title, rows in sections.items():
        show(f"{title}, simulated" if title != "streams" else title, rows)
        print(f"  published: {PUBLISHED[title]}")
    if options.output:
        report = {
            "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "simulated": True,
            "simulator": device("a100", "graph").facts.versions["simulator"],
            "sequence_length": LENGTH,
            "eager_us_for_each_kernel": round(PATHS["eager"].kernel * 1e6, 3),
            "published": PUBLISHED,
            "sections": sections,
        }
        options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
