"""Adjacency files: what is read, what is refused and with which words, and topological orders."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import Dag, dags, successors_of

from workers.graph.adjacency import (
    AdjacencyError,
    in_topological_order,
    parse_adjacency,
    topological_order,
)


def test_a_whole_file() -> None:
    text = '{"model": "m", "ops": ["a", "b", "c"], "successors": [[2, 1, 1], [2], []], "n": 3}'
    adjacency = parse_adjacency(text)
    assert adjacency.successors == ((2, 1), (2,), ())
    assert adjacency.operators == ("a", "b", "c")
    assert adjacency.model == "m"
    assert parse_adjacency(b'{"successors": []}').successors == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON: Expecting value at line 1, column 1"),
        ('{"successors": [[1],\n []', "not JSON: Expecting ',' delimiter at line 2, column 4"),
        (b"\xff\xfe\x00", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[[1], []]", "the JSON must be an object"),
        ('{"edges": []}', 'no "successors"'),
        ('{"successors": {"0": [1]}}', "a list of lists of indices, not an object"),
        ('{"successors": [[1], 2, []]}', "successors[1] must be a list of indices, not a number"),
        ('{"successors": [[1], null]}', "successors[1] must be a list of indices, not null"),
        ('{"successors": [["1"], []]}', 'successors[0] holds "1", which is no index'),
        ('{"successors": [[1.0], []]}', "successors[0] holds 1.0, which is no index"),
        ('{"successors": [[true], []]}', "successors[0] holds true, which is no index"),
        ('{"successors": [[], [2]]}', "successors[1] holds 2, but the Units are 0 to 1"),
        ('{"successors": [[-1], []]}', "successors[0] holds -1, but the Units are 0 to 1"),
        ('{"successors": [[], [1]]}', "successors[1] holds 1: a Unit cannot follow itself"),
        ('{"successors": [[], []], "ops": ["a"]}', '"ops" names 1 Units, "successors" has 2'),
        ('{"successors": [[]], "ops": [1]}', '"ops" must be a list of strings'),
        ('{"successors": [[]], "model": 1}', '"model" must be a string, not a number'),
    ],
)
def test_a_bad_file_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(AdjacencyError, match=re.escape(message)):
        parse_adjacency(text)


@settings(deadline=None)
@given(dags(), st.randoms())
def test_any_order_of_units_is_put_right(dag: Dag, random: st.Random) -> None:
    number = list(range(len(dag)))
    random.shuffle(number)
    shuffled: list[list[int]] = [[] for _ in dag]
    for unit, after in enumerate(successors_of(dag)):
        shuffled[number[unit]] = [number[successor] for successor in after]
    order = topological_order(shuffled)
    assert sorted(order) == list(range(len(dag)))
    place = {unit: position for position, unit in enumerate(order)}
    assert {(place[u], place[v]) for u, after in enumerate(shuffled) for v in after} == {
        (u, v) for u, after in enumerate(in_topological_order(shuffled)) for v in after
    }
    assert all(u < v for u, after in enumerate(in_topological_order(shuffled)) for v in after)


@given(dags())
def test_a_topological_order_stays(dag: Dag) -> None:
    assert topological_order(successors_of(dag)) == tuple(range(len(dag)))


@settings(deadline=None)
@given(dags(), st.data())
def test_the_cycle_that_is_named_is_there(dag: Dag, data: st.DataObject) -> None:
    """An edge back from a Unit to one of its ancestors closes a cycle."""
    successors = [list(after) for after in successors_of(dag)]
    edges = [(u, v) for u, after in enumerate(successors) for v in after]
    if not edges:
        return
    back, start = data.draw(st.sampled_from(edges))
    successors[start].append(back)
    with pytest.raises(AdjacencyError, match="cycle") as raised:
        topological_order(json.loads(json.dumps(successors)))
    match = re.search(r"cycle: ([\d →]+);", str(raised.value))
    assert match is not None
    cycle = [int(unit) for unit in match[1].split(" → ")]
    assert cycle[0] == cycle[-1]
    assert all(v in successors[u] for u, v in pairwise(cycle))
