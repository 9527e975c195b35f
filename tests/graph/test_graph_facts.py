"""Facts of graphs: paths and blocks against brute force, and sums that a reader can check."""

from __future__ import annotations

from collections.abc import Iterator

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, SIDE, Dag, chain, dags, graph_of, successors_of

from workers.graph.blocks import blocks, induced_successors
from workers.graph.critical_path import heaviest_path
from workers.graph.facts import graph_facts
from workers.graph.graph import Graph
from workers.graph.width import width


def paths_from(unit: int, dag: Dag) -> Iterator[tuple[int, ...]]:
    yield (unit,)
    for after in successors_of(dag)[unit]:
        for path in paths_from(after, dag):
            yield (unit, *path)


@settings(deadline=None)
@given(dags(), st.data())
def test_the_heaviest_path_is_the_first_of_the_best(dag: Dag, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 3), min_size=len(dag), max_size=len(dag)))
    everything = [path for unit in range(len(dag)) for path in paths_from(unit, dag)]
    best = max(everything, key=lambda p: (sum(weights[u] for u in p), len(p), [-u for u in p]))
    assert heaviest_path(successors_of(dag), weights) == best


def test_no_path_through_nothing() -> None:
    assert heaviest_path((), ()) == ()


@settings(deadline=None)
@given(dags())
def test_the_width_is_that_of_the_whole_graph(dag: Dag) -> None:
    facts = graph_facts(graph_of(dag))
    assert facts.width == width(successors_of(dag))
    assert [block.units for block in facts.blocks] == [
        len(block.positions) for block in blocks(graph_of(dag))
    ]


@settings(deadline=None)
@given(dags(), st.data())
def test_induced_successors_are_the_edges_inside(dag: Dag, data: st.DataObject) -> None:
    graph = graph_of(dag)
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(dag))), min_size=1)))
    order = networkx.DiGraph(
        (before, unit) for unit, befores in enumerate(dag) for before in befores
    )
    inside = order.subgraph(chosen)
    assert {
        (chosen[u], chosen[v])
        for u, after in enumerate(induced_successors(graph, chosen))
        for v in after
    } == set(inside.edges)


@pytest.fixture
def two_diamonds() -> Graph:
    """Unit 0, 1 and 2 beside each other, 3; and the same again on what 3 computes."""
    again = tuple(tuple(before + 4 for before in unit) or (3,) for unit in DIAMOND)
    return graph_of(DIAMOND + again)


def test_totals(two_diamonds: Graph) -> None:
    facts = graph_facts(two_diamonds)
    matrix = SIDE * SIDE
    assert facts.parameters == matrix  # every Unit multiplies by the same weight
    assert facts.weight_bytes == 4 * matrix
    assert facts.edges == 9
    assert facts.width == 2
    assert facts.operators == 8 * 2 + 2
    assert facts.flops == 8 * 2 * SIDE**3
    assert facts.bytes_moved == (6 * 3 + 2 * 4) * 4 * matrix
    assert facts.critical_path.units == facts.longest_path.units == (0, 1, 3, 4, 5, 7)
    assert facts.critical_path.flops == 6 * 2 * SIDE**3
    assert facts.critical_path.length == 6


def test_units(two_diamonds: Graph) -> None:
    unit = graph_facts(two_diamonds).units[3]
    assert unit.name == "u3"
    assert unit.operators == ("aten.add.Tensor", "aten.mm.default", "aten.tanh.default")
    assert unit.parameters == SIDE * SIDE
    assert unit.intensity == unit.flops / unit.bytes_moved == SIDE / 8
    assert unit.successors == (4,)
    assert [name for name, _ in unit.outputs] == ["u3"]


def test_equal_blocks_name_the_first(two_diamonds: Graph) -> None:
    """The Units 0 and 4 are cut points, and so are 3 and 7: each diamond makes two Blocks."""
    facts = graph_facts(two_diamonds)
    assert [(block.first, block.units, block.width) for block in facts.blocks] == [
        (0, 1, 1),
        (1, 3, 2),
        (4, 1, 1),
        (5, 3, 2),
    ]
    assert [block.equal_to for block in facts.blocks] == [None, None, 0, 1]
    assert [unit.block for unit in facts.units] == [0, 1, 1, 1, 2, 3, 3, 3]
    assert facts.blocks[1].successors == ((2,), (2,), ())
    assert facts.blocks[1].signature == facts.blocks[3].signature


def test_a_chain_is_as_long_as_its_units() -> None:
    facts = graph_facts(graph_of(chain(5)))
    assert facts.width == 1
    assert facts.longest_path.length == len(facts.blocks) == 5
