"""Stages and Plans measured in processes beside each other, for any oracle."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.graphs import DIAMOND, SIDE, chain, graph_of
from support.schedules import sequential

from workers.devices.cpu import CpuDevice
from workers.graph.graph import Graph
from workers.measure.measurement import Failure, Measurement, Round
from workers.measure.oracle import MeasuringOracle
from workers.measure.parallel.doppler import DopplerMeasurer
from workers.measure.parallel.fixed import FixedMeasurer
from workers.measure.parallel.plans import ParallelPlanMeasurer
from workers.measure.parallel.pool import WorkerPool
from workers.measure.parallel.react import ReactPolicy
from workers.measure.profile_index import MemoryIndex
from workers.measure.serial import Candidate
from workers.schedulers.ios import IosScheduler
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage

WEIGHTS = {"w": torch.randn(SIDE, SIDE)}


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    opened = WorkerPool(["cpu"])
    yield opened
    opened.close()


@pytest.fixture(params=["doppler", "serial"])
def measurer(
    request: pytest.FixtureRequest, pool: WorkerPool, tmp_path: Path
) -> ParallelPlanMeasurer:
    inner = (
        DopplerMeasurer(pool, policy=ReactPolicy(max_dp=2))
        if request.param == "doppler"
        else FixedMeasurer(pool, timeout_s=30.0)
    )
    return ParallelPlanMeasurer(inner, tmp_path)


def candidate(units: int, weights: dict[str, torch.Tensor] = WEIGHTS) -> Candidate:
    graph = graph_of(chain(units))
    return Candidate(graph, weights, lower(sequential(graph), graph, 1))


@pytest.mark.timeout(120)
def test_each_gets_its_own_latency_and_is_told_of_at_once(measurer: ParallelPlanMeasurer) -> None:
    told: list[tuple[int, Measurement]] = []
    batch = measurer.measure(
        [candidate(count) for count in (1, 40, 2)], taken=lambda at, m: told.append((at, m))
    )
    short, long, _ = batch.measurements
    assert 0 < 2 * short.latency_ms < long.latency_ms < math.inf
    assert all(m.low_ms <= m.latency_ms <= m.high_ms and m.samples > 1 for m in batch.measurements)
    assert told == list(enumerate(batch.measurements))
    assert sum(one.candidates for one in batch.rounds) == 3
    assert not any(one.failures for one in batch.rounds)


@pytest.mark.timeout(120)
def test_weights_are_written_once_and_a_missing_one_fails_its_candidate_alone(
    measurer: ParallelPlanMeasurer,
) -> None:
    batch = measurer.measure([candidate(1), candidate(2, {}), candidate(3)])
    assert [m.failure for m in batch.measurements] == [None, Failure.LAUNCH, None]
    assert "needs weight 'w', which is missing" in (batch.measurements[1].reason or "")
    assert len(list(measurer.folder.iterdir())) == 1
    assert sum(one.failures for one in batch.rounds) == 1


@pytest.mark.timeout(120)
def test_what_the_budget_leaves_out_is_not_measured(measurer: ParallelPlanMeasurer) -> None:
    batch = measurer.measure([candidate(1)] * 4, expired=lambda: True)
    assert [m.failure for m in batch.measurements] == [Failure.BUDGET] * 4
    assert sum(one.candidates for one in batch.rounds) == 0


def test_a_subject_is_small_to_send(measurer: ParallelPlanMeasurer) -> None:
    big = {"w": torch.zeros(SIDE, SIDE)}
    sent = measurer._subject(candidate(1, big))
    assert len(pickle.dumps(sent)) < 10_000
    assert pickle.loads(pickle.dumps(sent)) == sent


@pytest.mark.timeout(180)
def test_ios_searches_by_it(pool: WorkerPool, tmp_path: Path) -> None:
    graph: Graph = graph_of(DIAMOND)
    rounds: list[Round] = []
    device = CpuDevice()
    try:
        inner = DopplerMeasurer(pool, policy=ReactPolicy(max_dp=2))
        oracle = MeasuringOracle(
            graph, WEIGHTS, device, MemoryIndex(), on_round=rounds.append,
            measurer=ParallelPlanMeasurer(inner, tmp_path),
        )  # fmt: skip
        found = IosScheduler().schedule(graph, oracle)
        again = oracle.stage_latencies([Stage((("u0",),))])
    finally:
        device.close()
    assert found.predicted_ms is not None
    assert 0 < found.predicted_ms < math.inf
    assert sorted(found.schedule.units) == sorted(graph.index)
    assert sum(one.candidates for one in rounds if not one.remeasured) <= oracle.measured
    assert max(one.degree_of_parallelism for one in rounds) == 2
    assert again[0].latency_ms < math.inf
