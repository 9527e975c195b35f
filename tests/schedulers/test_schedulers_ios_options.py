"""GenerateStage: the ways in which a stage may be run, of which the search takes the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from hashlib import blake2b

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.graphs import Dag, dags, graph_of, wide
from support.oracles import FakeClockOracle, longest_group
from support.pass_graphs import call, graph_of_calls
from test_schedulers_ios import UNBOUNDED, best_of_all

from workers.graph.bitsets import bits
from workers.graph.graph import Graph, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise
from workers.graph.signature import signature
from workers.schedulers.endings import Pruning
from workers.schedulers.ios import IosScheduler
from workers.schedulers.ios.options import (
    Strategies,
    Threads,
    make_options,
    mergeable_stages,
    stage_of,
)
from workers.schedulers.ios.parts import Part, divide
from workers.schedulers.ios.threads import allotments, for_one_group
from workers.schedules.mergeable import mergeable
from workers.schedules.schedule import Stage
from workers.zoo.inception_v3 import Grid8
from workers.zoo.squeezenet import Fire

EVERYTHING = Pruning(64, 64)
STRATEGIES: tuple[Strategies, ...] = ("parallel", "merge", "both")


def parts_of(graph: Graph, pruning: Pruning = EVERYTHING) -> tuple[Part, ...]:
    return divide(graph, pruning, "paper", 10**6).parts


def names_of(graph: Graph, part: Part, mask: int) -> tuple[str, ...]:
    return tuple(graph.units[part.occurrences[0][unit]].name for unit in bits(mask))


def module_graph(module: torch.nn.Module, *shape: int) -> Graph:
    program = torch.export.export(module.eval(), (torch.zeros(shape),))
    return optimise(*import_program(program, 1, "block"))[0]


def convolutions(size: int, stride: int, branches: list[tuple[int, int]]) -> Graph:
    """Convolutions of (kernel, padding) over one input of one axis, in one block."""
    x, calls, weights, shapes = ValueRef("x"), [], {}, {}
    for number, (kernel, padding) in enumerate(branches):
        calls.append(
            call(
                f"c{number}",
                "conv1d.default",
                x,
                ValueRef(f"w{number}"),
                None,
                (stride,),
                (padding,),
            )
        )
        weights[f"w{number}"] = (number + 1, 2, kernel)
        shapes[f"c{number}"] = (1, number + 1, (size + 2 * padding - kernel) // stride + 1)
    return graph_of_calls(
        calls,
        outputs=[operator.name for operator in calls],
        inputs={"x": (1, 2, size)},
        weights=weights,
        shapes=shapes,
    )[0]


def products() -> Graph:
    """Linear layers and products with a weight, two of them with an activation, on two inputs."""
    x, y, v, w, b = map(ValueRef, "xyvwb")
    calls = [
        call("a", "linear.default", x, v),
        call("c", "linear.default", x, w, b),
        call("d", "linear.default", y, w),
        call("e", "mm.default", x, v),
        call("f", "mm.default", x, w),
        call("g", "mm.default", y, w),
        call("h", "linear.default", y, v, b),
    ]
    return graph_of_calls(
        calls,
        outputs=[operator.name for operator in calls],
        inputs=dict.fromkeys("xy", (4, 4)),
        weights={"v": (4, 4), "w": (4, 4), "b": (4,)},
    )[0]


def check_merged_options(graph: Graph, pruning: Pruning = EVERYTHING) -> int:
    """Merged options appear exactly where ``mergeable`` says so of the stage; how many."""
    count = 0
    for part in parts_of(graph, pruning):
        found = make_options(graph, part)
        merged = {
            int(stage)
            for stage, way in zip(found.stage, found.way, strict=True)
            if found.ways[way].strategy == "merge"
        }
        for index, mask in enumerate(part.space.stages):
            admitted = mergeable(graph, names_of(graph, part, int(mask))) is None
            assert (index in merged) == admitted, names_of(graph, part, int(mask))
        count += len(merged)
    return count


def test_a_fire_module_merges_its_expansions() -> None:
    assert check_merged_options(module_graph(Fire(8, 4, 6, "convolution"), 1, 8, 9, 9)) == 1


def test_the_last_block_of_inception_merges_heads_and_pairs() -> None:
    """Any two or all three of the 1 x 1 convolutions, and 1 x 3 with 3 x 1 twice (Figure 10)."""
    graph = module_graph(Grid8(32), 1, 32, 8, 8)
    assert check_merged_options(graph, Pruning(3, 8)) == 4 + 2


def test_products_that_share_an_input_merge() -> None:
    """On x the two linear layers, and the two products; on y the two linear layers."""
    assert check_merged_options(products()) == 3


@settings(deadline=None, max_examples=60)
@given(
    st.integers(5, 9),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=2, max_size=6),
)
@example(7, 3, [(1, 0), (1, 1), (3, 1)])  # together, but not the first two alone
@example(8, 1, [(3, 1)] * 6)
def test_convolutions_merge_by_their_frames(
    size: int, stride: int, branches: list[tuple[int, int]]
) -> None:
    check_merged_options(convolutions(size, stride, branches))


def test_a_set_may_merge_although_two_of_it_cannot() -> None:
    graph = convolutions(7, 3, [(1, 0), (1, 1), (3, 1)])
    (part,) = parts_of(graph)
    masks = part.space.stages[mergeable_stages(graph, part)]
    assert masks.tolist() == [0b101, 0b110, 0b111]


def test_ways_by_strategy() -> None:
    """u1, u2 and u3 read u0; u4 joins them."""
    graph = graph_of(wide(3))
    ways: dict[Strategies, set[tuple[int, str]]] = {}
    for strategies in STRATEGIES:
        ways[strategies] = set()
        for part in parts_of(graph):
            found = make_options(graph, part, strategies)
            assert (found.stage[1:] >= found.stage[:-1]).all()
            for stage, way in zip(found.stage, found.way, strict=True):
                names = names_of(graph, part, int(part.space.stages[stage]))
                ways[strategies].add((" ".join(names), found.ways[way].strategy))
    alone = {(name, "concurrent") for name in ("u0", "u1", "u2", "u3", "u4")}
    merges = {(units, "merge") for units in ("u1 u2", "u1 u3", "u2 u3", "u1 u2 u3")}
    assert ways["merge"] == alone | merges
    assert ways["both"] == ways["parallel"] | merges
    assert not merges & ways["parallel"]


def random_latency(seed: int, graph: Graph) -> Callable[[Stage], float]:
    """As ``support.oracles.random_latency``, but apart for each way of running a stage."""

    def latency_of(stage: Stage) -> float:
        positions = sorted(graph.index[name] for name in stage.units)
        text = f"{seed}:{signature(graph, positions)}:{stage.strategy}:{stage.threads}"
        return float(int.from_bytes(blake2b(text.encode(), digest_size=2).digest()) % 997 + 1)

    return cache(latency_of)


def best_way(
    graph: Graph,
    strategies: Strategies,
    latency_of: Callable[[Stage], float],
    parallelism: int = 1,
) -> Callable[[Stage], float]:
    """Lines 26 to 36 of Algorithm 1 as they are written, and all allotments of threads."""

    def ways(stage: Stage) -> Iterator[Stage]:
        if strategies != "merge" or len(stage.units) == 1:
            yield stage
            groups = [[graph.unit(name) for name in group] for group in stage.groups]
            flops = np.array([[sum(unit.flops for unit in group) for group in groups]])
            bytes_moved = np.array([[sum(unit.bytes_moved for unit in group) for group in groups]])
            own = [max(1, parallelism // len(groups))] * len(groups)
            for threads in allotments(flops, bytes_moved, parallelism)[:, 0].tolist():
                if threads != own:
                    yield replace(stage, threads=tuple(threads))
        if strategies != "parallel" and mergeable(graph, stage.units) is None:
            yield replace(stage, strategy="merge")
            for count in for_one_group(parallelism):
                yield replace(stage, strategy="merge", threads=(count,))

    return cache(lambda stage: min(map(latency_of, ways(stage)), default=math.inf))


@settings(deadline=None, max_examples=40)
@given(dags(max_units=6), st.integers(0, 10**6), st.sampled_from(STRATEGIES), st.integers(1, 5))
@example(wide(4), 0, "both", 4)
@example(wide(4), 1, "merge", 1)
def test_the_optimum_of_all_schedules_and_ways(
    dag: Dag, seed: int, strategies: Strategies, parallelism: int
) -> None:
    graph = graph_of(dag)
    latency_of = random_latency(seed, graph)
    oracle = FakeClockOracle(latency_of, parallelism=parallelism)
    result = IosScheduler(strategies=strategies, **UNBOUNDED).schedule(graph, oracle)
    best = best_way(graph, strategies, latency_of, parallelism)
    assert result.predicted_ms == best_of_all(graph, dag, best)
    assert result.predicted_ms == sum(latency_of(stage) for stage in result.schedule.stages)


def test_plainer_ways_come_first() -> None:
    graph = graph_of(wide(3))
    part = next(part for part in parts_of(graph) if part.space.units > 1)
    found = make_options(graph, part, parallelism=4)
    stage = int(np.flatnonzero(mergeable_stages(graph, part))[0])
    ways = [found.ways[way] for way in found.way[found.stage == stage]]
    assert [(way.strategy, way.threads) for way in ways] == [
        ("concurrent", ()),
        ("concurrent", (1, 1)),
        ("merge", ()),
        ("merge", (2,)),
        ("merge", (1,)),
    ]


@settings(deadline=None, max_examples=30)
@given(dags(max_units=8), st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 3))
def test_both_is_never_slower_than_either(dag: Dag, seed: int, r: int, s: int) -> None:
    graph = graph_of(dag)
    latency: dict[str, float] = {}
    for strategies in STRATEGIES:
        oracle = FakeClockOracle(random_latency(seed, graph))
        found = IosScheduler(r, s, strategies).schedule(graph, oracle)
        assert found.predicted_ms is not None
        latency[strategies] = found.predicted_ms
    assert latency["both"] <= min(latency["parallel"], latency["merge"])


def test_without_anything_to_merge_ios_merge_is_sequential() -> None:
    """As the paper says of RandWire and NASNet. Here no two Units read the same."""
    graph = graph_of(((), (0,), (0, 1), (1, 2), (0, 2), (3, 4)))
    found = IosScheduler(strategies="merge").schedule(graph, FakeClockOracle(longest_group))
    assert [stage.units for stage in found.schedule.stages] == [(u.name,) for u in graph.units]


@pytest.mark.parametrize("parallelism", [1, 8])
def test_equal_latencies_leave_a_stage_as_plain_as_it_is(parallelism: int) -> None:
    graph = graph_of(wide(3))
    oracle = FakeClockOracle(longest_group, parallelism=parallelism)
    found = IosScheduler().schedule(graph, oracle)
    assert {(stage.strategy, stage.threads) for stage in found.schedule.stages} == {
        ("concurrent", ())
    }


@settings(deadline=None, max_examples=30)
@given(dags(max_units=7), st.integers(2, 9))
@example(wide(5), 6)
def test_every_way_of_a_stage_is_there_once(dag: Dag, parallelism: int) -> None:
    """Its threads are none or other ones than the device's, one for each group."""
    graph = graph_of(dag)
    for part in parts_of(graph):
        found = make_options(graph, part, "parallel", parallelism)
        pairs = list(zip(found.stage.tolist(), found.way.tolist(), strict=True))
        assert pairs == sorted(set(pairs))
        assert len(set(found.ways)) == len(found.ways)
        for option, (_, way) in enumerate(pairs):
            stage = stage_of(graph, part, found, option, part.occurrences[0])
            own = (max(1, parallelism // len(stage.groups)),) * len(stage.groups)
            assert found.ways[way].threads != own
            assert len(stage.threads) in (0, len(stage.groups))
            assert len(stage.groups) < parallelism or not stage.threads


@pytest.mark.parametrize("threads", ["searched", "device"])
def test_threads_are_searched_on_devices_of_several_only(threads: Threads) -> None:
    graph = graph_of(wide(3))
    for part in parts_of(graph):
        for parallelism in (1, 4):
            found = make_options(graph, part, "both", parallelism, threads)
            searched = any(way.threads for way in found.ways)
            assert searched == (threads == "searched" and parallelism > 1)
