"""Random wirings and cells: what their papers require of every draw."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.zoo.nasbench import LABELS, MOST_EDGES, VERTICES, Cell, CellGraph, draw
from workers.zoo.wiring import Wiring, watts_strogatz

SEEDS = st.integers(0, 2**32 - 1)


def edges(reads: Wiring) -> list[tuple[int, int]]:
    return [(earlier, node) for node, read in enumerate(reads) for earlier in read]


@given(st.integers(3, 40), st.integers(1, 8), st.floats(0, 1), SEEDS)
def test_rewiring_keeps_the_number_of_edges(
    nodes: int, half: int, probability: float, seed: int
) -> None:
    degree = 2 * min(half, (nodes - 1) // 2)
    wiring = watts_strogatz(nodes, degree, probability, seed)
    found = edges(wiring)
    assert len(wiring) == nodes
    assert len(set(found)) == len(found) == nodes * degree // 2
    assert all(earlier < node for earlier, node in found)
    assert wiring == watts_strogatz(nodes, degree, probability, seed)


@pytest.mark.parametrize(("nodes", "degree"), [(8, 2), (32, 4), (9, 8)])
def test_without_rewiring_a_ring_is_left(nodes: int, degree: int) -> None:
    ring = nx.watts_strogatz_graph(nodes, degree, 0)
    found = {tuple(sorted(edge)) for edge in ring.edges}
    assert set(edges(watts_strogatz(nodes, degree, 0, 1))) == found


def test_rewiring_happens_as_often_as_asked() -> None:
    """A rewired edge is rarely led back to where it was: of 64 edges, about 3 in 4 move."""
    ring = set(edges(watts_strogatz(32, 4, 0, 0)))
    moved = [len(set(edges(watts_strogatz(32, 4, 0.75, seed))) - ring) for seed in range(50)]
    assert 40 < sum(moved) / len(moved) < 50


@pytest.mark.parametrize("degree", [0, 3, 8, -2])
def test_a_degree_that_no_ring_has_is_refused(degree: int) -> None:
    with pytest.raises(ValueError, match="even"):
        watts_strogatz(8, degree, 0.5, 0)


@given(SEEDS)
def test_a_cell_is_one_of_the_benchmark_s(seed: int) -> None:
    cell = draw(seed)
    assert len(cell.reads) == len(cell.labels) == VERTICES
    assert cell.edges == len(edges(cell.reads)) <= MOST_EDGES
    assert set(cell.labels[1:-1]) <= set(LABELS)
    graph = nx.DiGraph(edges(cell.reads))
    assert all(earlier < vertex for earlier, vertex in graph.edges)
    last = VERTICES - 1
    assert nx.descendants(graph, 0) == set(range(1, VERTICES))
    assert nx.ancestors(graph, last) == set(range(last))
    assert cell == draw(seed)


@given(SEEDS, st.integers(8, 200), st.integers(8, 200))
def test_channels_fit_where_they_are_read(seed: int, inputs: int, outputs: int) -> None:
    cell = draw(seed)
    widths = cell.channels(inputs, outputs)
    last = VERTICES - 1
    assert (widths[0], widths[last]) == (inputs, outputs)
    assert sum(widths[vertex] for vertex in cell.reads[last] if vertex) == outputs
    for vertex in range(1, last):
        assert all(widths[read] >= widths[vertex] for read in cell.reads[vertex] if read)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_a_cell_has_the_shape_that_it_is_asked_for(seed: int) -> None:
    cell = Cell(draw(seed), 6, 10).eval()
    with torch.inference_mode():
        assert cell(torch.zeros(2, 6, 5, 5)).shape == (2, 10, 5, 5)


def test_channels_that_do_not_divide_go_to_the_first() -> None:
    """Three vertices share 8 channels; vertex 1 is as wide as its widest reader."""
    cell = CellGraph(
        reads=((), (0,), (1,), (1,), (0,), (2, 3, 4)), labels=("", *["conv1x1"] * 4, "")
    )
    assert cell.channels(16, 8) == (16, 3, 3, 3, 2, 8)
