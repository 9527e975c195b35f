"""Exact counts: the IOS paper's Table 1, the enumerated search space, and graphs too large."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ios_table1 import BLOCKS, NASNET_LARGE, RANDWIRE_LARGE, SQUEEZENET, Table1Block
from support.graphs import Dag, dags, successors_of

from workers.graph.adjacency import AdjacencyError
from workers.schedulers.counts import Counts, TooLarge, count
from workers.schedulers.endings import Convention, Pruning, TooManyUnitsError
from workers.schedulers.ios.space import Space, build_space

BOUNDS = st.sampled_from([None, 1, 2, 3, 4])


@pytest.mark.parametrize("block", BLOCKS, ids=[block.file.stem for block in BLOCKS])
def test_table_1(block: Table1Block) -> None:
    counts = count(block.successors, convention="published")
    assert isinstance(counts, Counts)
    for printed, exact in (
        (block.transitions, counts.transitions),
        (block.schedules, counts.schedules),
    ):
        assert float(printed) == (float(f"{exact:.1e}") if "e" in printed else exact)


@pytest.mark.parametrize("block", BLOCKS[:2], ids=[block.file.stem for block in BLOCKS[:2]])
def test_exact_counts_with_and_without_pruning(block: Table1Block) -> None:
    assert len(block.published) == len(block.paper) == 7
    for (r, s), expected in block.published.items():
        assert count(block.successors, Pruning(r, s), "published") == expected
    for (r, s), expected in block.paper.items():
        assert count(block.successors, Pruning(r, s)) == expected


@pytest.mark.parametrize("convention", ["paper", "published"])
def test_nasnet_takes_less_than_two_seconds(convention: Convention) -> None:
    started = time.process_time()
    counts = count(NASNET_LARGE.successors, convention=convention)
    assert time.process_time() - started < 2
    assert isinstance(counts, Counts)
    assert counts.states == 2201


def test_randwire_by_the_definition() -> None:
    counts = count(RANDWIRE_LARGE.successors)
    assert isinstance(counts, Counts)
    assert (counts.states, counts.transitions) == (5421, 3_560_808)
    assert counts.schedules > 9.2e22  # more than the published code reaches
    pruned = count(RANDWIRE_LARGE.successors, Pruning(3, 8))
    assert isinstance(pruned, Counts)
    assert pruned.transitions == 843_754


@settings(deadline=None)
@given(dags(max_units=8), BOUNDS, BOUNDS, st.sampled_from(["paper", "published"]), st.randoms())
def test_counts_are_those_of_the_search_space_in_any_order(
    dag: Dag, r: int | None, s: int | None, convention: Convention, random: st.Random
) -> None:
    successors = successors_of(dag)
    space = build_space(successors, Pruning(r, s), convention)
    number = list(range(len(dag)))
    random.shuffle(number)
    shuffled: list[list[int]] = [[] for _ in dag]
    for unit, after in enumerate(successors):
        shuffled[number[unit]] = [number[successor] for successor in after]
    assert count(shuffled, Pruning(r, s), convention) == Counts(
        len(space.states), space.transitions, schedules(space), len(space.stages)
    )


def schedules(space: Space) -> int:
    """The paths from everything to nothing."""
    paths = [1]
    for first, last in pairwise(space.starts[1:].tolist()):
        paths.append(sum(paths[rest] for rest in space.rest[first:last].tolist()))
    return paths[-1]


def test_integers_have_no_bound() -> None:
    """A chain of n Units has one schedule for each way to cut it, 2^(n-1); stages are intervals."""
    chain = [*([unit + 1] for unit in range(63)), []]
    assert count(chain) == Counts(65, 64 * 65 // 2, 2**63, 64 * 65 // 2)


def test_nothing_has_one_schedule() -> None:
    assert count([]) == Counts(states=1, transitions=0, schedules=1, stages=0)


@pytest.mark.parametrize("convention", ["paper", "published"])
@pytest.mark.parametrize("pruning", [Pruning(), Pruning(3, 8), Pruning(1, 1), Pruning(None, 2)])
def test_a_wide_graph_is_given_up(pruning: Pruning, convention: Convention) -> None:
    started = time.process_time()
    found = count([[] for _ in range(64)], pruning, convention, max_transitions=50_000)
    assert time.process_time() - started < 5
    assert isinstance(found, TooLarge)
    assert 0 < found.more_than <= 50_000
    assert "50,000" in found.reason


def test_groups_that_a_unit_joins_are_one() -> None:
    """Ten Units that lead to one: with s = 1, an ending is one of them or holds the last."""
    joined = [*([10] for _ in range(10)), []]
    schedules = sum(math.perm(10, alone) for alone in range(11))
    assert count(joined, Pruning(None, 1)) == Counts(1025, 6144, schedules, 10 + 1024)
    assert isinstance(count(joined, Pruning(None, 1), max_transitions=6144), Counts)
    assert isinstance(count(joined, Pruning(None, 1), max_transitions=6143), TooLarge)


def test_time_is_up() -> None:
    found = count([[] for _ in range(64)], max_seconds=0.05)
    assert isinstance(found, TooLarge)
    assert found.more_than > 0
    assert "0.05 s" in found.reason


def test_more_than_64_units_are_refused() -> None:
    with pytest.raises(TooManyUnitsError, match="65 Units and at most 64"):
        count([[] for _ in range(65)])


def test_a_cycle_is_refused() -> None:
    with pytest.raises(AdjacencyError, match="cycle: 1 → 2 → 1"):
        count([[1], [2], [1]])


def test_the_limit_is_exact_without_pruning() -> None:
    assert isinstance(count(SQUEEZENET.successors, max_transitions=60), Counts)
    assert count(SQUEEZENET.successors, max_transitions=59) == TooLarge(
        59, "counting stopped after 59 transitions"
    )


def test_the_cell_as_nasnet_s_authors_publish_it() -> None:
    """It differs from the one of Table 1 by one edge, as docs/inspect.md says."""
    successors = [set(after) for after in NASNET_LARGE.successors]
    successors[3].remove(6)
    successors[2].add(6)
    counts = count([sorted(after) for after in successors], convention="published")
    assert isinstance(counts, Counts)
    assert (counts.transitions, counts.schedules) == (287_069, 4_954_670_757_624)
