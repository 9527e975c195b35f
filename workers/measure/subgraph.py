"""A part of a graph as a graph of its own, so that it can be measured alone."""

from __future__ import annotations

from collections.abc import Collection

from workers.graph.graph import Graph


def subgraph(graph: Graph, units: Collection[str]) -> Graph:
    """The graph of the named Units, in their order. Values from elsewhere become inputs; values
    that other Units read or the graph returns become outputs, as does what nobody reads."""
    positions = sorted({graph.index[name] for name in units if name in graph.index})
    chosen = [graph.units[position] for position in positions]
    made = {name for unit in chosen for name in unit.outputs}
    inside = {name for unit in chosen for name in unit.inputs}
    after = {reader for position in positions for reader in graph.successors[position]}
    others = after.difference(positions)
    outside = {name for reader in others for name in graph.units[reader].inputs}
    inputs = dict.fromkeys(name for unit in chosen for name in unit.inputs if name not in made)
    weights = dict.fromkeys(name for unit in chosen for name in unit.weights)
    computed = {name for unit in chosen for op in unit.operators for name in op.outputs}
    used = computed.union(inputs, weights)
    return Graph(
        name=f"{graph.name}[{', '.join(unit.name for unit in chosen)}]",
        inputs=tuple(inputs),
        outputs=tuple(
            name
            for unit in chosen
            for name in unit.outputs
            if name in outside or name in graph.outputs or name not in inside
        ),
        weights=tuple(weights),
        values={name: spec for name, spec in graph.values.items() if name in used},
        units=tuple(chosen),
    )
