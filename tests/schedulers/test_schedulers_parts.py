"""Parts: equal ones once, all positions once, and notes on what was cut."""

from __future__ import annotations

import math
import time
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, dags, graph_of, successors_of
from support.oracles import FakeClockOracle
from support.shared_device import SharedDevice

from workers.graph.adjacency import AdjacencyError
from workers.graph.graph import GraphError
from workers.schedulers.counts import count
from workers.schedulers.endings import Pruning, least_transitions
from workers.schedulers.ios import IosScheduler
from workers.schedulers.ios.parts import Division, divide, tightened
from workers.schedulers.ios.scheduler import Mode
from workers.schedulers.ios.space import build_space
from workers.schedules.schedule import Stage


def division(dag: Dag, max_transitions: int = 100_000) -> Division:
    return divide(graph_of(dag), Pruning(3, 8), "paper", max_transitions)


@settings(deadline=None)
@given(dags())
def test_every_unit_is_in_one_piece_whatever_the_limit(dag: Dag) -> None:
    for limit in (3, 100_000):
        found = division(dag, limit)
        assert [p for _, piece in found.order for p in piece] == list(range(len(dag)))
        for part, positions in found.order:
            assert positions in found.parts[part].occurrences
            assert len(found.parts[part].space.successors) == len(positions)


def test_equal_blocks_are_one_part() -> None:
    again = tuple(tuple(before + 4 for before in unit) or (3,) for unit in DIAMOND)
    found = division(DIAMOND + again)
    assert [part for part, _ in found.order] == [0, 1, 0, 1]
    assert found.parts[1].occurrences == ((1, 2, 3), (5, 6, 7))
    assert found.notes == ()


def test_a_long_block_is_divided_where_its_cells_join() -> None:
    """Cells of two Units, the second of which reads the cell before the last, and their join."""
    dag: list[tuple[int, ...]] = [()]
    for joined in range(0, 90, 3):
        dag += [(joined,), (max(0, joined - 3),), (joined + 1, joined + 2)]
    found = division(tuple(dag))
    assert [len(positions) for _, positions in found.order] == [1, *[3] * 30]
    assert len(found.parts) < 6
    assert found.notes == (
        "more than 64 units in a row have no cut point among them and were searched in 30 pieces",
    )


def test_pruning_is_tightened_step_by_step() -> None:
    def steps(r: int | None, s: int | None) -> list[tuple[int | None, int | None]]:
        return [(p.max_units, p.max_groups) for p in tightened(Pruning(r, s), 40, 12)]

    assert steps(3, 8) == [(3, 8), (3, 4), (2, 4)]
    assert steps(None, None) == [(40, 12), (40, 6), (40, 4), (20, 4), (10, 4), (5, 4), (2, 4)]
    assert steps(1, 2) == [(1, 2)]


def test_a_block_too_large_is_pruned_before_it_is_divided() -> None:
    """Six chains of three: s is six, then four."""
    chains: Dag = tuple((unit - 1,) if unit % 3 else () for unit in range(18))
    whole = division(chains, 4_000_000)
    assert whole.notes == ()
    pruned = division(chains, whole.parts[0].space.transitions - 1)
    assert [len(positions) for _, positions in pruned.order] == [18]
    assert max(int(stage).bit_count() for stage in pruned.parts[0].space.stages) <= 4 * 3
    assert len(pruned.notes) == 1
    assert "with at most 4 groups to a stage and 3 units to a group" in pruned.notes[0]
    divided = division(chains, 1_000)
    assert "pieces" in divided.notes[0]
    assert all(part.space.transitions <= 1_000 for part in divided.parts)


@pytest.mark.parametrize("mode", ["exact", "guided"])
@pytest.mark.parametrize(
    "dag",
    [
        tuple(() for _ in range(200)),
        tuple((unit - 1,) if unit % 10 else () for unit in range(640)),
        tuple(tuple(range(u // 10 * 10 - 10, u // 10 * 10)) if u >= 10 else () for u in range(100)),
        tuple((u - 12,) * (u >= 12) + (u - 1,) * (u % 12 > 0) for u in range(144)),
    ],
    ids=["apart", "chains", "dense", "grid"],
)
def test_a_wide_graph_has_a_schedule_a_bound_and_notes(dag: Dag, mode: Mode) -> None:
    graph = graph_of(dag)
    oracle = FakeClockOracle(SharedDevice(1, graph), budget=300)
    found = IosScheduler(mode=mode, max_transitions=5_000).schedule(graph, oracle)
    assert sorted(found.schedule.units) == sorted(unit.name for unit in graph.units)
    assert found.bound_ms is not None
    assert found.predicted_ms is not None
    assert found.critical_path_ms is not None
    assert 0 < found.bound_ms <= found.predicted_ms
    assert 0 < found.critical_path_ms <= found.predicted_ms
    assert any("pieces" in note for note in found.notes)
    assert any("critical path" in note for note in found.notes)


def test_long_blocks_share_what_may_be_enumerated() -> None:
    """However many pieces there will be: 4 · 64 / 512 of the limit for each."""
    chains: Dag = tuple((unit - 16,) if unit >= 16 else () for unit in range(512))
    found = division(chains, 20_000)
    assert max(part.space.transitions for part in found.parts) <= 10_000


@pytest.mark.parametrize(
    "dag",
    [
        tuple(() for _ in range(1000)),
        tuple((unit - 1,) if unit % 10 else () for unit in range(640)),
        tuple(tuple(range(u // 10 * 10 - 10, u // 10 * 10)) if u >= 10 else () for u in range(200)),
        tuple((u - 30,) * (u >= 30) + (u - 1,) * (u % 30 > 0) for u in range(300)),
    ],
    ids=["apart", "chains", "dense", "grid"],
)
def test_a_wide_graph_is_divided_in_seconds(dag: Dag) -> None:
    started = time.process_time()
    found = division(dag)
    assert time.process_time() - started < 10
    assert [p for _, piece in found.order for p in piece] == list(range(len(dag)))
    assert sum(part.space.transitions for part in found.parts) <= 4 * 100_000
    assert any("pieces" in note for note in found.notes)


@settings(deadline=None)
@given(dags(), st.integers(1, 3), st.integers(1, 3))
def test_the_least_transitions_are_a_bound(dag: Dag, r: int, s: int) -> None:
    successors = successors_of(dag)
    found = build_space(successors, Pruning(r, s)).transitions
    assert 0 < least_transitions(successors, Pruning(r, s), 10**6) <= found
    single = build_space(successors, Pruning(1, s)).transitions
    assert least_transitions(successors, Pruning(1, s), 10**6) == single


def test_where_everything_fails_there_is_a_schedule_and_the_reason() -> None:
    graph = graph_of(DIAMOND)
    for mode in get_args(Mode):
        result = IosScheduler(mode=mode).schedule(graph, FakeClockOracle(lambda _: math.inf))
        assert sorted(result.schedule.units) == ["u0", "u1", "u2", "u3"]
        assert result.predicted_ms is None
        assert result.critical_path_ms is None
        assert any("it broke" in note for note in result.notes)


def test_a_cyclic_graph_is_refused_before_it_can_be_scheduled() -> None:
    """A Graph is in topological order or is none; what is given as lists may be in any order."""
    with pytest.raises(GraphError, match="reads 'u1' before it is computed"):
        graph_of(((1,), (0,)))
    with pytest.raises(AdjacencyError, match="has a cycle: 1 → 2 → 1; Units in it wait"):
        count(((1,), (2,), (1,)), Pruning(3, 8))


def test_a_unit_that_fails_alone_and_beside_others_leaves_a_schedule() -> None:
    graph = graph_of(DIAMOND)

    def breaks(stage: Stage) -> float:
        return math.inf if "u1" in stage.units else 1.0

    result = IosScheduler().schedule(graph, FakeClockOracle(breaks))
    assert sorted(result.schedule.units) == ["u0", "u1", "u2", "u3"]
    assert result.predicted_ms is None
    assert any("it broke" in note for note in result.notes)
