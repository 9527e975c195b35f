"""Verification: wrong results never pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from support.graphs import DIAMOND, SIDE, graph_of
from support.schedules import sequential
from torch import Tensor

from workers.devices import open_device
from workers.devices.base import Device
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.measure.verify import Case, compare_outputs, verify
from workers.schedules.lower import lower

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("actual", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1000.0, 0.05], [1000.0, 0.0], 0.05),  # small against the largest
        ([INF, 1.0], [INF, 1.0], 0.0),
        ([], [], 0.0),
        ([-INF], [-INF], 0.0),
    ],
)
def test_what_passes(actual: list[float], expected: list[float], error: float) -> None:
    found, words = compare_outputs(torch.tensor(actual), torch.tensor(expected))
    assert words is None
    assert found == pytest.approx(error)


@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, 2.0]), "it has NaN"),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN]), "it has NaN"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, NAN]), "the original has NaN"),
        (torch.tensor([INF]), torch.tensor([1.0]), "infinities"),
        (torch.tensor([1.0]), torch.tensor([INF]), "infinities"),
        (torch.tensor([INF]), torch.tensor([-INF]), "infinities"),
        (torch.tensor([1.001]), torch.tensor([1.0]), "at most 0.0001 is allowed"),
        (torch.tensor([1e-9]), torch.tensor([0.0]), "at most 0 is allowed"),
        (torch.tensor([3]), torch.tensor([4]), "no difference is allowed"),
        (torch.tensor([True]), torch.tensor([False]), "no difference is allowed"),
        (torch.tensor([1.0]), torch.tensor([1.0, 1.0]), r"its shape is (1,), expected (2,)"),
        (torch.tensor([1.0]), torch.tensor([1.0]).double(), "expected torch.float64"),
    ],
)
def test_what_does_not_pass(actual: Tensor, expected: Tensor, words: str) -> None:
    error, said = compare_outputs(actual, expected)
    assert error > 0
    assert said is not None
    assert words in said


@pytest.mark.parametrize(
    ("dtype", "close", "far"), [(torch.float16, 0.005, 0.02), (torch.bfloat16, 0.03, 0.1)]
)
def test_the_tolerance_is_that_of_the_type(dtype: torch.dtype, close: float, far: float) -> None:
    one = torch.ones(4, dtype=dtype)
    assert compare_outputs(one + close, one)[1] is None
    assert compare_outputs(one + far, one)[1] is not None


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = open_device("cpu")
    yield opened
    opened.close()


def test_a_plan_is_verified_on_every_case(device: Device) -> None:
    graph, weights = graph_of(DIAMOND), {"w": torch.eye(SIDE) / 2}
    plan = lower(sequential(graph), graph, device.facts.parallelism)
    cases = []
    for seed in range(3):
        inputs = random_inputs(graph, seed)
        cases.append(Case(inputs, tuple(run_graph(graph, weights, inputs).values())))
    verified = verify(device, graph, weights, plan, cases)
    assert verified.passed
    assert verified.cases == 3
    assert verified.max_abs_error < 1e-6

    wrong = replace(cases[1], expected=(cases[1].expected[0] + 0.25,))
    found = verify(device, graph, weights, plan, [cases[0], wrong, cases[2]])
    assert not found.passed
    assert found.max_abs_error == pytest.approx(0.25, rel=1e-3)
    assert found.difference is not None
    assert found.difference.startswith("output 'u3' of case 1: it differs by 0.25")


def test_nothing_is_verified_by_nothing(device: Device) -> None:
    graph, weights = graph_of(DIAMOND), {"w": torch.eye(SIDE)}
    plan = lower(sequential(graph), graph, device.facts.parallelism)
    with pytest.raises(ValueError, match="no cases"):
        verify(device, graph, weights, plan, [])
    two = Case(random_inputs(graph, 0), (torch.ones(1), torch.ones(1)))
    with pytest.raises(ValueError, match="case 0 expects 2 outputs; graph 'dag' has 1"):
        verify(device, graph, weights, plan, [two])
