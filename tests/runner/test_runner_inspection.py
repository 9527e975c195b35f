"""The JSON of an inspection: what it holds, that it adds up, and where counting is given up."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from schedulers.ios_table1 import INCEPTION_V3, SQUEEZENET
from support.graphs import Dag, chain, dag_of, dags, graph_of, wide

from workers.graph.adjacency import Adjacency
from workers.runner.inspection import (
    CountLimits,
    Import,
    inspect_adjacency,
    inspect_graph,
)
from workers.schedulers.endings import Pruning

MADE = Import(granularity="fused", batch_size=2, sequence_length=7)


def test_inception_block() -> None:
    facts = inspect_graph(graph_of(dag_of(INCEPTION_V3.successors), "block"), MADE)
    assert facts["version"] == 1
    assert facts["name"] == "block"
    assert (facts["granularity"], facts["batch_size"], facts["sequence_length"]) == ("fused", 2, 7)
    [block] = facts["blocks"]
    assert (block["first"], block["n"], block["width"], block["equal_to"]) == (0, 11, 6, None)
    expected = {"paper": INCEPTION_V3.paper, "published": INCEPTION_V3.published}
    for convention, counts in expected.items():
        exact = counts[None, None]
        assert block["counts"][convention] == {
            "states": exact.states,
            "transitions": exact.transitions,
            "schedules": str(exact.schedules),
            "stages": exact.stages,
        }


def test_pruned_counts() -> None:
    graph = graph_of(dag_of(INCEPTION_V3.successors))
    facts = inspect_graph(graph, MADE, Pruning(3, 8))
    assert facts["pruning"] == {"r": 3, "s": 8}
    exact = INCEPTION_V3.published[3, 8]
    assert facts["blocks"][0]["counts"]["published"]["transitions"] == exact.transitions


@settings(deadline=None, max_examples=30)
@given(dags())
def test_everything_adds_up_and_is_json(dag: Dag) -> None:
    facts: dict[str, Any] = inspect_graph(graph_of(dag), MADE)
    assert json.loads(json.dumps(facts)) == facts
    totals = facts["totals"]
    assert totals["units"] == len(facts["units"]) == sum(block["n"] for block in facts["blocks"])
    assert totals["edges"] == sum(len(unit["successors"]) for unit in facts["units"])
    assert totals["flops"] == sum(unit["flops"] for unit in facts["units"])
    assert totals["width"] == max(block["width"] for block in facts["blocks"])
    for index, block in enumerate(facts["blocks"]):
        units = facts["units"][block["first"] : block["first"] + block["n"]]
        assert all(unit["block"] == index for unit in units)
        if block["equal_to"] is not None:
            first = facts["blocks"][block["equal_to"]]
            assert first["equal_to"] is None
            assert (first["signature"], first["counts"]) == (block["signature"], block["counts"])
    path = totals["critical_path"]
    for unit, after in zip(path["units"], path["units"][1:], strict=False):
        assert after in facts["units"][unit]["successors"]


def test_counting_is_given_up_and_not_tried() -> None:
    limits = CountLimits(max_transitions=10_000)
    given_up = inspect_graph(graph_of(wide(20)), MADE, limits=limits)["blocks"][1]
    assert given_up["counts"] == {
        convention: {"more_than": 10_000} for convention in ("paper", "published")
    }
    not_tried = inspect_graph(graph_of(wide(70)), MADE)["blocks"][1]
    assert not_tried["n"] == 71
    assert not_tried["width"] == 70
    assert "more than 64 units" in not_tried["counts"]["paper"]["too_wide"]


def test_a_long_graph_is_not_too_wide() -> None:
    facts = inspect_graph(graph_of(chain(300)), MADE)
    assert len(facts["blocks"]) == 300
    assert facts["blocks"][299]["counts"]["paper"]["schedules"] == "1"


def test_adjacency_of_one_convention() -> None:
    found = inspect_adjacency(
        Adjacency(SQUEEZENET.successors, model="squeezenet"), Pruning(3, 3), ["published"], 1000
    )
    exact = SQUEEZENET.published[3, 3]
    assert found == {
        "version": 1,
        "model": "squeezenet",
        "n": 6,
        "width": 3,
        "r": 3,
        "s": 3,
        "counts": {
            "published": {
                "states": exact.states,
                "transitions": exact.transitions,
                "schedules": exact.schedules,
                "distinct_stages": exact.stages,
            }
        },
    }


def test_adjacency_given_up() -> None:
    found = inspect_adjacency(Adjacency(((),) * 30), Pruning(), ["paper"], 5000)
    assert found["counts"]["paper"] == {
        "more_than": 5000,
        "reason": "counting stopped after 5,000 endings",
    }
