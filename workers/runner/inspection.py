"""What ``plait inspect`` prints and the Model page draws: facts and counts of a graph as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from workers.graph.adjacency import Adjacency, Successors, in_topological_order
from workers.graph.facts import BlockFacts, GraphFacts, UnitFacts, UnitPath, graph_facts
from workers.graph.graph import Graph, TensorSpec
from workers.graph.serialize import graph_hash
from workers.graph.width import width
from workers.schedulers.counts import Counts, TooLarge, count
from workers.schedulers.endings import MAX_UNITS, Convention, Pruning

VERSION = 1

CONVENTIONS: tuple[Convention, ...] = ("paper", "published")


@dataclass(frozen=True, slots=True)
class CountLimits:
    """Where counting a Block is given up."""

    max_transitions: int = 2_000_000
    max_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Import:
    """The options that gave the graph its shapes and its Units, and the model's name if that is
    not the graph's."""

    granularity: str
    batch_size: int
    sequence_length: int | None = None
    name: str | None = None


def inspect_adjacency(
    adjacency: Adjacency,
    pruning: Pruning,
    conventions: Iterable[Convention],
    max_transitions: int,
) -> dict[str, Any]:
    """Size, width and counts of a graph; its schedules as an integer, however large.

    Raises AdjacencyError for a cycle and TooManyUnitsError for more than MAX_UNITS Units.
    """
    successors = in_topological_order(adjacency.successors)
    return {
        "version": VERSION,
        "model": adjacency.model,
        "n": len(successors),
        "width": width(successors),
        "r": pruning.max_units,
        "s": pruning.max_groups,
        "counts": {
            convention: _adjacency_counts(
                count(successors, pruning, convention, max_transitions=max_transitions)
            )
            for convention in conventions
        },
    }


def _adjacency_counts(counts: Counts | TooLarge) -> dict[str, Any]:
    if isinstance(counts, TooLarge):
        return {"more_than": counts.more_than, "reason": counts.reason}
    return {
        "states": counts.states,
        "transitions": counts.transitions,
        "schedules": counts.schedules,
        "distinct_stages": counts.stages,
    }


def inspect_graph(
    graph: Graph,
    made: Import,
    pruning: Pruning = Pruning(),  # noqa: B008  # frozen
    limits: CountLimits = CountLimits(),  # frozen
) -> dict[str, Any]:
    """Everything about a graph that needs neither weights nor a device.

    Blocks of the same form are counted once. The schedules are decimal strings, because a browser's
    numbers would round them.
    """
    facts = graph_facts(graph)
    counted: dict[Successors, dict[str, Any]] = {}
    for block in facts.blocks:
        if block.successors not in counted:
            counted[block.successors] = _block_counts(block.successors, pruning, limits)
    return {
        "version": VERSION,
        "name": made.name or graph.name,
        "graph_hash": graph_hash(graph),
        "granularity": made.granularity,
        "batch_size": made.batch_size,
        "sequence_length": made.sequence_length,
        "inputs": _values((name, graph.values[name]) for name in graph.inputs),
        "outputs": _values((name, graph.values[name]) for name in graph.outputs),
        "pruning": {"r": pruning.max_units, "s": pruning.max_groups},
        "totals": _totals(facts),
        "units": [_unit(unit) for unit in facts.units],
        "blocks": [_block(block, counted[block.successors]) for block in facts.blocks],
    }


def _block_counts(successors: Successors, pruning: Pruning, limits: CountLimits) -> dict[str, Any]:
    if len(successors) > MAX_UNITS:
        sentence = f"Blocks of more than {MAX_UNITS} units are not counted."
        return {convention: {"too_wide": sentence} for convention in CONVENTIONS}
    return {
        convention: _counts(
            count(
                successors,
                pruning,
                convention,
                max_transitions=limits.max_transitions,
                max_seconds=limits.max_seconds,
            )
        )
        for convention in CONVENTIONS
    }


def _counts(counts: Counts | TooLarge) -> dict[str, Any]:
    if isinstance(counts, TooLarge):
        return {"more_than": counts.more_than}
    return {
        "states": counts.states,
        "transitions": counts.transitions,
        "schedules": str(counts.schedules),
        "stages": counts.stages,
    }


def _totals(facts: GraphFacts) -> dict[str, Any]:
    return {
        "units": len(facts.units),
        "operators": facts.operators,
        "edges": facts.edges,
        "flops": facts.flops,
        "bytes_moved": facts.bytes_moved,
        "parameters": facts.parameters,
        "weight_bytes": facts.weight_bytes,
        "width": facts.width,
        "critical_path": _path(facts.critical_path),
        "longest_path": _path(facts.longest_path),
    }


def _path(path: UnitPath) -> dict[str, Any]:
    return {"length": path.length, "flops": path.flops, "units": list(path.units)}


def _unit(unit: UnitFacts) -> dict[str, Any]:
    return {
        "name": unit.name,
        "kind": unit.kind,
        "operators": list(unit.operators),
        "flops": unit.flops,
        "bytes_moved": unit.bytes_moved,
        "parameters": unit.parameters,
        "intensity": unit.intensity,
        "block": unit.block,
        "successors": list(unit.successors),
        "outputs": _values(unit.outputs),
    }


def _block(block: BlockFacts, counts: dict[str, Any]) -> dict[str, Any]:
    return {
        "first": block.first,
        "n": block.units,
        "width": block.width,
        "divided": block.divided,
        "equal_to": block.equal_to,
        "signature": block.signature,
        "counts": counts,
    }


def _values(values: Iterable[tuple[str, TensorSpec]]) -> list[dict[str, Any]]:
    return [{"name": name, "shape": list(spec.shape), "dtype": spec.dtype} for name, spec in values]
