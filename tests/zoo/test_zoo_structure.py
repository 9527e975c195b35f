"""The graphs against the IOS paper's Tables 1 and 2; docs/zoo.md explains what differs."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import networkx as nx
import torch
from schedulers.ios_table1 import NASNET_LARGE, RANDWIRE_LARGE, Table1Block
from torch import nn

from workers import zoo
from workers.graph.blocks import blocks
from workers.graph.graph import Graph
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise
from workers.zoo.nasnet import NASNet
from workers.zoo.randwire import Stage

REPEATS = 2
FIRST_CELL, NORMAL_CELL, REDUCTION_CELL = 18, 16, 18  # Units
STEM_CELLS = (18, 20)  # with the convolution before the first


def units(model: nn.Module, *example: torch.Tensor) -> Graph:
    """The model in Units as its authors wrote it: nothing is merged that is computed twice."""
    program = torch.export.export(model.eval(), example)
    graph, _ = optimise(*import_program(program, 1), merge_common=False)
    return graph


@cache
def nasnet() -> Graph:
    """NASNet-A-Large with REPEATS normal cells a stage in place of 6, few channels and few pixels,
    which changes no cell."""
    torch.manual_seed(0)
    model = NASNet(repeats=REPEATS, filters=8, stem=4, classes=10, stem_cells=True)
    return units(model, torch.zeros(1, 3, 75, 75))


@cache
def randwire() -> Graph:
    return units(zoo.build("randwire"), *zoo.inputs("randwire", 1))


def dag(graph: Graph) -> nx.DiGraph[int]:
    found: nx.DiGraph[int] = nx.DiGraph()
    found.add_nodes_from(range(len(graph.units)))
    found.add_edges_from((u, v) for u, after in enumerate(graph.successors) for v in after)
    return found


def reference(block: Table1Block) -> nx.DiGraph[int]:
    return nx.DiGraph([(u, v) for u, after in enumerate(block.successors) for v in after])


def cells(graph: Graph) -> list[set[int]]:
    """The Units of each cell: what its concatenation needs and no earlier cell's does."""
    whole = dag(graph)
    ends = [
        position
        for position, unit in enumerate(graph.units)
        if {"aten.cat.default", "aten.add.Tensor"} <= {o.target for o in unit.operators}
    ]
    needed = [nx.ancestors(whole, end) | {end} for end in ends]
    return [later - earlier for earlier, later in pairwise([set(), *needed])]


def test_nasnet_s_cells_have_the_units_of_the_published_parts() -> None:
    stage = [FIRST_CELL, *[NORMAL_CELL] * (REPEATS - 1)]
    expected = [*STEM_CELLS, *stage, REDUCTION_CELL, *stage, REDUCTION_CELL, *stage]
    assert [len(cell) for cell in cells(nasnet())] == expected


def test_nasnet_has_the_operators_of_table_2() -> None:
    """374 in the paper, for 6 normal cells a stage: ours has four sums less, each in the Unit of
    the concatenation that also reads it, no Unit for the last ReLU, and a classifier more."""
    left_out = 3 * (6 - REPEATS) * NORMAL_CELL
    assert len(nasnet().units) + left_out == 374 - 4 - 1 + 1


def test_nasnet_s_largest_block_is_that_of_table_1_but_for_one_edge() -> None:
    """The published block's first sum convolves the current cell's result twice; by Figure 4 of
    Zoph et al. the 3x3 convolution reads the cell before."""
    graph = nasnet()
    first_cells = [cell for number, cell in enumerate(cells(graph)) if number in {2, 5, 8}]
    expected = reference(NASNET_LARGE)
    left, right, three = 2, 3, 6
    expected.remove_edge(right, three)
    expected.add_edge(left, three)
    for cell in first_cells:
        assert nx.is_isomorphic(dag(graph).subgraph(cell), expected)


def test_randwire_has_the_operators_of_table_2() -> None:
    """120: a convolution, a stage of 16 nodes and three of 32 with their sums, and three after."""
    assert len(randwire().units) == 120 == 1 + 17 + 3 * 33 + 3


def test_randwire_has_three_blocks_of_32_nodes_and_their_sum() -> None:
    assert [len(block.positions) for block in blocks(randwire())].count(33) == 3


def test_a_stage_wired_as_the_published_block_has_its_structure() -> None:
    read = nx.DiGraph([(u, v) for u, v in reference(RANDWIRE_LARGE).edges if v != 32])
    wiring = tuple(tuple(sorted(read.predecessors(node))) for node in range(32))
    torch.manual_seed(0)
    graph = units(Stage(wiring, 4, 4), torch.zeros(1, 4, 8, 8))
    assert nx.is_isomorphic(dag(graph), reference(RANDWIRE_LARGE))
