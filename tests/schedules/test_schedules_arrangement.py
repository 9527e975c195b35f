"""How streams share threads and cores."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import DIAMOND, Dag, dags, graph_of, wide
from support.schedules import schedules, sequential

from workers.graph.graph import Graph
from workers.schedules.arrangement import Arrangement, Step, arrange
from workers.schedules.lower import lower
from workers.schedules.plan import Launch, Plan, Stream
from workers.schedules.schedule import Stage, StageSchedule


def arranged(graph: Graph, cores: int, *stages: tuple[tuple[str, ...], ...]) -> Arrangement:
    schedule = StageSchedule("test", tuple(Stage(groups) for groups in stages))
    return arrange(lower(schedule, graph, cores), graph, cores)


def placed(arrangement: Arrangement) -> list[list[tuple[str, int, int]]]:
    return [
        [(step.unit, step.core, step.threads) for step in host.steps] for host in arrangement.hosts
    ]


def test_a_sequence_has_one_host_and_no_signals() -> None:
    graph = graph_of(wide(4))
    arrangement = arrange(lower(sequential(graph), graph, 2), graph, 2)
    assert len(arrangement.hosts) == 1
    assert arrangement.signals == 0
    assert arrangement.hosts[0].cores == (0, 1)


def test_a_diamond_forks_to_one_more_host_and_spins_only_to_join() -> None:
    arrangement = arranged(graph_of(DIAMOND), 2, (("u0",),), (("u1",), ("u2",)), (("u3",),))
    assert placed(arrangement) == [
        [("u0", 0, 2), ("u1", 0, 1), ("u3", 0, 2)],
        [("u2", 1, 1)],
    ]
    first, second = arrangement.hosts
    assert first.cores == (0, 1)
    assert second.cores == (1,)
    # u2 must not spin on core 1 while u0's second thread works there; u3 may wait spinning for u2.
    assert [wait.spin for wait in second.steps[0].waits] == [False]
    assert [wait.spin for wait in first.steps[2].waits] == [True]
    assert arrangement.signals == 2


def test_consecutive_forks_hand_over_spinning() -> None:
    graph = graph_of(((), (), (0, 1), (0, 1)))
    arrangement = arranged(graph, 2, (("u0",), ("u1",)), (("u2",), ("u3",)))
    assert [wait.spin for host in arrangement.hosts for wait in host.steps[1].waits] == [True, True]


def test_more_groups_than_cores_share_hosts() -> None:
    graph = graph_of(wide(4))
    units = (("u1",), ("u2",), ("u3",), ("u4",))
    arrangement = arranged(graph, 2, (("u0",),), units, (("u5",),))
    assert placed(arrangement) == [
        [("u0", 0, 2), ("u1", 0, 1), ("u3", 0, 1), ("u5", 0, 2)],
        [("u2", 1, 1), ("u4", 1, 1)],
    ]


def test_unequal_groups_get_disjoint_cores() -> None:
    graph = graph_of(((), ()))
    plan = Plan((Stream(3), Stream(1)), (Launch("u0", 0), Launch("u1", 1)))
    arrangement = arrange(plan, graph, 4)
    assert [host.cores for host in arrangement.hosts] == [(0, 1, 2), (3,)]


def test_teams_of_different_sizes_do_not_share_a_host() -> None:
    graph = graph_of(wide(2))
    arrangement = arranged(graph, 4, (("u0",),), (("u1",), ("u2",)), (("u3",),))
    assert [host.cores for host in arrangement.hosts] == [(0, 1, 2, 3), (0, 1), (2, 3)]


def test_values_are_freed_at_their_last_reader() -> None:
    arrangement = arranged(graph_of(DIAMOND), 2, (("u0",),), (("u1",), ("u2",)), (("u3",),))
    steps = {step.unit: step for host in arrangement.hosts for step in host.steps}
    # u1 and u2 read u0 side by side: only u3, which waits for both, knows that it is dead.
    assert steps["u3"].frees_before == ("u0",)
    assert sorted(steps["u3"].frees_after) == ["u1", "u2"]
    assert steps["u1"].frees_after == steps["u2"].frees_after == ()


def replay(arrangement: Arrangement, pick: st.DrawFn) -> list[Step]:
    """Run the hosts in some interleaving that the signals allow; fails if they are stuck."""
    position = [0] * len(arrangement.hosts)
    sent: set[int] = set()
    done: list[Step] = []
    while True:
        able = [
            number
            for number, host in enumerate(arrangement.hosts)
            if position[number] < len(host.steps)
            and all(wait.signal in sent for wait in host.steps[position[number]].waits)
        ]
        if not able:
            break
        number = pick(st.sampled_from(able))
        step = arrangement.hosts[number].steps[position[number]]
        position[number] += 1
        sent.update(step.sends)
        done.append(step)
    assert position == [len(host.steps) for host in arrangement.hosts]
    return done


@settings(deadline=None)
@given(st.data(), dags(max_units=8), st.integers(1, 4))
def test_every_interleaving_is_safe(data: st.DataObject, dag: Dag, cores: int) -> None:
    """No host is stuck, no value is read before it is written or after it is freed, and what is
    left at the end is an output or was read side by side with nothing after it."""
    graph = graph_of(dag)
    arrangement = arrange(lower(data.draw(schedules(graph, dag)), graph, cores), graph, cores)
    alive = {"x", "w"}
    for step in replay(arrangement, data.draw):
        alive -= set(step.frees_before)
        assert set(graph.unit(step.unit).inputs) <= alive
        alive |= set(graph.unit(step.unit).outputs)
        alive -= set(step.frees_after)
        assert step.core < cores
    readers = Counter(name for unit in graph.units for name in unit.inputs)
    assert alive >= set(graph.outputs)
    assert all(readers[name] > 1 for name in alive - {"x", "w", *graph.outputs})
