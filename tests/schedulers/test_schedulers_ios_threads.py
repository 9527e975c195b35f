"""Inside an operator or across them: how a stage's groups share a CPU's threads."""

from __future__ import annotations

from contextlib import closing
from itertools import product

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.graphs import SIDE, graph_of, wide
from support.oracles import FakeClockOracle

from workers.devices import open_device
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.schedulers.ios import IosScheduler
from workers.schedulers.ios.threads import ALLOTMENTS, allotments, in_proportion
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage, StageSchedule
from workers.schedules.validate import validate


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=9),
    st.integers(1, 20),
)
@example([(5, 5)], 1)
@example([(5, 5)], 16)
@example([(9, 1), (1, 9), (1, 1)], 16)
def test_allotments_are_few_and_within_the_device(work: list[tuple[int, int]], cores: int) -> None:
    found = allotments([flops for flops, _ in work], [moved for _, moved in work], cores)
    own = (max(1, cores // len(work)),) * len(work)
    assert len({own, *found}) == len(found) + 1 <= ALLOTMENTS
    for threads in found:
        assert len(threads) == len(work)
        assert min(threads) >= 1
        assert sum(threads) <= cores


def test_allotments_of_sixteen_cores() -> None:
    assert allotments([7], [7], 16) == ((8,), (4,), (1,))
    assert allotments([30, 10], [10, 10], 16) == ((12, 4), (1, 1))
    assert allotments([9, 0, 0], [0, 0, 9], 16) == ((14, 1, 1), (1, 1, 14), (1, 1, 1))
    assert allotments([9] * 16, [9] * 16, 16) == ()
    assert allotments([9], [9], 1) == ()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(0, 6))
def test_threads_in_proportion_end_the_soonest(work: list[int], spare: int) -> None:
    cores = len(work) + spare
    soonest = min(
        max(flops / count for flops, count in zip(work, threads, strict=True))
        for threads in product(range(1, cores + 1), repeat=len(work))
        if sum(threads) == cores
    )
    found = in_proportion(work, cores)
    assert sum(found) == cores
    assert max(flops / count for flops, count in zip(work, found, strict=True)) == soonest


@pytest.mark.parametrize("name", ["sim:v100", "sim:rtx2080ti"])
def test_a_gpu_has_no_threads_to_divide(name: str) -> None:
    with closing(open_device(name)) as device:
        assert device.facts.parallelism == 1


def test_a_schedule_of_unequal_threads_runs_and_computes_the_same() -> None:
    """Of three branches the first gets two of four threads, and their join one; the device runs it
    on as many cores as it has."""

    def latency_of(stage: Stage) -> float:
        return {(): 2.0, (2, 1, 1): 1.0, (1,): 1.5}.get(stage.threads, 3.0) * len(stage.units)

    graph = graph_of(wide(3))
    oracle = FakeClockOracle(latency_of, parallelism=4)
    schedule = IosScheduler(strategies="parallel").schedule(graph, oracle).schedule
    assert isinstance(schedule, StageSchedule)
    assert [stage.threads for stage in schedule.stages] == [(1,), (2, 1, 1), (1,)]
    plan = lower(schedule, graph, parallelism=4)
    validate(plan, graph)
    weights = {"w": torch.full((SIDE, SIDE), 0.1)}
    inputs = random_inputs(graph, 0)
    with (
        closing(open_device("cpu")) as device,
        device.prepare(graph, weights, plan) as executable,
    ):
        found = executable.run(inputs)
    for output, expected in run_graph(graph, weights, inputs).items():
        torch.testing.assert_close(found[output], expected)
