"""Measuring again: in turns, at most once, within the budget, without the luck of the chosen."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence

import numpy as np
import pytest
from support.fake_device import ScriptedDevice
from support.graphs import DIAMOND, graph_of, wide
from support.noisy_device import NoisyDevice

from workers.measure.measurement import Failure, Measurement, Round
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.measure.recheck import TURNS, pooled
from workers.schedulers.base import BUDGET, StageLatency
from workers.schedules.schedule import Stage

UNITS = [Stage((("u0",),)), Stage((("u1",), ("u2",))), Stage((("u3",),))]


def oracle_on(
    device: ScriptedDevice, index: MemoryIndex, deadline: float = math.inf
) -> MeasuringOracle:
    return MeasuringOracle(graph_of(DIAMOND), {}, device, index, deadline=deadline)


def latencies(answers: Sequence[StageLatency]) -> list[float]:
    return [answer.latency_ms for answer in answers]


def test_all_are_measured_in_turns_prepared_afresh_each_time() -> None:
    device, rounds = NoisyDevice(), list[Round]()
    oracle = MeasuringOracle(graph_of(DIAMOND), {}, device, MemoryIndex(), on_round=rounds.append)
    oracle.stage_latencies(UNITS)
    oracle.recheck(UNITS)
    turns = [device.order[start : start + 3] for start in range(0, len(device.order), 3)]
    assert len(turns) == 1 + TURNS
    assert all(sorted(turn) == sorted(turns[0]) for turn in turns)
    assert len({tuple(turn) for turn in turns}) > 1
    assert [(entry.candidates, entry.remeasured) for entry in rounds] == [(3, 0)] + TURNS * [(3, 3)]
    assert (oracle.measured, oracle.looked_up, oracle.rechecked) == (3, 0, 3)


def test_the_second_look_alone_answers() -> None:
    """The first one was chosen for what it said."""
    device = NoisyDevice(luck=0.1)
    oracle = oracle_on(device, MemoryIndex())
    first = latencies(oracle.stage_latencies(UNITS))
    before = len(device.factors)
    (answer,) = oracle.recheck(UNITS[:1])
    assert answer.latency_ms == sorted(device.factors[before:])[TURNS // 2] != first[0]


def test_no_stage_is_measured_again_twice_nor_by_the_next_job() -> None:
    index, device = MemoryIndex(), NoisyDevice(luck=0.1)
    oracle = oracle_on(device, index)
    first, second = oracle.stage_latencies(UNITS), oracle.recheck([*UNITS, UNITS[0]])
    assert second[0] == second[3]
    prepared = len(device.order)
    for again in (oracle, oracle_on(device, index)):
        assert again.recheck(UNITS) == second[:3]
        assert again.stage_latencies(UNITS) == first
    assert len(device.order) == prepared == 3 * (1 + TURNS)
    contexts = sorted(key.context for key, _ in index.entries())
    once = ["concurrent threads=1+1", *2 * ["concurrent threads=2"]]
    assert contexts == sorted([*once, *(f"{context} rechecked" for context in once)])


def test_what_was_not_asked_before_is_measured_first() -> None:
    device = NoisyDevice()
    oracle = oracle_on(device, MemoryIndex())
    assert latencies(oracle.recheck(UNITS)) == [1.0, 2.0, 1.0]
    assert (oracle.measured, oracle.rechecked) == (3, 3)


def test_a_computed_latency_is_not_computed_again() -> None:
    device, index = ScriptedDevice(lambda graph, plan: float(len(plan.launches))), MemoryIndex()
    oracle = oracle_on(device, index)
    assert oracle.stage_latencies(UNITS) == oracle.recheck(UNITS)
    assert len(device.prepared) == len(list(index.entries())) == 3
    assert oracle.rechecked == 0


def test_without_time_the_answer_is_as_before_and_says_so() -> None:
    index, device = MemoryIndex(), NoisyDevice(luck=0.1)
    first = oracle_on(device, index).stage_latencies(UNITS[:2])
    known = oracle_on(device, index).recheck(UNITS[:1])
    late = oracle_on(device, index, deadline=0.0)
    prepared = len(device.order)
    assert late.recheck(UNITS) == [
        known[0],
        StageLatency(first[1].latency_ms, BUDGET),
        StageLatency(math.inf, BUDGET),
    ]
    assert len(device.order) == prepared
    assert late.rechecked == 0


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_turn_cut_short_counts_for_none(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget ends within a turn: the whole ones before it answer, for this search alone."""
    index, device = MemoryIndex(), NoisyDevice(luck=0.1)
    now = time.monotonic()
    oracle = oracle_on(device, index, deadline=now + 1000)
    oracle.stage_latencies(UNITS)
    stored = dict(index.entries())
    last = len(device.order) + 3 * turns + 1
    monkeypatch.setattr(
        "workers.measure.oracle.time.monotonic", lambda: now + 2000 * (len(device.order) >= last)
    )
    answers = oracle.recheck(UNITS)
    assert len(device.order) == last
    assert {answer.reason for answer in answers} == ({None} if turns else {BUDGET})
    assert dict(index.entries()) == stored


def test_a_stage_that_fails_the_second_time_is_infinite_for_this_search() -> None:
    index, device = MemoryIndex(), NoisyDevice()
    oracle = oracle_on(device, index)
    oracle.stage_latencies(UNITS[:1])
    device.break_after = len(device.order) + 2
    for _ in range(2):
        (answer,) = oracle.recheck(UNITS[:1])
        assert answer == StageLatency(math.inf, "unit 'u0' failed")
    device.break_after = math.inf
    assert latencies(oracle_on(device, index).recheck(UNITS[:1])) == [1.0]


def test_the_fastest_of_many_no_longer_looks_faster_than_it_is() -> None:
    """Equally fast stages, in truth of 2 ms, and a 5 % spread of measurements."""
    graph = graph_of(wide(4))
    truth, seeds = 2.0, range(10)
    pairs = [
        Stage((("u1",), ("u2",)), threads=threads)
        for threads in itertools.product(range(1, 6), repeat=2)
    ]
    found, again = [], []
    for seed in seeds:
        oracle = MeasuringOracle(graph, {}, NoisyDevice(0.05, seed), MemoryIndex())
        answers = latencies(oracle.stage_latencies(pairs))
        best = int(np.argmin(answers))
        found.append(answers[best] / truth - 1)
        again.append(oracle.recheck([pairs[best]])[0].latency_ms / truth - 1)
    assert np.mean(found) < -0.06
    assert abs(float(np.mean(again))) < 3 * 0.05 * 1.25 / math.sqrt(TURNS * len(seeds))


def test_turns_are_pooled_by_the_median_of_their_medians() -> None:
    turns = [Measurement(value, 0.5, 9.0, samples=10, outliers=1) for value in (5.0, 1.0, 2.0)]
    assert pooled(turns) == Measurement(2.0, 1.0, 5.0, samples=30, outliers=3)
    failed = Measurement.failed(Failure.LAUNCH, "no")
    assert pooled([*turns, failed]) == failed
