"""ONNX's own node tests: which pass, and that the documentation says so."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.onnx_nodes import NodeTest, node_tests, outcome, refusals
from support.onnx_table import DOCUMENT, NOT_STATIC, written

Outcomes = Mapping[str, tuple[NodeTest, str | None]]


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    return {test.name: (test, outcome(test)) for test in node_tests()}


def test_exactly_the_listed_node_tests_do_not_pass(outcomes: Outcomes) -> None:
    failing = {name: problem for name, (_, problem) in outcomes.items() if problem is not None}
    unexpected = {name: problem for name, problem in failing.items() if name not in refusals()}
    assert not unexpected
    assert not refusals().keys() - failing.keys(), "these pass: take them off the list"


def test_95_percent_of_the_static_node_tests_pass(outcomes: Outcomes) -> None:
    static = {name for name in outcomes if refusals().get(name) not in NOT_STATIC}
    passed = {name for name, (_, problem) in outcomes.items() if problem is None}
    assert len(outcomes) > 1500
    assert len(passed & static) >= 0.95 * len(static)


def test_what_is_refused_is_refused_in_words(outcomes: Outcomes) -> None:
    """A refusal names the operator and says why; it is never an error from the depths of torch."""
    for name, (_, problem) in outcomes.items():
        if problem is not None:
            assert problem.startswith("ImportFailure: "), (name, problem)
            assert "does not work on" not in problem, (name, problem)


def test_the_table_in_the_documentation_is_true(outcomes: Outcomes) -> None:
    assert written(outcomes) == DOCUMENT.read_text(), (
        "docs/onnx.md is stale: run `python -m support.onnx_table` in tests/"
    )
