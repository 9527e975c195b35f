"""The experiments, one function each: what the paper reports, on simulated GPUs.

Each returns rows of plain data for the JSON file; ``tables`` has a table for each. All latencies
are simulated, in ms; ``published...`` are from ``ios_published``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import ios_published
import torch
from ios_published import BATCHES, NETWORKS, PRUNING, SCHEDULES
from networks import SAMPLE, at_batch, sample_order
from searches import Searches, Wanted

from workers.devices.base import Timeline
from workers.devices.sim.launch_path import Issue
from workers.graph.blocks import blocks
from workers.graph.graph import Graph
from workers.schedules.lower import lower
from workers.schedules.merge import merge_graph
from workers.schedules.schedule import Stage, StageSchedule

Row = dict[str, Any]

INCEPTION = "inception_v3"
IOS = "IOS-Both"
KINDS: tuple[tuple[str, str, Issue], ...] = (
    ("v100", "v100", "streams"),
    ("rtx2080ti", "rtx2080ti", "streams"),
    ("graph", "v100", "graph"),
)
"""Figure 6, Figure 14, and Figure 6 with every schedule as one CUDA Graph, as a job on ``sim:v100``
has it."""


def schedules(searches: Searches, gpu: str, issue: Issue, network: str) -> list[Row]:
    """Figures 6 and 14, one network."""
    rows = []
    slowest = searches.latency_of(Wanted(network, gpu=gpu, kind="sequential", issue=issue))
    for number, kind in enumerate(SCHEDULES):
        wanted = Wanted(network, gpu=gpu, kind=kind, issue=issue)
        found = searches.latency_of(wanted)
        row: Row = {
            "network": network,
            "schedule": kind,
            "simulated_ms": found,
            "simulated_gain": slowest / found,
            "simulated_ms_without_barriers": searches.latency_of(wanted, barriers=False),
            **searches.found(wanted).facts(),
        }
        if issue == "streams":
            row["simulated_ms_synchronised"] = searches.synchronised_of(wanted)
        if (gpu, issue) == ("v100", "streams"):
            published = ios_published.LATENCIES[network]
            row["published_ms"] = published[number]
            row["published_gain"] = published[0] / published[number]
        rows.append(row)
        print(f"  {kind:14} {found:8.3f} ms  {slowest / found:5.2f} x", flush=True)
    return rows


def batches(searches: Searches) -> list[Row]:
    """Figure 11."""
    rows = []
    for batch in BATCHES:
        published = dict(
            zip(("sequential", IOS), ios_published.BATCH_LATENCIES[batch], strict=True)
        )
        for kind in SCHEDULES:
            wanted = Wanted(INCEPTION, batch, kind=kind)
            found, free = searches.latency_of(wanted), searches.latency_of(wanted, barriers=False)
            row: Row = {
                "batch": batch,
                "schedule": kind,
                "simulated_ms": found,
                "simulated_ms_synchronised": searches.synchronised_of(wanted),
                "simulated_images_per_second": batch / found * 1e3,
                "simulated_images_per_second_without_barriers": batch / free * 1e3,
                **searches.found(wanted).facts(),
            }
            if kind in published:
                row["published_ms"] = published[kind]
                row["published_images_per_second"] = batch / published[kind] * 1e3
            rows.append(row)
            print(f"  batch {batch:3} {kind:14} {found:8.3f} ms", flush=True)
    return rows


def block_gains(searches: Searches) -> list[Row]:
    """Figure 16. Each of the eleven blocks of more than one Unit alone, then the network."""
    graph = at_batch(INCEPTION, 1)
    sequential = searches.schedule(Wanted(INCEPTION, kind="sequential"))
    found = searches.schedule(Wanted(INCEPTION))
    rows = []
    many = [block.positions for block in blocks(graph) if len(block.positions) > 1]
    for number, positions in enumerate(many, 1):
        names = {graph.units[position].name for position in positions}
        slow = searches.latency(graph, _part(sequential, names))
        fast = searches.latency(graph, _part(found, names))
        free = searches.latency(graph, _part(found, names), barriers=False)
        rows.append(_gain(f"block {number}", len(names), slow, fast, free))
    best = max(rows, key=lambda row: float(row["simulated_gain"]))
    rows.append(best | {"what": f"the best, {best['what']}"})
    rows[-1]["published_gain"] = ios_published.BEST_BLOCK_GAIN
    everything = [
        searches.latency(graph, sequential),
        searches.latency(graph, found),
        searches.latency(graph, found, barriers=False),
    ]
    rows.append(_gain("end to end", len(graph.units), *everything))
    rows[-1]["published_gain"] = ios_published.END_TO_END_GAIN
    return rows


def _gain(what: str, units: int, slow: float, fast: float, free: float) -> Row:
    print(f"  {what:12} {slow:8.3f} {fast:8.3f} ms  {slow / fast:5.2f} x", flush=True)
    return {
        "what": what,
        "units": units,
        "simulated_ms_sequential": slow,
        "simulated_ms": fast,
        "simulated_gain": slow / fast,
        "simulated_gain_without_barriers": slow / free,
    }


def _part(schedule: StageSchedule, names: set[str]) -> StageSchedule:
    """The stages of some Units, which no stage may share with others."""
    stages = tuple(stage for stage in schedule.stages if names.issuperset(stage.units))
    if {name for stage in stages for name in stage.units} != names:
        raise ValueError("a stage reaches beyond its block")
    return StageSchedule(schedule.scheduler, stages)


def batch_specialisation(searches: Searches) -> list[Row]:
    """Table 3 (1)."""
    rows = []
    for (on, of), published in ios_published.BATCH_SPECIALISATION.items():
        graph, found = at_batch(INCEPTION, on), searches.schedule(Wanted(INCEPTION, of))
        rows.append(
            {
                "run_at": on,
                "scheduled_for": of,
                "published_ms": published,
                "simulated_ms": searches.latency(graph, found),
                "simulated_ms_without_barriers": searches.latency(graph, found, barriers=False),
                "simulated_ms_stage_by_stage": _stage_by_stage(searches, graph, found, "v100"),
            }
        )
        print(f"  at {on:3} for {of:3} {rows[-1]['simulated_ms']:8.3f} ms", flush=True)
    return rows


def device_specialisation(searches: Searches) -> list[Row]:
    """Table 3 (2)."""
    rows = []
    graph = at_batch(INCEPTION, 1)
    for (on, of), published in ios_published.DEVICE_SPECIALISATION.items():
        found = searches.schedule(Wanted(INCEPTION, gpu=of))
        rows.append(
            {
                "run_at": on,
                "scheduled_for": of,
                "published_ms": published,
                "simulated_ms": searches.latency(graph, found, on),
                "simulated_ms_without_barriers": searches.latency(graph, found, on, barriers=False),
                "simulated_ms_stage_by_stage": _stage_by_stage(searches, graph, found, on),
            }
        )
        print(f"  on {on:5} for {of:5} {rows[-1]['simulated_ms']:8.3f} ms", flush=True)
    return rows


def _stage_by_stage(searches: Searches, graph: Graph, found: StageSchedule, gpu: str) -> float:
    """The sum of the stages' latencies, each alone: what the search minimises."""
    return sum(
        searches.latency(graph, StageSchedule("stage", (stage,)), gpu) for stage in found.stages
    )


def pruning(searches: Searches, network: str) -> list[Row]:
    """Figure 9. Every search begins with no stage known."""
    rows = []
    slow = searches.latency_of(Wanted(network, kind="sequential"))
    for (r, s), (latency, seconds) in PRUNING[network].items():
        wanted, fresh = Wanted(network, r=r, s=s), Searches(searches.large)
        found = fresh.latency_of(wanted)
        rows.append(
            {
                "network": network,
                "r": r,
                "s": s,
                "published_ms": latency,
                "published_seconds": seconds,
                "published_gain": ios_published.GAINS_1_8[network] if (r, s) == (1, 8) else None,
                "simulated_ms": found,
                "simulated_ms_synchronised": fresh.synchronised_of(wanted),
                "simulated_gain": slow / found,
                **fresh.found(wanted).facts(),
            }
        )
        print(f"  r={r} s={s} {found:8.3f} ms", rows[-1]["stages_measured"], flush=True)
    return rows


def warps(searches: Searches) -> list[Row]:
    """Figure 8: resident warps over time, on average; and the sample network's latencies."""
    graph = at_batch(SAMPLE, 1)
    numbers = {unit.name: str(number) for number, unit in enumerate(sample_order(graph), 1)}
    slow, slow_warps = _warps(searches, graph, "sequential")
    rows = []
    for kind in ("IOS-Parallel", IOS):
        fast, fast_warps = _warps(searches, graph, kind)
        found = searches.schedule(Wanted(SAMPLE, kind=kind))
        rows.append(
            {
                "schedule": kind,
                "published_ms_sequential": ios_published.SAMPLE_LATENCIES[0],
                "published_ms": ios_published.SAMPLE_LATENCIES[1],
                "published_warps_ratio": ios_published.ACTIVE_WARPS,
                "simulated_ms_sequential": slow,
                "simulated_ms": fast,
                "simulated_warps_sequential": slow_warps,
                "simulated_warps": fast_warps,
                "simulated_warps_ratio": fast_warps / slow_warps,
                "found": [_words(stage, numbers) for stage in found.stages],
                "simulated_ms_of_stages": [
                    searches.latency(graph, StageSchedule("stage", (stage,)))
                    for stage in found.stages
                ],
            }
        )
        print(f"  {kind:14} {fast_warps / slow_warps:5.2f} x", rows[-1]["found"], flush=True)
    return rows


def _warps(searches: Searches, graph: Graph, kind: str) -> tuple[float, float]:
    """Latency in ms and mean resident warps."""
    merged = merge_graph(searches.schedule(Wanted(SAMPLE, kind=kind)), graph)
    device = searches.device("v100", "streams")
    plan = lower(merged.schedule, merged.graph, device.facts.parallelism)
    zeros = {name: torch.zeros(graph.values[name].shape) for name in graph.inputs}
    weights = {name: torch.zeros(merged.graph.values[name].shape) for name in merged.graph.weights}
    with device.prepare(merged.graph, weights, plan) as executable:
        return device.latency_ms(merged.graph, plan), _mean_warps(executable.timeline(zeros))


def _mean_warps(found: Timeline) -> float:
    steps = found.resident_warps
    total = sum(warps * (after - begin) for (begin, warps), (after, _) in pairwise(steps))
    return total / steps[-1][0]


def last_block(searches: Searches) -> list[Row]:
    """Figure 10: the last block of several Units, scheduled for one batch size, run at another."""
    letters = _letters()
    rows = []
    for of in (1, 32):
        for on in (1, 32):
            graph = at_batch(INCEPTION, on)
            found = _part(searches.schedule(Wanted(INCEPTION, of)), set(letters))
            stages = found.stages
            rows.append(
                {
                    "scheduled_for": of,
                    "run_at": on,
                    "simulated_ms": searches.latency(graph, found),
                    "simulated_ms_without_barriers": searches.latency(graph, found, barriers=False),
                    "stages": [_words(stage, letters) for stage in stages],
                    "merged": [
                        [letters[name] for name in stage.units]
                        for stage in stages
                        if stage.strategy == "merge"
                    ],
                    "published_stages": ios_published.LAST_BLOCK_STAGES[of],
                    "legend": {
                        letter: _kind(graph, name, letters) for name, letter in letters.items()
                    },
                }
            )
        print(f"  for {of:2}", rows[-1]["stages"], flush=True)
    return rows


def pairs(searches: Searches) -> list[Row]:
    """Figure 10's question: the 1 × 3 and the 3 × 1 convolution of one value, side by side, one
    after the other, or merged into one 3 × 3."""
    letters = _letters()
    rows = []
    for batch in (1, 32):
        graph = at_batch(INCEPTION, batch)
        for pair in (("e", "f"), ("g", "h")):
            units = tuple(name for name, letter in letters.items() if letter in pair)
            ways = {
                "side_by_side": (Stage(tuple((unit,) for unit in units)),),
                "in_turn": tuple(Stage(((unit,),)) for unit in units),
                "merged": (Stage((units,), strategy="merge"),),
            }
            rows.append(
                {"batch": batch, "units": " and ".join(pair)}
                | {
                    f"simulated_ms_{way}": searches.latency(graph, StageSchedule("pair", stages))
                    for way, stages in ways.items()
                }
            )
            print("  ", rows[-1], flush=True)
    return rows


def _letters() -> dict[str, str]:
    """Convolutions by a letter in the graph's order, the pooling P, the concatenation C."""
    graph = at_batch(INCEPTION, 1)
    positions = [block.positions for block in blocks(graph) if len(block.positions) > 1][-1]
    convolutions = iter("abcdefghijk")
    return {
        (name := graph.units[position].name): "P"
        if "pool" in name
        else "C"
        if name.startswith("cat")
        else next(convolutions)
        for position in positions
    }


def _words(stage: Stage, letters: dict[str, str]) -> str:
    """``a c ∥ b``: the group of a, then c, beside that of b; ``a + b`` merged."""
    groups = [[letters[name] for name in group] for group in stage.groups]
    if stage.strategy == "merge":
        return " + ".join(name for group in groups for name in group)
    return " ∥ ".join(" ".join(group) for group in groups)


def _kind(graph: Graph, name: str, letters: dict[str, str]) -> str:
    """What a Unit of Inception is: its kernel, filters and input channels, and what it reads."""
    unit = graph.unit(name)
    read = [graph.units[p].name for p in graph.predecessors[graph.index[name]]]
    before = " ".join(letters.get(other, "the block's input") for other in read)
    if name.startswith("conv") and unit.weights:
        filters, channels, *kernel = max(
            (graph.values[weight].shape for weight in unit.weights), key=len
        )
        return f"{kernel[0]} × {kernel[1]}, {channels} → {filters}, reads {before}"
    return f"{name}, reads {before}"


SECTIONS: dict[str, Callable[[Searches], list[Row]]] = {
    "warps": warps,
    "last_block": last_block,
    "pairs": pairs,
    "blocks": block_gains,
    "batches": batches,
    "batch_specialisation": batch_specialisation,
    "device_specialisation": device_specialisation,
    **{
        f"schedules_{name}:{network}": partial(schedules, gpu=gpu, issue=issue, network=network)
        for name, gpu, issue in KINDS
        for network in NETWORKS
    },
    **{f"pruning:{network}": partial(pruning, network=network) for network in PRUNING},
}
"""By name. What is done for each network apart has its name after a colon."""
