"""What can be said of a graph without running it: work, traffic, weights, width, paths, blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.graph.adjacency import Successors
from workers.graph.blocks import blocks, induced_successors
from workers.graph.critical_path import heaviest_path
from workers.graph.graph import Graph, TensorSpec
from workers.graph.signature import signature
from workers.graph.width import width


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """``parameters`` are the elements of the weights that the Unit reads, ``block`` the index of
    its Block."""

    name: str
    kind: str
    operators: tuple[str, ...]
    flops: int
    bytes_moved: int
    parameters: int
    block: int
    successors: tuple[int, ...]
    outputs: tuple[tuple[str, TensorSpec], ...]

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOPs per byte moved; 0 for a Unit that moves nothing."""
        return self.flops / self.bytes_moved if self.bytes_moved else 0.0


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """``successors`` number the Units of the Block from 0; ``first`` is the position of that one.

    ``divided`` says that it is a piece of a longer part of the graph without a cut point.
    ``equal_to`` is the index of the first Block with the same structural signature, if that is
    another one: both are scheduled once.
    """

    first: int
    successors: Successors
    width: int
    divided: bool
    signature: str
    equal_to: int | None

    @property
    def units(self) -> int:
        return len(self.successors)


@dataclass(frozen=True, slots=True)
class UnitPath:
    """Positions of Units, each of which reads what the one before it computes."""

    units: tuple[int, ...]
    flops: int

    @property
    def length(self) -> int:
        return len(self.units)


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """``parameters`` and ``weight_bytes`` count weights that several Units read once.

    ``critical_path`` is the path of most FLOPs, ``longest_path`` that of most Units.
    """

    units: tuple[UnitFacts, ...]
    blocks: tuple[BlockFacts, ...]
    operators: int
    edges: int
    flops: int
    bytes_moved: int
    parameters: int
    weight_bytes: int
    width: int
    critical_path: UnitPath
    longest_path: UnitPath


def graph_facts(graph: Graph) -> GraphFacts:
    """All facts of ``graph``; Units and Blocks stand in its order."""
    found = _blocks(graph)
    block_of = [index for index, block in enumerate(found) for _ in range(block.units)]
    weights = graph.specs(graph.weights)
    return GraphFacts(
        units=tuple(_unit(graph, position, block) for position, block in enumerate(block_of)),
        blocks=found,
        operators=len(graph.operators),
        edges=sum(map(len, graph.successors)),
        flops=graph.flops,
        bytes_moved=sum(unit.bytes_moved for unit in graph.units),
        parameters=sum(spec.numel for spec in weights),
        weight_bytes=sum(spec.nbytes for spec in weights),
        width=_width(graph),
        critical_path=_path(graph, [unit.flops for unit in graph.units]),
        longest_path=_path(graph, [1] * len(graph.units)),
    )


def _unit(graph: Graph, position: int, block: int) -> UnitFacts:
    unit = graph.units[position]
    return UnitFacts(
        name=unit.name,
        kind=unit.kind,
        operators=tuple(operator.target for operator in unit.operators),
        flops=unit.flops,
        bytes_moved=unit.bytes_moved,
        parameters=sum(spec.numel for spec in graph.specs(unit.weights)),
        block=block,
        successors=graph.successors[position],
        outputs=tuple((name, graph.values[name]) for name in unit.outputs),
    )


def _width(graph: Graph) -> int:
    """That of the widest part between two cut points: Units of different parts wait for each
    other."""
    parts = blocks(graph, max_units=len(graph.units))
    return max((width(induced_successors(graph, part.positions)) for part in parts), default=0)


def _path(graph: Graph, weights: Sequence[int]) -> UnitPath:
    path = heaviest_path(graph.successors, weights)
    return UnitPath(path, sum(graph.units[position].flops for position in path))


def _blocks(graph: Graph) -> tuple[BlockFacts, ...]:
    first_with: dict[str, int] = {}
    found: list[BlockFacts] = []
    for index, block in enumerate(blocks(graph)):
        key = signature(graph, block.positions)
        earlier = first_with.setdefault(key, index)
        successors = induced_successors(graph, block.positions)
        found.append(
            BlockFacts(
                first=block.positions[0],
                successors=successors,
                width=found[earlier].width if earlier < index else width(successors),
                divided=block.divided,
                signature=key,
                equal_to=earlier if earlier < index else None,
            )
        )
    return tuple(found)
