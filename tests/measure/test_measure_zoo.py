"""Models of the zoo under random right Plans, on a real device and on a simulated one;
``benchmarks/plans.py`` goes through the whole zoo."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import pytest
import torch
from support.schedules import random_stage_schedule, random_stream_schedule
from torch import Tensor

from workers import zoo
from workers.devices import open_device
from workers.graph.graph import Graph
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs
from workers.measure.verify import Case, fresh_seeds, verify
from workers.schedules.lower import lower

Model = tuple[Graph, Mapping[str, Tensor], list[Case]]


@pytest.fixture(scope="module", params=["squeezenet", "nasbench_3"])
def model(request: pytest.FixtureRequest) -> Model:
    """Optimised, with what the original makes of two inputs."""
    name = request.param
    graph, weights = optimise(*import_program(zoo.program(name, 1), 1, name))
    original = zoo.build(name)
    cases = []
    for seed in fresh_seeds(2):
        inputs = random_inputs(graph, seed)
        with torch.inference_mode():
            found = original(*(inputs[given] for given in graph.inputs))
        cases.append(Case(inputs, [found], seed))
    return graph, weights, cases


@pytest.mark.parametrize("name", ["cpu", "sim:h100"])
def test_random_plans_compute_what_the_original_does(model: Model, name: str) -> None:
    graph, weights, cases = model
    schedules = [random_stream_schedule(graph, streams, streams) for streams in (1, 3, 40)]
    schedules.append(random_stage_schedule(graph, 5))
    with closing(open_device(name)) as device:
        for schedule in schedules:
            plan = lower(schedule, graph, device.facts.parallelism)
            found = verify(device, graph, weights, plan, cases)
            assert found.passed, found.difference
