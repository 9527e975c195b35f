"""States and endings: brute force on random DAGs, and spaces too large."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ios_table1 import SQUEEZENET
from support.graphs import Dag, chain, dags, successors_of

from workers.graph.bitsets import bits
from workers.schedulers.ending_groups import SpaceTooLargeError, connected_convex_sets
from workers.schedulers.endings import (
    Convention,
    Pruning,
    TooManyUnitsError,
    components,
    states,
)

BOUNDS = st.sampled_from([None, 1, 2, 3])


def endings_of_states(
    dag: Dag, pruning: Pruning, convention: Convention = "paper"
) -> dict[int, list[int]]:
    """The endings of each state in ascending order."""
    return {
        state.units: sorted(state.endings.tolist())
        for state in states(successors_of(dag), pruning, convention)
    }


def endings_by_definition(state: int, successors: Dag) -> list[int]:
    """Every non-empty subset of ``state`` with no edge out of it to the rest of ``state``."""
    units = list(bits(state))
    return [
        ending
        for size in range(1, len(units) + 1)
        for chosen in combinations(units, size)
        if (ending := sum(1 << unit for unit in chosen))
        and not any((state & ~ending) >> after & 1 for unit in chosen for after in successors[unit])
    ]


def components_by_definition(stage: int, successors: Dag) -> set[int]:
    """Connected components by repeated search over undirected edges."""
    left, found = set(bits(stage)), set()
    while left:
        reached = {left.pop()}
        grown = True
        while grown:
            more = {
                other
                for other in left
                if any(other in successors[unit] or unit in successors[other] for unit in reached)
            }
            grown = bool(more)
            reached |= more
            left -= more
        found.add(sum(1 << unit for unit in reached))
    return found


@settings(deadline=None)
@given(dags(max_units=6))
def test_components_are_the_connected_ones(dag: Dag) -> None:
    successors = successors_of(dag)
    for stage in range(1, 1 << len(dag)):
        groups = components(stage, successors)
        assert set(groups) == components_by_definition(stage, successors)
        assert sum(groups) == stage
        assert list(groups) == sorted(groups, key=lambda group: group & -group)


@settings(deadline=None)
@given(dags(max_units=6), BOUNDS, BOUNDS)
def test_endings_are_those_of_the_definition(dag: Dag, r: int | None, s: int | None) -> None:
    successors = successors_of(dag)
    for state, endings in endings_of_states(dag, Pruning(r, s)).items():
        expected = [
            ending
            for ending in endings_by_definition(state, successors)
            for groups in [components_by_definition(ending, successors)]
            if s is None or len(groups) <= s
            if r is None or all(group.bit_count() <= r for group in groups)
        ]
        assert endings == sorted(expected)


@settings(deadline=None)
@given(dags(max_units=6), BOUNDS, BOUNDS)
def test_published_endings_have_groups_with_one_source(
    dag: Dag, r: int | None, s: int | None
) -> None:
    successors = successors_of(dag)
    bounded = endings_of_states(dag, Pruning(r, s))
    for state, endings in endings_of_states(dag, Pruning(r, s), "published").items():
        expected = [
            ending
            for ending in bounded[state]
            for groups in [components_by_definition(ending, successors)]
            if all(
                sum(not any(group >> before & 1 for before in dag[unit]) for unit in bits(group))
                == 1
                for group in groups
            )
        ]
        assert endings == expected


@settings(deadline=None)
@given(dags(max_units=7), BOUNDS, BOUNDS)
def test_states_are_the_sets_closed_under_predecessors(
    dag: Dag, r: int | None, s: int | None
) -> None:
    closed = {
        state
        for state in range(1, 1 << len(dag))
        if all(state >> before & 1 for unit in bits(state) for before in dag[unit])
    }
    found = [state.units for state in states(successors_of(dag), Pruning(r, s))]
    assert set(found) == closed
    assert len(found) == len(closed)
    for position, state in enumerate(found):
        assert not any(other & ~state == 0 for other in found[position + 1 :])


@settings(deadline=None)
@given(dags(max_units=7), BOUNDS, BOUNDS, st.sampled_from(["paper", "published"]))
def test_every_stage_has_one_smallest_state(
    dag: Dag, r: int | None, s: int | None, convention: Convention
) -> None:
    found = list(states(successors_of(dag), Pruning(r, s), convention))
    stages = [stage for state in found for stage in state.stages.tolist()]
    assert sorted(stages) == sorted({e for state in found for e in state.endings.tolist()})


@settings(deadline=None)
@given(dags(max_units=7), st.integers(1, 7))
def test_connected_convex_sets_by_definition(dag: Dag, max_units: int) -> None:
    successors = successors_of(dag)
    everything = (1 << len(dag)) - 1
    endings = {
        ending
        for state in endings_of_states(dag, Pruning(1, 1))
        for ending in endings_by_definition(state, successors)
    }
    expected = sorted(
        stage
        for stage in range(1, everything + 1)
        if len(components_by_definition(stage, successors)) == 1
        if stage.bit_count() <= max_units
        if stage in endings
    )
    found = connected_convex_sets(successors, max_units)
    assert sorted(found.tolist()) == expected
    assert len(connected_convex_sets(successors, max_units, len(expected))) == len(expected)
    with pytest.raises(SpaceTooLargeError):
        connected_convex_sets(successors, max_units, len(expected) - 1)


@settings(deadline=None)
@given(dags(max_units=6), BOUNDS, BOUNDS, st.sampled_from(["paper", "published"]))
def test_the_limit_on_transitions_is_exact(
    dag: Dag, r: int | None, s: int | None, convention: Convention
) -> None:
    successors, pruning = successors_of(dag), Pruning(r, s)
    count = sum(len(state.endings) for state in states(successors, pruning, convention))
    assert sum(len(state.endings) for state in states(successors, pruning, convention, count))
    with pytest.raises(SpaceTooLargeError) as raised:
        list(states(successors, pruning, convention, count - 1))
    assert raised.value.more_than == count - 1


def test_the_limit_is_exact_for_a_block_of_table_1() -> None:
    assert list(states(SQUEEZENET.successors, Pruning(), "paper", 60))
    with pytest.raises(SpaceTooLargeError, match="more than 59 transitions"):
        list(states(SQUEEZENET.successors, Pruning(), "paper", 59))


@pytest.mark.parametrize("pruning", [Pruning(), Pruning(3, 8), Pruning(1, 1), Pruning(None, 8)])
def test_a_huge_space_is_given_up_quickly(pruning: Pruning) -> None:
    """64 Units apart, and layers of eight with all edges between them."""
    apart = tuple(() for _ in range(64))
    layers = tuple(tuple(range(u // 8 * 8 + 8, min(64, u // 8 * 8 + 16))) for u in range(64))
    started = time.process_time()
    with pytest.raises(SpaceTooLargeError):
        list(states(apart, pruning, "paper", 100_000))
    with pytest.raises(SpaceTooLargeError):
        list(states(layers, pruning, "paper", 2_000))
    assert time.process_time() - started < 5


def test_more_units_than_a_mask_has_bits_are_refused() -> None:
    assert len(list(states(successors_of(chain(64)), Pruning(1, 1)))) == 64
    with pytest.raises(TooManyUnitsError, match="65 Units and at most 64"):
        list(states(successors_of(chain(65)), Pruning(1, 1)))
