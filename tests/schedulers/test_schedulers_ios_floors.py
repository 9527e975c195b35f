"""Floors, the pairs of stages that they follow from, and what a search knows of its states."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import Dag, chain, dags, graph_of, successors_of
from support.shared_device import SharedDevice

from workers.graph.bitsets import bits
from workers.schedulers.base import StageLatency
from workers.schedulers.endings import Pruning, components
from workers.schedulers.ios.knowledge import Knowledge
from workers.schedulers.ios.options import Strategies, make_options
from workers.schedulers.ios.parts import divide
from workers.schedulers.ios.paths import Latencies, solve
from workers.schedulers.ios.space import build_space
from workers.schedulers.ios.stage_groups import groups_of
from workers.schedulers.ios.substages import substages
from workers.schedules.schedule import Stage

PRUNINGS = st.builds(Pruning, st.integers(1, 4), st.integers(1, 4))


EVERYTHING = Pruning(8, 8)


def knowledge_of(
    dag: Dag, pruning: Pruning = EVERYTHING, strategies: Strategies = "parallel"
) -> Knowledge:
    """Of the first part of the graph, all of it if it is one block."""
    graph = graph_of(dag)
    part = divide(graph, pruning, "paper", 10**6).parts[0]
    return Knowledge(graph, part, make_options(graph, part, strategies))


def measure(known: Knowledge, device: SharedDevice, options: Sequence[int]) -> None:
    for option in options:
        known.record(option, StageLatency(device(known.stage(option))))


def floor_of(known: Knowledge, *units: int) -> float:
    mask = sum(1 << unit for unit in units)
    return float(known.floors.of_stages()[known.part.space.stages.tolist().index(mask)])


def tell(known: Knowledge, latency_ms: float, *units: int) -> None:
    mask = sum(1 << unit for unit in units)
    known.record(known.part.space.stages.tolist().index(mask), StageLatency(latency_ms, "broke"))


@settings(deadline=None, max_examples=50)
@given(dags(max_units=7), PRUNINGS, st.integers(0, 10**6))
def test_no_stage_is_faster_than_its_floor_and_floors_only_rise(
    dag: Dag, pruning: Pruning, seed: int
) -> None:
    known = knowledge_of(dag, pruning)
    device = SharedDevice(seed, known.graph)
    truth = [device(known.stage(option)) for option in range(len(known.options))]
    order = random.Random(seed).sample(range(len(truth)), len(truth))
    before = known.floors.of_options().tolist()
    for start in range(0, len(order), 3):
        measure(known, device, order[start : start + 3])
        after = known.floors.of_options().tolist()
        assert all(floor <= latency for floor, latency in zip(after, truth, strict=True))
        assert all(old <= new for old, new in zip(before, after, strict=True))
        before = after
    assert before == truth
    assert known.floors.violations == 0


def test_the_longest_group_and_pairs_of_groups_bound_a_stage() -> None:
    known = knowledge_of(tuple(() for _ in range(3)))
    for unit, latency in enumerate((5.0, 7.0, 6.0)):
        tell(known, latency, unit)
    assert floor_of(known, 0, 2) == 6.0
    assert floor_of(known, 0, 1, 2) == 7.0
    tell(known, 9.0, 0, 2)
    assert floor_of(known, 0, 1) == 7.0
    assert floor_of(known, 0, 1, 2) == 9.0


def test_units_of_a_group_add_up_but_for_what_every_measurement_takes() -> None:
    known = knowledge_of(((), (0,), (1,), (), (2, 3)))
    for unit, latency in enumerate((5.0, 7.0, 6.0, 2.0)):
        tell(known, latency, unit)
    assert floor_of(known, 0, 1) == 5.0 + 7.0 - 2.0
    assert floor_of(known, 0, 1, 2) == 5.0 + 7.0 + 6.0 - 2 * 2.0
    tell(known, 12.0, 0, 1)
    assert floor_of(known, 0, 1, 2) == 12.0 + 6.0 - 2.0
    assert floor_of(known, 0, 1, 3) == 12.0


def test_a_group_that_a_unit_is_taken_from_bounds_the_stage() -> None:
    known = knowledge_of(((), (0,), ()))
    for unit in range(3):
        tell(known, 3.0, unit)
    tell(known, 8.0, 0, 2)
    assert floor_of(known, 0, 1, 2) == 8.0


def test_a_failed_stage_bounds_nothing_else() -> None:
    known = knowledge_of(tuple(() for _ in range(3)))
    tell(known, 5.0, 0)
    tell(known, math.inf, 1)
    tell(known, math.inf, 0, 1)
    assert floor_of(known, 0, 1) == math.inf
    assert floor_of(known, 0, 1, 2) == 5.0
    assert known.floors.violations == 0


def test_a_contradicted_stage_vouches_for_no_more_than_was_seen() -> None:
    known = knowledge_of(tuple(() for _ in range(4)))
    for unit in range(4):
        tell(known, 2.0, unit)
    tell(known, 10.0, 0, 1)
    assert floor_of(known, 0, 1, 3) == 10.0
    tell(known, 4.0, 0, 1, 2)
    assert (known.floors.violations, known.floors.worst) == (1, pytest.approx(0.6))
    assert floor_of(known, 0, 1, 3) == 4.0


def test_a_contradiction_counts_whichever_stage_was_measured_first() -> None:
    known = knowledge_of(tuple(() for _ in range(3)))
    for unit in range(3):
        tell(known, 2.0, unit)
    assert known.floors.violations == 0
    tell(known, 4.0, 0, 1, 2)
    tell(known, 5.0, 0, 1)
    assert (known.floors.violations, known.floors.worst) == (1, pytest.approx(0.2))
    assert known.floors.groups_hold
    tell(known, 1.0, 0, 2)
    assert not known.floors.groups_hold


def test_doubted_floors_are_lower_by_the_worst_contradiction_but_not_below_groups_alone() -> None:
    known = knowledge_of(tuple(() for _ in range(4)))
    for unit, latency in enumerate((2.0, 2.0, 2.0, 7.0)):
        tell(known, latency, unit)
    tell(known, 8.0, 0, 1)
    tell(known, 6.0, 0, 1, 2)
    tell(known, 6.0, 0, 2)
    assert known.floors.worst == pytest.approx(0.25)
    stages = known.part.space.stages.tolist()
    doubted, plain = known.floors.doubted(), known.floors.of_stages()
    assert (plain[stages.index(0b1011)], doubted[stages.index(0b1011)]) == (7.0, 7.0)
    assert doubted[stages.index(0b0011)] == 8.0
    tell(known, 8.0, 0, 3)
    assert known.floors.of_stages()[stages.index(0b1101)] == 8.0
    assert known.floors.doubted()[stages.index(0b1101)] == 7.0


@settings(deadline=None, max_examples=40)
@given(dags(max_units=6), PRUNINGS, st.integers(0, 10**6), st.floats(0, 1))
def test_what_groups_alone_prove_is_true_whatever_else_is_contradicted(
    dag: Dag, pruning: Pruning, seed: int, share: float
) -> None:
    """No stage is faster than its longest group, and nothing else is sure."""
    known, draw = knowledge_of(dag, pruning), random.Random(seed)
    device, stages = SharedDevice(seed, known.graph), known.part.space.stages
    alone = [
        max(device(Stage(groups=(group,))) for group in known.stage(option).groups)
        for option in range(len(stages))
    ]
    count = groups_of(known.part.space).count
    truth = np.array(
        [
            latency if groups == 1 else latency + draw.randrange(0, 2000)
            for latency, groups in zip(alone, count, strict=True)
        ]
    )
    for option in range(len(stages)):
        if stages[option].bit_count() == 1 or draw.random() < share:
            known.record(option, StageLatency(float(truth[option])))
    known.refresh()
    floors, optimum = known.floors, solve(known.part.space, truth).latency_ms
    assert floors.groups_hold
    assert (floors.of_longest_groups() <= truth).all()
    if floors.violations:
        assert (floors.doubted() >= floors.of_longest_groups()).all()
        if known.standing.bound_holds:
            assert known.standing.best.latency_ms == known.standing.bound_ms == optimum
    else:
        assert known.standing.bound_holds


@settings(deadline=None, max_examples=50)
@given(dags(max_units=7), PRUNINGS)
def test_what_is_left_of_stages(dag: Dag, pruning: Pruning) -> None:
    successors = successors_of(dag)
    space = build_space(successors, pruning)
    stages = space.stages.tolist()
    expected = set()
    for whole in stages:
        groups = components(whole, successors)
        for group in groups:
            smaller = [group ^ 1 << unit for unit in bits(group)]
            connected = [mask for mask in smaller if len(components(mask, successors)) == 1]
            expected |= {(whole, whole ^ group)}
            expected |= {(whole, whole ^ group | mask) for mask in connected}
    pairs = substages(space, groups_of(space))
    found = list(zip(space.stages[pairs.whole].tolist(), space.stages[pairs.left], strict=True))
    assert set(found) == {(whole, left) for whole, left in expected if left in stages}
    assert all((whole ^ left) in stages for whole, left in expected if left)
    for position, unit in zip(pairs.chain, pairs.unit, strict=True):
        whole, left = found[position]
        assert whole ^ int(left) == stages[unit]
        assert len(components(whole, successors)) == 1


@settings(deadline=None, max_examples=40)
@given(dags(max_units=6), PRUNINGS, st.integers(0, 10**6), st.floats(0, 1))
def test_what_is_visited_and_pruned(dag: Dag, pruning: Pruning, seed: int, share: float) -> None:
    """Against all schedules, one by one."""
    known = knowledge_of(dag, pruning)
    device, draw = SharedDevice(seed, known.graph), random.Random(seed)
    options = range(len(known.options))
    measure(known, device, [option for option in options if draw.random() < share])
    known.refresh()
    space, unmeasured = known.part.space, known.unmeasured()
    floor, fastest = known.floors.of_stages(), known.measured_stages()
    stage_of = {int(mask): index for index, mask in enumerate(space.stages)}
    endings = {
        int(mask): [
            (stage_of[int(mask) ^ int(rest)], int(rest))
            for rest in space.states[space.rest[space.starts[index] : space.starts[index + 1]]]
        ]
        for index, mask in enumerate(space.states)
    }

    def schedules(state: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The states that each goes through, and its stages."""
        if state == 0:
            return [((0,), ())]
        return [
            ((*states, state), (*stages, stage))
            for stage, rest in endings[state]
            for states, stages in schedules(rest)
        ]

    found = schedules(int(space.states[-1]))
    best = min(sum(fastest[list(stages)]) for _, stages in found)
    floors = [sum(floor[list(stages)]) for _, stages in found]
    alive = [schedule for schedule, least in zip(found, floors, strict=True) if least < best]
    truth = np.array([device(known.stage(option)) for option in options])

    def least(latencies: Latencies, state: int) -> float:
        return min(math.fsum(latencies[list(stages)]) for _, stages in schedules(state))

    visited = [
        state
        for state in space.states.tolist()
        if math.isfinite(least(fastest, state)) and least(fastest, state) == least(floor, state)
    ]
    assert all(least(fastest, state) == least(truth, state) for state in visited)
    states = {state for through, _ in alive for state in through}
    stages = {stage for _, taken in alive for stage in taken}
    standing = known.standing
    assert standing.best.latency_ms == best
    assert standing.bound_ms == min(best, *floors)
    assert standing.visited == len(visited)
    assert standing.states_pruned == len(space.states) - len(states)
    assert standing.stages_pruned == sum(
        bool(unmeasured[option]) and int(known.options.stage[option]) not in stages
        for option in options
    )


def test_a_chain_has_one_way_through_it() -> None:
    known = knowledge_of(chain(1))
    tell(known, 3.0, 0)
    known.refresh()
    assert (known.standing.best.latency_ms, known.standing.bound_ms) == (3.0, 3.0)
    assert known.standing.visited == 2


def test_merged_stages_and_concurrent_ones_bound_their_own() -> None:
    known = knowledge_of(tuple(() for _ in range(3)), strategies="both")

    def option(merged: bool, *units: int) -> int:
        mask = sum(1 << unit for unit in units)
        stage = known.part.space.stages.tolist().index(mask)
        ways = [known.options.ways[way].strategy == "merge" for way in known.options.way]
        (found,) = np.flatnonzero((known.options.stage == stage) & (np.array(ways) == merged))
        return int(found)

    for unit, latency in enumerate((2.0, 3.0, 4.0)):
        known.record(option(False, unit), StageLatency(latency))
    floor = known.floors.of_options()
    assert floor[option(True, 0, 1, 2)] == floor[option(False, 0, 1, 2)] == 4.0
    known.record(option(True, 0, 1), StageLatency(9.0))
    known.record(option(False, 0, 1), StageLatency(6.0))
    floor = known.floors.of_options()
    assert floor[option(True, 0, 1, 2)] == 9.0
    assert floor[option(False, 0, 1, 2)] == 6.0
    assert floor[option(True, 1, 2)] == floor[option(False, 1, 2)] == 4.0
