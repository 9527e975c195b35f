"""Algorithm 2, by a slow plain version."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, dags, successors_of, wide

from workers.schedulers.opara.launch_order import launch_order


def algorithm_2(dag: Dag, compute: Sequence[bool], demand: Sequence[int]) -> list[int]:
    """As it is printed, memory-intensive first."""
    successors, indegree = successors_of(dag), [len(before) for before in dag]
    memory_list = [v for v, n in enumerate(indegree) if n == 0 and not compute[v]]
    compute_list = [v for v, n in enumerate(indegree) if n == 0 and compute[v]]
    queue: list[int] = []
    last: list[int] = compute_list
    while memory_list or compute_list:
        chosen = compute_list if last is memory_list else memory_list
        if not chosen:
            chosen = last
        least = min(sorted(chosen), key=lambda v: demand[v])
        chosen.remove(least)
        queue.append(least)
        last = chosen
        for s in successors[least]:
            indegree[s] -= 1
            if indegree[s] == 0:
                (compute_list if compute[s] else memory_list).append(s)
    return queue


@given(st.data(), dags(max_units=12))
def test_algorithm_2(data: st.DataObject, dag: Dag) -> None:
    count = len(dag)
    compute = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    demand = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    found = launch_order(dag, successors_of(dag), compute, [(d,) for d in demand])
    assert found == algorithm_2(dag, compute, demand)
    assert sorted(found) == list(range(count))
    position = {unit: number for number, unit in enumerate(found)}
    assert all(position[p] < position[v] for v, before in enumerate(dag) for p in before)


def order(dag: Dag, compute: Sequence[bool], demand: Sequence[int]) -> list[int]:
    return launch_order(dag, successors_of(dag), compute, [(d,) for d in demand])


def test_the_lists_alternate() -> None:
    """u1, u2 compute, u3, u4 move memory: after the source (memory) compute has its turn."""
    compute = [False, True, True, False, False, False]
    assert order(wide(4), compute, [0, 5, 4, 3, 2, 0]) == [0, 2, 4, 1, 3, 5]


def test_an_empty_list_is_passed_over() -> None:
    assert order(DIAMOND, [True] * 4, [0, 2, 1, 0]) == [0, 2, 1, 3]


def test_of_equal_demands_the_first_in_the_graph() -> None:
    assert order(wide(3), [False] * 5, [0] * 5) == [0, 1, 2, 3, 4]
