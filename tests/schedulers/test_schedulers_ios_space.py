"""The search space as arrays: what brute force finds, in the order that passes rely on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ios_table1 import INCEPTION_V3, RANDWIRE_LARGE, SQUEEZENET, Table1Block
from support.graphs import Dag, chain, dags, successors_of

from workers.graph.bitsets import bits
from workers.schedulers.ending_groups import SpaceTooLargeError
from workers.schedulers.endings import Pruning, TooManyUnitsError, components
from workers.schedulers.ios.paths import solve
from workers.schedulers.ios.space import Space, build_space

BOUNDS = st.sampled_from([None, 1, 2, 3])


def transitions_by_definition(dag: Dag, r: int | None, s: int | None) -> dict[int, dict[int, int]]:
    """For each state, the empty one included, its endings and what is left without them."""
    successors = successors_of(dag)
    subsets = range(1 << len(dag))
    closed = [
        state
        for state in subsets
        if all(state >> before & 1 for unit in bits(state) for before in dag[unit])
    ]
    return {
        state: {
            ending: state ^ ending
            for ending in subsets
            if ending and not ending & ~state
            if state ^ ending in closed
            for groups in [components(ending, successors)]
            if s is None or len(groups) <= s
            if r is None or all(group.bit_count() <= r for group in groups)
        }
        for state in closed
    }


@settings(deadline=None)
@given(dags(max_units=6), BOUNDS, BOUNDS)
def test_the_arrays_hold_what_brute_force_finds(dag: Dag, r: int | None, s: int | None) -> None:
    expected = transitions_by_definition(dag, r, s)
    space = build_space(successors_of(dag), Pruning(r, s))
    states, stages = space.states.tolist(), space.stages.tolist()
    assert states == sorted(expected, key=lambda state: (state.bit_count(), state))
    assert stages == sorted({ending for endings in expected.values() for ending in endings})
    assert space.units == len(dag)
    assert space.transitions == sum(map(len, expected.values()))
    assert len(space.starts) == len(states) + 1
    for index, state in enumerate(states):
        chosen = slice(space.starts[index], space.starts[index + 1])
        assert set(space.state[chosen].tolist()) <= {index}
        endings = [stages[ending] for ending in space.ending[chosen]]
        rests = [states[rest] for rest in space.rest[chosen]]
        assert dict(zip(endings, rests, strict=True)) == expected[state]
        assert len(endings) == len(expected[state])


@settings(deadline=None)
@given(dags(max_units=7), BOUNDS, BOUNDS)
def test_layers_hold_the_states_of_one_size(dag: Dag, r: int | None, s: int | None) -> None:
    space = build_space(successors_of(dag), Pruning(r, s))
    sizes = np.bitwise_count(space.states)[space.state]
    assert space.layers[0] == 0
    assert space.layers[-1] == space.transitions
    assert len(space.layers) == len(dag) + 1
    for size in range(1, len(dag) + 1):
        assert set(sizes[space.layers[size - 1] : space.layers[size]].tolist()) == {size}


@pytest.mark.parametrize("block", [SQUEEZENET, INCEPTION_V3], ids=["squeezenet", "inception"])
def test_exact_counts_of_table_1(block: Table1Block) -> None:
    assert block.paper
    for (r, s), expected in block.paper.items():
        space = build_space(block.successors, Pruning(r, s))
        assert len(space.states) == expected.states
        assert space.transitions == expected.transitions
        assert len(space.stages) == expected.stages


def least_latencies(space: Space, latencies: dict[int, float]) -> dict[int, float]:
    """A plain dynamic program over dictionaries, for every state."""
    cost = {0: 0.0}
    states, stages = space.states.tolist(), space.stages.tolist()
    for index, state in enumerate(states[1:], 1):
        ending = space.ending[space.starts[index] : space.starts[index + 1]].tolist()
        cost[state] = min(cost[state ^ stages[e]] + latencies[stages[e]] for e in ending)
    return cost


def test_the_dynamic_program_of_a_large_block() -> None:
    """RandWire's largest, with the r and s that are the default."""
    space = build_space(RANDWIRE_LARGE.successors, Pruning(3, 8))
    assert space.transitions == 843_754
    latencies = np.random.default_rng(0).random(len(space.stages))
    by_stage = dict(zip(space.stages.tolist(), latencies.tolist(), strict=True))
    found = solve(space, latencies)
    assert found.latency_ms == least_latencies(space, by_stage)[int(space.states[-1])]
    assert found.latency_ms == pytest.approx(sum(latencies[list(found.stages)]))
    assert sum(space.stages[list(found.stages)].tolist()) == space.states[-1]


def test_what_is_too_large() -> None:
    apart = tuple(() for _ in range(12))
    assert build_space(apart, Pruning(), max_transitions=3**12 - 2**12).transitions == 3**12 - 2**12
    with pytest.raises(SpaceTooLargeError):
        build_space(apart, Pruning(), max_transitions=3**12 - 2**12 - 1)
    assert len(build_space(successors_of(chain(64)), Pruning()).states) == 65
    with pytest.raises(TooManyUnitsError):
        build_space(successors_of(chain(65)), Pruning())
