"""The search space: exact counts of Table 1, and brute force on random DAGs."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ios_table1 import INCEPTION_V3, SQUEEZENET, Table1Block
from support.graphs import Dag, dags, successors_of

from workers.graph.bitsets import bits
from workers.schedulers.counts import Counts
from workers.schedulers.endings import (
    Pruning,
    SearchSpace,
    SpaceTooLargeError,
    components,
    search_space,
)


def counts(space: SearchSpace) -> Counts:
    return Counts(space.states, space.transitions, space.schedules, len(space.stages))


@pytest.mark.parametrize("block", [SQUEEZENET, INCEPTION_V3], ids=["squeezenet", "inception"])
def test_exact_counts_of_table_1(block: Table1Block) -> None:
    for (r, s), expected in block.published.items():
        assert counts(search_space(block.successors, Pruning(r, s), "published")) == expected
    for (r, s), expected in block.paper.items():
        assert counts(search_space(block.successors, Pruning(r, s))) == expected


def test_wider_than_a_machine_word() -> None:
    """Two rows of 40 Units that meet: what is side by side are the rows, at every depth."""
    rows = ((2,), (3,), *((unit + 2,) for unit in range(2, 78)), (80,), (80,), ())
    space = search_space(rows, Pruning(1, 2))
    assert space.states == 41 * 41 + 1
    assert space.transitions == 40 * 40 * 3 + 2 * 40 + 1


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
@given(
    dags(max_units=6),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, 1, 2, 3]),
)
def test_endings_are_those_of_the_definition(dag: Dag, r: int | None, s: int | None) -> None:
    successors = successors_of(dag)
    space = search_space(successors, Pruning(r, s))
    assert [state.bit_count() for state in space.endings] == sorted(
        state.bit_count() for state in space.endings
    )
    for state, endings in space.endings.items():
        expected = [
            ending
            for ending in endings_by_definition(state, successors)
            for groups in [components_by_definition(ending, successors)]
            if s is None or len(groups) <= s
            if r is None or all(group.bit_count() <= r for group in groups)
        ]
        assert sorted(endings) == sorted(expected)


@settings(deadline=None)
@given(
    dags(max_units=6),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, 1, 2, 3]),
)
def test_published_endings_have_groups_with_one_source(
    dag: Dag, r: int | None, s: int | None
) -> None:
    successors = successors_of(dag)
    bounded = search_space(successors, Pruning(r, s))
    published = search_space(successors, Pruning(r, s), "published")
    for state, endings in published.endings.items():
        expected = [
            ending
            for ending in bounded.endings[state]
            for groups in [components_by_definition(ending, successors)]
            if all(
                sum(not any(group >> before & 1 for before in dag[unit]) for unit in bits(group))
                == 1
                for group in groups
            )
        ]
        assert sorted(endings) == sorted(expected)


@settings(deadline=None)
@given(dags(max_units=7))
def test_states_are_the_sets_closed_under_predecessors(dag: Dag) -> None:
    closed = {
        state
        for state in range(1, 1 << len(dag))
        if all(state >> before & 1 for unit in bits(state) for before in dag[unit])
    }
    assert set(search_space(successors_of(dag), Pruning(1, 1)).endings) == closed


def test_the_limit_on_transitions_is_exact() -> None:
    assert search_space(SQUEEZENET.successors, Pruning(), max_transitions=60).transitions == 60
    with pytest.raises(SpaceTooLargeError) as raised:
        search_space(SQUEEZENET.successors, Pruning(), max_transitions=59)
    assert raised.value.more_than == 59


def test_a_huge_space_is_given_up_quickly() -> None:
    independent = tuple(() for _ in range(60))
    with pytest.raises(SpaceTooLargeError):
        search_space(independent, Pruning(3, 8), max_transitions=10_000)
