"""Width against every antichain of small random DAGs, and on graphs as large as they come."""

from __future__ import annotations

import random
import time

import networkx
import pytest
from hypothesis import given, settings
from schedulers.ios_table1 import BLOCKS, Table1Block
from support.graphs import Dag, chain, dags, successors_of, wide

from workers.graph.width import width


@pytest.mark.parametrize("block", BLOCKS, ids=[block.file.stem for block in BLOCKS])
def test_widths_of_table_1(block: Table1Block) -> None:
    assert len(block.successors) == block.units
    assert width(block.successors) == block.width


@settings(deadline=None)
@given(dags(max_units=9))
def test_width_is_the_largest_antichain(dag: Dag) -> None:
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(dag)))
    graph.add_edges_from((before, unit) for unit, befores in enumerate(dag) for before in befores)
    assert width(successors_of(dag)) == max(map(len, networkx.antichains(graph)))


def test_extremes() -> None:
    assert width(()) == 0
    assert width(successors_of(chain(30))) == 1
    assert width(successors_of(wide(30))) == 30
    assert width([[] for _ in range(30)]) == 30


def test_two_thousand_units_are_quick() -> None:
    choose = random.Random(0)  # a test's graph
    successors = [
        sorted({min(1999, unit + choose.randrange(1, 60)) for _ in range(3)} - {unit})
        for unit in range(2000)
    ]
    started = time.process_time()
    assert 1 < width(successors) < 200
    assert time.process_time() - started < 5
