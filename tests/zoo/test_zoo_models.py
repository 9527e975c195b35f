"""Inception-v3 and SqueezeNet: the architectures, blocks and operations that were published."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest
import torch
from schedulers.ios_table1 import INCEPTION_V3, SQUEEZENET, Table1Block

from workers import zoo
from workers.graph.blocks import Block, blocks
from workers.graph.graph import Graph
from workers.graph.importers.pt2 import import_program, run_original
from workers.graph.interpreter import run_graph
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs
from workers.graph.signature import signature


@dataclass(frozen=True)
class Expected:
    """``parameters`` excludes the statistics of batch normalisation; ``gflops`` counts a
    multiplication and an addition as two; ``table1_blocks`` is how often the block of the IOS
    paper's Table 1 occurs."""

    parameters: int
    statistics: int
    gflops: float
    side: int
    convolutions: int
    table1: Table1Block
    table1_blocks: int


# SqueezeNet: 1,248,424 parameters of version 1.0 (Iandola et al. 2016) and those of four 1x1 bypass
# convolutions, 96 -> 128, 128 -> 256, 256 -> 384 and 384 -> 512.
# Inception-v3: 27,161,264 of the published model without its auxiliary classifier's 3,326,696.
EXPECTED = {
    "squeezenet": Expected(
        parameters=1_248_424 + (97 * 128 + 129 * 256 + 257 * 384 + 385 * 512),
        statistics=0,
        gflops=1.65 + 0.7,
        side=224,
        convolutions=26 + 4,
        table1=SQUEEZENET,
        table1_blocks=4,
    ),
    "inception_v3": Expected(
        parameters=27_161_264 - 3_326_696,
        statistics=2 * 17_216,
        gflops=11.4,
        side=299,
        convolutions=94,
        table1=INCEPTION_V3,
        table1_blocks=2,
    ),
}


@dataclass(frozen=True)
class Model:
    expected: Expected
    graph: Graph
    weights: dict[str, torch.Tensor]
    original: torch.Tensor


@cache
def imported(name: str) -> Model:
    program = zoo.program(name, 1)
    graph, weights = import_program(program, 1, name)
    (original,) = run_original(program, 1, [3])
    return Model(EXPECTED[name], graph, weights, original["output_0"])


@pytest.fixture(params=EXPECTED)
def model(request: pytest.FixtureRequest) -> Model:
    return imported(request.param)


def test_the_architecture_is_as_published(model: Model) -> None:
    held = sum(weight.numel() for weight in model.weights.values())
    assert held == model.expected.parameters + model.expected.statistics
    assert model.graph.values[model.graph.inputs[0]].shape == (1, 3, *[model.expected.side] * 2)
    assert model.graph.values[model.graph.outputs[0]].shape == (1, 1000)
    kinds = [unit.kind for unit in model.graph.units]
    assert kinds.count("conv") == model.expected.convolutions
    assert model.graph.flops / 1e9 == pytest.approx(model.expected.gflops, rel=0.1)


def test_activations_keep_their_scale(model: Model) -> None:
    assert model.original.isfinite().all()
    assert 0.01 < model.original.std() < 1000


def test_optimising_keeps_what_it_computes(model: Model) -> None:
    graph, weights = optimise(model.graph, model.weights)
    (found,) = run_graph(graph, weights, random_inputs(graph, 3)).values()
    scale = float(model.original.abs().max())
    assert (found - model.original).abs().max() < 1e-5 * scale


def test_the_ios_paper_s_block_is_among_its_blocks(model: Model) -> None:
    graph, _ = optimise(model.graph, model.weights)
    wanted = _shape(model.expected.table1.successors)
    found = [_shape(_successors(graph, block)) for block in blocks(graph)]
    assert found.count(wanted) == model.expected.table1_blocks


def test_batch_normalisation_and_activations_are_fused(model: Model) -> None:
    graph, _ = optimise(model.graph, model.weights)
    kinds = {unit.kind for unit in graph.units}
    assert kinds <= {"conv", "pool", "concat", "linear", "elementwise", "reduction"}
    assert [unit.kind for unit in graph.units].count("conv") == model.expected.convolutions


def test_modules_that_repeat_have_equal_signatures() -> None:
    model = imported("inception_v3")
    graph, _ = optimise(model.graph, model.weights)
    grid17 = [block for block in blocks(graph) if len(block.positions) == 12]
    signatures = [signature(graph, block.positions) for block in grid17]
    # 128, 160, 160 and 192 channels inside.
    assert len(signatures) == 4
    assert signatures[1] == signatures[2]
    assert len(set(signatures)) == 3


def _successors(graph: Graph, block: Block) -> tuple[tuple[int, ...], ...]:
    local = {position: number for number, position in enumerate(block.positions)}
    return tuple(
        tuple(local[after] for after in graph.successors[position] if after in local)
        for position in block.positions
    )


def _shape(successors: tuple[tuple[int, ...], ...]) -> list[object]:
    """A form that is equal for DAGs that differ only in their Units' order: for each Unit what
    follows it, as a tree."""

    def tree(unit: int) -> tuple[object, ...]:
        return tuple(sorted((tree(after) for after in successors[unit]), key=repr))

    return sorted((tree(unit) for unit in range(len(successors))), key=repr)
