"""The tensor programs of models: what they cover, what they compute, what is left and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from support.pass_graphs import imported
from torch import Tensor, nn
from torch.nn import functional

from workers import zoo
from workers.graph.cost import flops
from workers.graph.graph import Argument, Graph, Operator, TensorSpec, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.interpreter import run_graph
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs
from workers.graph.units import operator_units, regroup
from workers.tuning.extraction import Extracted, ExtractedPrograms, extract
from workers.tuning.programs import catalog, values

DOCUMENT = Path(__file__).parents[2] / "docs" / "tensor_programs.md"
ZOO = ("squeezenet", "mobilenet_v1", "resnet50", "t5_small", "deepfm")


@cache
def of_zoo(name: str) -> tuple[Graph, ExtractedPrograms]:
    program = torch.export.export(zoo.build(name).eval(), zoo.inputs(name, 1))
    graph, _ = optimise(*import_program(program, 1))
    return graph, extract(graph)


@pytest.mark.parametrize("name", ZOO)
def test_the_programs_of_a_model_have_the_flops_of_its_layers(name: str) -> None:
    graph, found = of_zoo(name)
    operators = {operator.name: operator for operator in graph.operators}
    for program in found.programs:
        for occurrence in program.occurrences:
            costs = [flops(operators[each], graph.values) for each in occurrence.operators]
            assert program.flops == sum(costs)
    layers = [
        operator
        for operator in graph.operators
        if operator.target.split(".")[1] in ("conv2d", "linear", "matmul", "bmm", "mm", "addmm")
    ]
    covered = {
        name
        for program in found.programs
        for occurrence in program.occurrences
        for name in occurrence.operators
    }
    assert layers
    assert {layer.name for layer in layers} <= covered


@pytest.mark.parametrize("name", ZOO)
def test_every_operation_of_a_model_is_covered_once_or_told_of(name: str) -> None:
    graph, found = of_zoo(name)
    told = [each for program in found.programs for o in program.occurrences for each in o.operators]
    told += [each for uncovered in found.uncovered for each in uncovered.operators]
    assert len(told) == len(set(told))
    missing = {operator.name for operator in graph.operators} - set(told)
    assert not sum(flops(o, graph.values) for o in graph.operators if o.name in missing)
    assert sum(map(found.share, (*found.programs, *found.uncovered))) == pytest.approx(1)
    assert found.covered > 0.99


@pytest.mark.parametrize("name", ZOO)
def test_the_document_tells_what_is_found(name: str) -> None:
    _, found = of_zoo(name)
    occurrences = sum(len(program.occurrences) for program in found.programs)
    row = f"| `{name}` | {len(found.programs)} | {occurrences} | {100 * found.covered:.2f} % |"
    assert row in DOCUMENT.read_text()


def test_programs_are_distinct_and_begin_with_the_most_flops() -> None:
    _, found = of_zoo("resnet50")
    totals = [program.total_flops for program in found.programs]
    assert totals == sorted(totals, reverse=True)
    assert len({program.program for program in found.programs}) == len(found.programs)
    # He et al. 2016, Table 1: each of the six parts of conv4 ends with 1×1 filters, 256 to 1024.
    most = max(found.programs, key=lambda program: len(program.occurrences))
    sizes = dict(most.program.sizes)
    assert (len(most.occurrences), sizes["in_channels"], sizes["out_channels"]) == (6, 256, 1024)


class Layers(nn.Module):
    """Every kind of layer that a family covers, with strides, paddings and dilations that differ
    along the dimensions, and biases and ReLUs after some."""

    def __init__(self) -> None:
        super().__init__()
        self.images = nn.ModuleList(
            [
                nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), bias=False),
                nn.Conv2d(4, 4, 3, padding=(0, 2), dilation=(1, 2)),
                nn.Conv2d(4, 8, 3, groups=2),
                nn.Conv2d(4, 8, (1, 3), groups=4),
                nn.ConvTranspose2d(4, 6, 3, (2, 3), (1, 0), (1, 2), groups=2),
            ]
        )
        self.lines = nn.ModuleList(
            [
                nn.Conv1d(4, 6, 3, 2, 1, 2),
                nn.Conv1d(4, 4, 3, groups=4, bias=False),
                nn.ConvTranspose1d(4, 3, 4, 2, 1),
            ]
        )
        self.volumes = nn.ModuleList(
            [nn.Conv3d(2, 4, (1, 2, 3), groups=2), nn.ConvTranspose3d(2, 3, 2, (2, 1, 2))]
        )
        self.dense = nn.Linear(6, 5)
        self.narrow = nn.Linear(6, 5, bias=False)
        self.bias = nn.Parameter(torch.randn(7))
        self.matrix = nn.Parameter(torch.randn(6, 7))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        """``image`` is 1 × 4 × 6 × 6."""
        line, rows = image.flatten(2), image[0]
        volume = image.reshape(1, 2, 2, 6, 6)
        found = [layer(image) for layer in self.images]
        found += [layer(image).relu() for layer in self.images[:2]]
        found += [layer(line) for layer in self.lines]
        found += [self.images[2](rows), self.lines[0](line[0]).relu()]  # without a batch
        found += [layer(volume).relu() for layer in self.volumes]
        found += [self.dense(rows).relu(), self.narrow(rows), rows @ self.matrix]
        found += [torch.addmm(self.bias, rows[0], self.matrix).relu()]
        found += [torch.bmm(rows, rows.sin()), rows[0, 0] @ self.matrix, rows @ self.matrix[:, 0]]
        found += [torch.matmul(image, image.cos())]
        found += [functional.scaled_dot_product_attention(image, image[:, :, :5], image[:, :, :5])]
        return tuple(found)


@cache
def layers() -> tuple[Graph, dict[str, Tensor]]:
    return optimise(*imported(Layers(), (1, 4, 6, 6)))


def computed(graph: Graph, weights: dict[str, Tensor]) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    """Everything that the graph computes of random inputs, by name; with inputs and weights."""
    every = [name for operator in graph.operators for name in operator.outputs]
    alone = operator_units(
        name="every",
        inputs=graph.inputs,
        outputs=every,
        weights=graph.weights,
        values=graph.values,
        operators=graph.operators,
    )
    inputs = random_inputs(graph, 0)
    found = {**weights, **inputs, **run_graph(alone, weights, inputs)}
    return {name: tensor.detach().numpy() for name, tensor in found.items()}


def test_every_program_computes_what_its_operators_do() -> None:
    graph, weights = layers()
    tensors = computed(graph, weights)
    found = extract(graph)
    for extracted in found.programs:
        (output,) = catalog.outputs(extracted.program)
        for occurrence in extracted.occurrences:
            inputs = [
                tensors[name].reshape(spec.shape)
                for name, spec in zip(
                    occurrence.operands, catalog.inputs(extracted.program), strict=True
                )
            ]
            result = tensors[occurrence.result].reshape(output.shape)
            assert values.matches(extracted.program, inputs, [result]) is None, occurrence


def test_every_family_that_models_have_is_found() -> None:
    graph, _ = layers()
    found = extract(graph)
    assert {extracted.program.family for extracted in found.programs} == {
        "conv1d_ncw", "conv2d_nchw", "conv3d_ncdhw", "grouped_conv2d", "depthwise_conv2d",
        "tconv1d_ncw", "tconv2d_nchw", "tconv3d_ncdhw", "dense", "matmul", "batch_matmul",
        "self_attention",
    }  # fmt: skip
    assert all("no family" in uncovered.reason for uncovered in found.uncovered)


def test_a_relu_belongs_to_the_program_where_it_alone_reads_the_result() -> None:
    graph, _ = imported(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), (2, 3))
    linear, relu = graph.operators
    together = regroup(graph, [[linear, relu]])
    assert with_relu(extract(together)) == [(linear.name, relu.name)]
    assert extract(together).programs[0].occurrences[0].result == relu.outputs[0]

    apart = regroup(graph, [[linear], [relu]])
    assert with_relu(extract(apart)) == []
    returned = replace(
        together,
        outputs=(*linear.outputs, *relu.outputs),
        units=(replace(together.units[0], outputs=(*linear.outputs, *relu.outputs)),),
    )
    assert with_relu(extract(returned)) == []


def with_relu(found: ExtractedPrograms) -> list[tuple[str, ...]]:
    """The operators of programs that end with a ReLU."""
    return [
        occurrence.operators
        for program in found.programs
        if dict(program.program.sizes)["relu"]
        for occurrence in program.occurrences
    ]


def called(
    target: str,
    shapes: Sequence[tuple[int, ...]],
    result: tuple[int, ...],
    *rest: Argument,
    dtype: str = "float32",
    **keywords: Argument,
) -> Extracted | str:
    """What is extracted of a graph of one operator: its program, or why there is none."""
    specs = {f"t{number}": TensorSpec(shape, dtype) for number, shape in enumerate(shapes)}
    arguments = (*map(ValueRef, specs), *rest)
    operator = Operator("y", f"aten.{target}", arguments, tuple(keywords.items()), ("y",))
    graph = operator_units(
        name="one",
        inputs=tuple(specs),
        outputs=("y",),
        weights=(),
        values=specs | {"y": TensorSpec(result, dtype)},
        operators=[operator],
    )
    found = extract(graph)
    if found.programs:
        assert not found.uncovered
        assert found.covered == 1
        return found.programs[0]
    (uncovered,) = found.uncovered
    assert uncovered.operators == ("y",)
    assert found.share(uncovered) == 1
    return uncovered.reason


HEADS = (2, 3, 4, 8)


@pytest.mark.parametrize(
    ("reason", "arguments", "keywords"),
    [
        ("float16", ("mm.default", [(2, 3), (3, 4)], (2, 4)), {"dtype": "float16"}),
        ("kind 'pool'", ("max_pool2d.default", [(1, 2, 4, 4)], (1, 2, 2, 2), 2), {}),
        (
            "dilated transposed",
            ("conv_transpose1d.default", [(1, 2, 5), (2, 3, 2)], (1, 3, 7), None, 1, 0, 0, 1, 2),
            {},
        ),
        ("a factor", ("addmm.default", [(4,), (2, 3), (3, 4)], (2, 4)), {"alpha": 2}),
        ("one number for each", ("addmm.default", [(2, 4), (2, 3), (3, 4)], (2, 4)), {}),
        ("added to", ("baddbmm.default", [(5, 2, 4), (5, 2, 3), (5, 3, 4)], (5, 2, 4)), {}),
        ("broadcasts", ("matmul.default", [(2, 3), (5, 3, 4)], (5, 2, 4)), {}),
        ("a mask", ("scaled_dot_product_attention.default", [HEADS] * 3 + [(4, 4)], HEADS), {}),
        (
            "causal",
            ("scaled_dot_product_attention.default", [HEADS] * 3, HEADS, None, 0.0, True),
            {},
        ),
        (
            "dropout",
            ("scaled_dot_product_attention.default", [HEADS] * 3, HEADS, None, 0.1),
            {},
        ),
        (
            "multiplied by 0.5",
            ("scaled_dot_product_attention.default", [HEADS] * 3, HEADS),
            {"scale": 0.5},
        ),
        (
            "share keys or values",
            (
                "scaled_dot_product_attention.default",
                [HEADS, (2, 1, 4, 8), (2, 1, 4, 8)],
                HEADS,
            ),
            {"enable_gqa": True},
        ),
        (
            "at most 2,147,483,647",
            ("mm.default", [(2**16, 2), (2, 2**16)], (2**16, 2**16)),
            {},
        ),
    ],
)
def test_what_no_family_computes_is_told_with_the_reason(
    reason: str,
    arguments: tuple[str, Sequence[tuple[int, ...]], tuple[int, ...]],
    keywords: dict[str, str | Argument],
) -> None:
    told = called(*arguments, **keywords)  # type: ignore[arg-type]
    assert isinstance(told, str)
    assert reason in told


def test_many_matrices_times_one_are_one_product() -> None:
    found = called("matmul.default", [(5, 2, 3), (3, 4)], (5, 2, 4))
    assert isinstance(found, Extracted)
    assert found.program == catalog.program(
        "matmul", {"rows": 10, "inner": 3, "columns": 4, "bias": 0, "relu": 0}
    )


def test_a_scale_that_is_the_usual_one_is_none() -> None:
    found = called("scaled_dot_product_attention.default", [HEADS] * 3, HEADS, scale=8**-0.5)
    assert isinstance(found, Extracted)
    assert found.program.family == "self_attention"


def test_a_model_that_computes_nothing_has_no_programs() -> None:
    graph, _ = imported(nn.Flatten(), (2, 3, 4))
    assert extract(graph) == ExtractedPrograms(0, (), ())
    assert extract(graph).covered == 0
