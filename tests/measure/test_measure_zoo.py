"""Models of the zoo under random right Plans, on a real device and on a simulated one;
``benchmarks/plans.py`` goes through the whole zoo."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.schedules import random_stage_schedule, random_stream_schedule
from torch import Tensor, nn
from torch.export import ExportedProgram

from workers import zoo
from workers.devices import open_device
from workers.graph.graph import Graph
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs
from workers.graph.serialize import graph_hash
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.measure.verify import Case, fresh_seeds, verify
from workers.schedulers.ios import IosScheduler
from workers.schedules.artifact import read_artifact, write_artifact
from workers.schedules.lower import lower
from workers.schedules.merge import merge_stages
from workers.schedules.schedule import ScheduleKey, StageSchedule
from workers.zoo.inception_v3 import Grid35

Model = tuple[Graph, Mapping[str, Tensor], list[Case]]


@pytest.fixture(scope="module", params=["squeezenet", "nasbench_3"])
def model(request: pytest.FixtureRequest) -> Model:
    """Optimised, with what the original makes of two inputs."""
    name = request.param
    return with_cases(name, zoo.program(name, 1), zoo.build(name))


def with_cases(name: str, program: ExportedProgram, original: nn.Module) -> Model:
    graph, weights = optimise(*import_program(program, 1, name))
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


def check_merges(model: Model, tmp_path: Path) -> None:
    """What IOS merges on a simulated V100 computes what the original does, without barriers, too,
    and survives an artifact."""
    graph, weights, cases = model
    with closing(open_device("sim:v100")) as device:
        oracle = MeasuringOracle(graph, weights, device, MemoryIndex())
        found = IosScheduler().schedule(graph, oracle)
        assert isinstance(found.schedule, StageSchedule)
        assert any(stage.strategy == "merge" for stage in found.schedule.stages)
        facts = device.facts
        key = ScheduleKey(graph_hash(graph), facts.fingerprint, "float32", 1, facts.versions)
        schedule = replace(found.schedule, barriers=False)
        merged = merge_stages(schedule, graph, weights)
        plan = lower(merged.schedule, merged.graph, facts.parallelism)
        verified = verify(device, merged.graph, merged.weights, plan, cases)
    assert verified.passed, verified.difference
    path = tmp_path / "ios.zip"
    write_artifact(path, merged.graph, merged.weights, schedule, key, plan, {}, 1)
    artifact = read_artifact(path)
    assert (artifact.schedule, artifact.key, artifact.plan) == (schedule, key, plan)
    assert artifact.graph == merged.graph


@pytest.mark.parametrize("model", ["squeezenet"], indirect=True)
def test_what_ios_merges_of_squeezenet(model: Model, tmp_path: Path) -> None:
    check_merges(model, tmp_path)


def test_what_ios_merges_of_inception(tmp_path: Path) -> None:
    """Its first block, with random weights."""
    torch.manual_seed(0)
    block = Grid35(192, 32).eval()
    program = torch.export.export(block, (torch.zeros(1, 192, 35, 35),))
    check_merges(with_cases("block", program, block), tmp_path)
