"""Parts: equal ones once, all positions once, and notes on what was cut."""

from __future__ import annotations

from hypothesis import given, settings
from support.graphs import DIAMOND, Dag, dags, graph_of

from workers.schedulers.endings import Pruning
from workers.schedulers.ios.parts import Division, divide


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
