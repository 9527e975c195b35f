"""Blocks lie between the Units that could run beside no other."""

from __future__ import annotations

import networkx
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, chain, dags, graph_of, wide

from workers.graph.blocks import blocks


def sizes(dag: Dag) -> list[int]:
    return [len(block.positions) for block in blocks(graph_of(dag))]


def test_a_chain_is_cut_everywhere() -> None:
    assert sizes(chain(4)) == [1, 1, 1, 1]


def test_branches_stay_together_with_the_unit_that_joins_them() -> None:
    assert sizes(DIAMOND) == [1, 3]
    assert sizes(wide(4)) == [1, 5]


def test_a_residual_connection_does_not_hinder_a_cut() -> None:
    """0 → 1 → 2 with 0 → 2 beside: 1 still runs beside nothing."""
    assert sizes(((), (0,), (0, 1))) == [1, 1, 1]


def test_two_exits_end_a_block_without_a_cut_point() -> None:
    assert sizes(((), (0,), (0,))) == [1, 2]


def test_independent_units_are_one_block() -> None:
    assert sizes(((), (), ())) == [3]


def test_a_source_that_joins_late_holds_the_block_open() -> None:
    """1 waits for nothing and is read only at the end."""
    assert sizes(((), (), (0,), (2,), (3, 1), (4,))) == [5, 1]


def cells(count: int, branches: int) -> Dag:
    """Cells in a row, each of ``branches`` Units of which half read the cell before and half the
    one before that, and one that joins them. The stem is Unit 0."""
    found: list[tuple[int, ...]] = [()]
    joined = [0, 0]
    for _ in range(count):
        first = len(found)
        found += [(joined[-1 - branch % 2],) for branch in range(branches)]
        joined.append(len(found))
        found.append(tuple(range(first, first + branches)))
    return tuple(found)


def test_cells_are_not_cut_without_need() -> None:
    assert sizes(cells(count=3, branches=4)) == [1, 15]


def test_a_block_of_too_many_units_is_cut_at_the_joins_of_its_cells() -> None:
    found = blocks(graph_of(cells(count=20, branches=4)))
    assert [len(block.positions) for block in found] == [1, *[5] * 20]
    assert [block.divided for block in found] == [False, *[True] * 20]


def test_long_branches_stay_beside_each_other() -> None:
    """The Units of the branch that comes first have all earlier ones as ancestors."""
    first = [(unit,) for unit in range(40)]
    second = [(0,), *((unit,) for unit in range(41, 80))]
    assert sizes(((), *first, *second, (40, 80))) == [1, 81]


def test_a_join_within_the_first_of_two_branches_does_not_divide_them() -> None:
    """Few of the later Units depend on it."""
    first = [(0,), (0,), (1, 2), (3,)]
    second = [(0,), *((unit,) for unit in range(5, 80))]
    assert sizes(((), *first, *second, (4, 80))) == [1, 81]


def test_layers_that_could_run_as_a_wavefront_stay_together() -> None:
    """A step reads the step before it in its layer, and its own in the layer below and in the
    input; the layers come one after the other."""
    steps, layers = 30, 5
    dag: list[tuple[int, ...]] = [()]
    for layer in range(layers):
        for step in range(steps):
            here = len(dag)
            below = {here - steps} if layer else set()
            dag.append(tuple(sorted({0, *below, *([here - 1] if step else [])})))
    assert sizes(tuple(dag)) == [1, 1, steps * layers - 1]


def test_a_long_graph_takes_linear_time() -> None:
    count = 20_000
    assert len(blocks(graph_of(chain(count)))) == count


@given(dags(max_units=10), st.sets(st.integers(1, 9)))
def test_the_blocks_end_with_the_cut_points(dag: Dag, linked: set[int]) -> None:
    """``linked`` Units also read the Unit before them, without which cut points are rare."""
    dag = tuple(
        tuple(sorted({*read, unit - 1})) if unit in linked else read
        for unit, read in enumerate(dag)
    )
    order = networkx.DiGraph((before, unit) for unit, read in enumerate(dag) for before in read)
    order.add_nodes_from(range(len(dag)))
    everything = set(order)
    cuts = {
        unit
        for unit in everything
        if networkx.ancestors(order, unit) | networkx.descendants(order, unit) | {unit}
        == everything
    }
    found = [block.positions for block in blocks(graph_of(dag))]
    assert [position for block in found for position in block] == list(range(len(dag)))
    assert {block[-1] for block in found} == cuts | {len(dag) - 1}
