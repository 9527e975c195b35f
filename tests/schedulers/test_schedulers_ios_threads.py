"""Inside an operator or across them: how a stage's groups share a CPU's threads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from itertools import product

import numpy as np
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
from workers.schedulers.ios.threads import allotments, for_one_group, in_proportion
from workers.schedules.lower import lower
from workers.schedules.schedule import Stage, StageSchedule
from workers.schedules.validate import validate


def others(flops: Sequence[int], bytes_moved: Sequence[int], cores: int) -> list[tuple[int, ...]]:
    """What one stage is given besides what the device gives it."""
    found = allotments(np.array([flops]), np.array([bytes_moved]), cores)[:, 0].tolist()
    own = (max(1, cores // len(flops)),) * len(flops)
    return [threads for threads in dict.fromkeys(map(tuple, found)) if threads != own]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=9),
    st.integers(1, 20),
)
@example([(5, 5)], 1)
@example([(5, 5)], 16)
@example([(9, 1), (1, 9), (1, 1)], 16)
@example([(5, 5)] * 9, 2)
def test_allotments_are_few_and_within_the_device(work: list[tuple[int, int]], cores: int) -> None:
    found = others([flops for flops, _ in work], [moved for _, moved in work], cores)
    assert len(found) <= 3
    assert bool(found) == (len(work) < cores)
    for threads in found:
        assert len(threads) == len(work)
        assert min(threads) >= 1
        assert sum(threads) <= cores


def test_allotments_of_sixteen_cores() -> None:
    assert others([7], [7], 16) == [(8,), (4,), (1,)]
    assert others([30, 10], [10, 10], 16) == [(12, 4), (1, 1)]
    assert others([9, 0, 0], [0, 0, 9], 16) == [(14, 1, 1), (1, 1, 14), (1, 1, 1)]
    assert others([9] * 16, [9] * 16, 16) == []
    assert others([9], [9], 1) == []


@pytest.mark.parametrize(
    ("cores", "alone"), [(1, ()), (2, (1,)), (3, (2, 1)), (4, (2, 1)), (64, (32, 16, 1))]
)
def test_threads_for_one_group(cores: int, alone: tuple[int, ...]) -> None:
    assert for_one_group(cores) == alone


def one_by_one(work: Sequence[int], cores: int) -> list[int]:
    """Threads in proportion to work, each given to the group with most work on a thread."""
    threads = [1] * len(work)
    for _ in range(cores - len(work)):
        loads = [Fraction(own, count) for own, count in zip(work, threads, strict=True)]
        first = min(range(len(work)), key=lambda group: (-loads[group], threads[group], group))
        threads[first] += 1
    return threads


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 6).flatmap(
        lambda groups: st.lists(
            st.lists(st.integers(0, 40), min_size=groups, max_size=groups), min_size=1, max_size=4
        )
    ),
    st.integers(1, 70),
)
@example([[0, 0, 0], [1, 1, 1], [5, 0, 0], [10**12, 10**12 - 1, 1]], 61)
def test_threads_are_divided_for_many_stages_as_for_one(work: list[list[int]], spare: int) -> None:
    cores = len(work[0]) + spare
    found = in_proportion(np.array(work), cores).tolist()
    assert found == [one_by_one(row, cores) for row in work]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 6))
def test_threads_in_proportion_end_the_soonest(work: list[int], spare: int) -> None:
    cores = len(work) + spare
    soonest = min(
        max(flops / count for flops, count in zip(work, threads, strict=True))
        for threads in product(range(1, cores + 1), repeat=len(work))
        if sum(threads) == cores
    )
    found = in_proportion(np.array([work]), cores)[0].tolist()
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
