"""Units exported as ONNX models: ONNX Runtime computes of them what the interpreter does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, numpy_helper
from support.unit_graphs import UNITS, B, W, X, call, convolution, one_unit, unit_graph
from torch import Tensor

from workers import zoo
from workers.graph.bindings import overload, returns_sequence
from workers.graph.exporters.onnx import ExportError, OnnxUnit, export_unit
from workers.graph.exporters.onnx.arrangement import ARRANGEMENT
from workers.graph.exporters.onnx.layers import LAYERS
from workers.graph.exporters.onnx.pointwise import POINTWISE
from workers.graph.graph import Argument, DtypeRef, Graph, Operator, TensorSpec, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.interpreter import run_graph
from workers.graph.operators import KINDS
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs
from workers.graph.units import operator_units, regroup

INT_MAX = 9223372036854775807


@dataclass(frozen=True)
class T:
    """A tensor as an argument: an input, or a weight; of integers, those between -4 and 4."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    weight: bool = False
    positive: bool = False

    def drawn(self, generator: torch.Generator) -> Tensor:
        dtype: torch.dtype = getattr(torch, self.dtype)
        if dtype.is_floating_point:
            tensor = torch.randn(self.shape, generator=generator).to(dtype)
            return tensor.abs() + 0.1 if self.positive else tensor
        low, high = (0, 2) if self.dtype == "bool" or self.positive else (-4, 5)
        return torch.randint(low, high, self.shape, generator=generator).to(dtype)


def x(*shape: int, dtype: str = "float32") -> T:
    return T(shape, dtype)


def w(*shape: int) -> T:
    return T(shape, weight=True)


def p(*shape: int, dtype: str = "float32", weight: bool = False) -> T:
    return T(shape, dtype, weight, positive=True)


def graph_of(
    target: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[Graph, dict[str, Tensor], dict[str, Tensor]]:
    """The operator as a graph of one Unit, its weights, and its inputs."""
    generator = torch.Generator().manual_seed(5)
    inputs: dict[str, Tensor] = {}
    weights: dict[str, Tensor] = {}

    def placed(argument: Any) -> Argument:
        if isinstance(argument, tuple):
            return tuple(placed(item) for item in argument)
        if not isinstance(argument, T):
            return argument
        held, name = (weights, "w") if argument.weight else (inputs, "x")
        name += str(len(held))
        held[name] = argument.drawn(generator)
        return ValueRef(name)

    def torch_value(argument: Argument) -> Any:
        if isinstance(argument, tuple):
            return [torch_value(item) for item in argument]
        if isinstance(argument, DtypeRef):
            return getattr(torch, argument.name)
        return (inputs | weights)[argument.name] if isinstance(argument, ValueRef) else argument

    placed_arguments = tuple(placed(argument) for argument in arguments)
    placed_keywords = {name: placed(argument) for name, argument in keywords.items()}
    found = overload(f"aten.{target}")(
        *map(torch_value, placed_arguments),
        **{name: torch_value(argument) for name, argument in placed_keywords.items()},
    )
    results = list(found) if returns_sequence(f"aten.{target}") else [found]
    names = tuple(f"r{number}" for number in range(len(results)))
    tensors = inputs | weights | dict(zip(names, results, strict=True))
    operator = Operator(
        "op", f"aten.{target}", placed_arguments, tuple(placed_keywords.items()), names
    )
    graph = operator_units(
        name="one operator",
        inputs=tuple(inputs),
        outputs=names[:1] if "norm" in target else names,  # the others are for training
        weights=tuple(weights),
        values={
            name: TensorSpec(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            for name, tensor in tensors.items()
        },
        operators=[operator],
    )
    return graph, weights, inputs


def by_onnx_runtime(
    exported: OnnxUnit,
    weights: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    optimised: Path | None = None,
) -> list[Tensor]:
    """The outputs, with the weights given beside the model; the optimised model goes to a file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if optimised:
        options.optimized_model_filepath = str(optimised)
    held = [
        onnxruntime.OrtValue.ortvalue_from_numpy(weights[name].contiguous().numpy())
        for name in exported.weights
    ]
    options.add_external_initializers([f"weight_{n}" for n in range(len(held))], held)
    session = onnxruntime.InferenceSession(
        exported.model, options, providers=["CPUExecutionProvider"]
    )
    given = {f"input_{n}": inputs[name].numpy() for n, name in enumerate(exported.inputs)}
    names = [f"output_{n}" for n in range(len(exported.outputs))]
    return [torch.from_numpy(array) for array in session.run(names, given)]


def with_weights(exported: OnnxUnit, weights: Mapping[str, Tensor]) -> onnx.ModelProto:
    """The model with its weights inside."""
    model = onnx.load_model_from_string(exported.model)
    held = {f"weight_{n}": weights[name] for n, name in enumerate(exported.weights)}
    for tensor in model.graph.initializer:
        if tensor.name in held:
            tensor.CopyFrom(numpy_helper.from_array(held[tensor.name].numpy(), tensor.name))
    return model


def assert_agrees(
    graph: Graph,
    weights: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    tolerance: float = 1e-5,
) -> OnnxUnit:
    """Tolerance is relative to the largest element; what is not floating-point is equal."""
    whole = regroup(graph, [graph.operators])
    (unit,) = whole.units
    exported = export_unit(whole, unit)
    onnx.checker.check_model(with_weights(exported, weights), full_check=True)
    expected = run_graph(whole, weights, inputs)
    for name, found in zip(
        exported.outputs, by_onnx_runtime(exported, weights, inputs), strict=True
    ):
        assert found.dtype == expected[name].dtype
        if not found.is_floating_point() or not found.numel():
            assert torch.equal(found, expected[name])
            continue
        largest = float(expected[name].abs().max())
        torch.testing.assert_close(found, expected[name], rtol=tolerance, atol=tolerance * largest)
    return exported


Case = tuple[str, tuple[Any, ...], dict[str, Any]]


def case(target: str, *arguments: Any, **keywords: Any) -> Case:
    return target, arguments, keywords


def named(cases: list[Case]) -> list[Any]:
    counts: Counter[str] = Counter()
    parameters = []
    for target, arguments, keywords in cases:
        counts[target] += 1
        name = f"{target}-{counts[target]}"
        parameters.append(pytest.param(target, arguments, keywords, id=name))
    return parameters


F32, I64 = DtypeRef("float32"), DtypeRef("int64")

CASES = [
    # Convolutions and products
    case("conv1d.default", x(2, 4, 9), w(6, 2, 3), w(6), (2,), (1,), (1,), 2),
    case("conv2d.default", x(2, 4, 9, 8), w(6, 4, 3, 3)),
    case("conv2d.default", x(2, 4, 9, 8), w(6, 4, 3, 3), None, (2, 1)),
    case("conv2d.default", x(2, 4, 9, 8), w(6, 2, 3, 3), w(6), (2, 1), (1, 0), (1, 2), 2),
    case("conv2d.default", x(2, 4, 9, 8), w(4, 1, 3, 3), w(4), (1,), (1,), (2,), 4),
    case("conv2d.default", x(2, 4, 9, 8), x(6, 4, 3, 3), padding=(1, 1)),
    case("conv3d.default", x(1, 2, 5, 5, 5), w(3, 2, 3, 3, 3), w(3), (1, 1, 1), (1, 1, 1)),
    case("conv_transpose1d.default", x(1, 4, 6), w(4, 3, 3), w(3), (2,), (1,), (1,)),
    case("conv_transpose2d.input", x(1, 4, 6, 5), w(4, 3, 3, 3), w(6), (2, 1), (1, 0), (1, 0), 2),
    case("conv_transpose3d.input", x(1, 2, 3, 3, 3), w(2, 3, 2, 2, 2), None, (2, 2, 2)),
    case("linear.default", x(5, 8), w(6, 8), w(6)),
    case("linear.default", x(5, 8), w(6, 8)),
    case("linear.default", x(2, 5, 8), w(6, 8), w(6)),
    case("linear.default", x(2, 3, 5, 8), w(6, 8)),
    case("linear.default", x(8), w(6, 8), w(6)),
    case("addmm.default", w(6), x(5, 8), w(8, 6)),
    case("addmm.default", x(5, 6), x(5, 8), w(8, 6), beta=2, alpha=0.5),
    case("mm.default", x(5, 8), w(8, 6)),
    case("bmm.default", x(3, 5, 8), x(3, 8, 6)),
    case("matmul.default", x(2, 3, 5, 8), x(2, 3, 8, 6)),
    case("matmul.default", x(3, 5, 8), x(8)),
    case("matmul.default", x(8), x(2, 8, 3)),
    case("matmul.default", x(2, 1, 5, 8), w(3, 8, 6)),
    case("scaled_dot_product_attention.default", x(2, 3, 5, 8), x(2, 3, 7, 8), x(2, 3, 7, 4)),
    case(
        "scaled_dot_product_attention.default",
        x(2, 3, 5, 8),
        x(2, 3, 7, 8),
        x(2, 3, 7, 8),
        x(5, 7),
        scale=0.5,
    ),
    # Pooling
    case("max_pool1d.default", x(2, 3, 9), (3,), (2,), (1,)),
    case("max_pool2d.default", x(2, 3, 9, 8), (3, 3)),
    case("max_pool2d.default", x(2, 3, 9, 8), (3, 2), (2, 1), (1, 0)),
    case("max_pool2d.default", x(2, 3, 9, 8), (2, 2), (1, 1), (1, 1), (2, 3)),
    case("max_pool2d.default", x(2, 3, 8, 8), (3, 3), (2, 2), (0, 0), (1, 1), True),
    case("max_pool2d.default", x(2, 3, 8, 7), (2, 2), (2, 2), (1, 1), (1, 1), True),
    case("max_pool2d.default", x(2, 3, 9, 9), (3, 3), (2, 2), (0, 0), (1, 1), True),
    case("max_pool2d.default", x(1, 2, 5, 5), (2, 2), (4, 4), (0, 0), (1, 1), True),
    case("max_pool2d.default", x(1, 2, 6, 6), (3,), (4,), (1,), (1,), True),
    case("max_pool3d.default", x(1, 2, 6, 6, 6), (2, 2, 2), (2, 2, 2)),
    case("avg_pool1d.default", x(2, 3, 9), (3,), (2,), (1,)),
    case("avg_pool2d.default", x(2, 3, 9, 8), (3, 3), (1, 1), (1, 1)),
    case("avg_pool2d.default", x(2, 3, 9, 8), (3, 3), (2, 2), (1, 1), False, False),
    case("avg_pool2d.default", x(2, 3, 8, 8), (3, 3), (2, 2), (0, 0), True, True),
    case("avg_pool2d.default", x(2, 3, 8, 8), (3, 3), (2, 2), (1, 1), True, False),
    case("avg_pool2d.default", x(2, 3, 9, 9), (3, 3), (2, 2), (1, 1), True, True),
    case("avg_pool3d.default", x(1, 2, 6, 6, 6), (2, 2, 2)),
    case("adaptive_avg_pool1d.default", x(2, 3, 8), (4,)),
    case("adaptive_avg_pool2d.default", x(2, 3, 8, 6), (1, 1)),
    case("adaptive_avg_pool2d.default", x(2, 3, 8, 6), (4, 2)),
    case("adaptive_avg_pool3d.default", x(1, 2, 4, 4, 4), (1, 1, 1)),
    case("_adaptive_avg_pool2d.default", x(2, 3, 8, 6), (1, 1)),
    case("_adaptive_avg_pool3d.default", x(1, 2, 4, 4, 4), (2, 2, 2)),
    # Normalisation, reductions, softmax
    case(
        "_native_batch_norm_legit_no_training.default",
        x(2, 3, 5, 5),
        w(3),
        w(3),
        w(3),
        p(3, weight=True),
        0.1,
        1e-5,
    ),
    case(
        "_native_batch_norm_legit_no_training.default",
        x(2, 3, 5),
        None,
        None,
        w(3),
        p(3, weight=True),
        0.1,
        1e-3,
    ),
    case("layer_norm.default", x(2, 5, 8), (8,), w(8), w(8), 1e-6, False),
    case("layer_norm.default", x(2, 5, 8), (5, 8), w(5, 8)),
    case("layer_norm.default", x(2, 5, 8), (8,)),
    case("native_layer_norm.default", x(2, 5, 8), (8,), w(8), w(8), 1e-12),
    case("group_norm.default", x(2, 6, 4, 4), 3, w(6), w(6), 1e-5),
    case("group_norm.default", x(2, 6, 4), 2),
    case("mean.default", x(2, 3, 4)),
    case("mean.dim", x(2, 3, 4, 5), (2, 3)),
    case("mean.dim", x(2, 3, 4, 5), (-1, -2), True),
    case("mean.dim", x(2, 3, 4), (-1,), True),
    case("mean.dim", x(2, 3, dtype="int64"), (0,), dtype=F32),
    case("sum.default", x(2, 3, 4)),
    case("sum.dim_IntList", x(2, 3, 4), (1,)),
    case("sum.dim_IntList", x(2, 3, 4), (0, 2), True),
    case("sum.dim_IntList", x(2, 3, 4), None),
    case("sum.dim_IntList", x(2, 3, dtype="int32"), (1,)),
    case("amax.default", x(2, 3, 4), (1,)),
    case("amin.default", x(2, 3, 4), (-1,), True),
    case("softmax.int", x(2, 3, 4), -1),
    case("softmax.int", x(2, 3, 4), 1),
    case("softmax.int", x(2, 3, dtype="int64"), 1, dtype=F32),
    case("_softmax.default", x(2, 3, 4), 0, False),
    case("log_softmax.int", x(2, 3, 4), 1),
    case("_log_softmax.default", x(2, 3, 4), 2, False),
    # Arithmetic
    case("add.Tensor", x(2, 3), x(3)),
    case("add.Tensor", x(2, 3), x(2, 3), alpha=2),
    case("add.Tensor", x(2, 3), 1e-6),
    case("add.Tensor", x(2, 3, dtype="int64"), x(3, dtype="int64"), alpha=-2),
    case("add.Tensor", x(2, 3), x(2, 3, dtype="int64")),
    case("add.Scalar", x(2, 3), 2),
    case("sub.Tensor", x(2, 3), w(3), alpha=0.5),
    case("sub.Scalar", x(2, 3), 2, 3),
    case("rsub.Scalar", x(2, 3, dtype="int64"), 1),
    case("rsub.Scalar", x(2, 3), 1.5, 2),
    case("mul.Tensor", x(2, 3), x(2, 1)),
    case("mul.Tensor", x(2, 3, dtype="int64"), -10000.0),
    case("mul.Tensor", w(3), x(2, 3)),
    case("mul.Tensor", x(2, 3, dtype="float64"), x(2, 3)),
    case("mul.Scalar", x(2, 3), 3),
    case("div.Tensor", x(2, 3), p(2, 3)),
    case("div.Tensor", x(2, 3), 8.0),
    case("div.Tensor", x(2, 3, dtype="int64"), 3),
    case("div.Scalar", x(2, 3), 2),
    case("pow.Tensor_Scalar", x(2, 3), 3),
    case("pow.Tensor_Scalar", p(2, 3), 0.5),
    case("pow.Tensor_Tensor", p(2, 3), x(2, 3)),
    case("pow.Scalar", 2, x(2, 3)),
    case("maximum.default", x(2, 3), x(3)),
    case("minimum.default", x(2, 3), x(3)),
    *(case(f"{name}.default", x(2, 3)) for name in (
        "neg", "abs", "sign", "exp", "sin", "cos", "erf", "floor", "ceil", "round", "square",
        "reciprocal",
    )),
    *(case(f"{name}.default", p(2, 3)) for name in ("log", "sqrt", "rsqrt")),
    case("neg.default", x(2, 3, dtype="int64")),
    case("square.default", x(2, 3, dtype="int64")),
    case("sqrt.default", p(2, 3, dtype="int64")),
    # Activations
    *(case(f"{name}.default", x(4, 5)) for name in (
        "relu", "relu6", "sigmoid", "tanh", "silu", "selu", "mish", "gelu", "hardswish",
        "hardsigmoid", "leaky_relu", "elu", "celu", "softplus", "hardtanh",
    )),
    case("gelu.default", x(4, 5), approximate="tanh"),
    case("leaky_relu.default", x(4, 5), 0.2),
    case("elu.default", x(4, 5), 0.7),
    case("hardtanh.default", x(4, 5), 0.0, 6.0),
    case("clamp.default", x(4, 5), -0.5, 0.5),
    case("clamp.default", x(4, 5), None, 0.5),
    case("clamp.default", x(4, 5, dtype="int64"), -1),
    case("clamp_min.default", x(4, 5), 0),
    case("clamp_max.default", x(4, 5), 0.5),
    case("prelu.default", x(2, 3, 4), w(3)),
    case("prelu.default", x(2, 3, 4), w(1)),
    # Comparisons and choices
    *(case(f"{name}.Tensor", x(4, 5, dtype="int64"), x(5, dtype="int64")) for name in (
        "eq", "ne", "gt", "ge", "lt", "le",
    )),
    *(case(f"{name}.Scalar", x(4, 5, dtype="int64"), 1) for name in (
        "eq", "ne", "gt", "ge", "lt", "le",
    )),
    case("gt.Scalar", x(4, 5, dtype="int64"), 0.5),
    case("lt.Tensor", x(4, 5), x(4, 5, dtype="int64")),
    case("eq.Scalar", x(4, 5, dtype="bool"), True),
    *(case(f"logical_{name}.default", x(4, 5, dtype="bool"), x(5, dtype="bool")) for name in (
        "and", "or", "xor",
    )),
    case("logical_not.default", x(4, 5, dtype="int64")),
    case("where.self", x(4, 5, dtype="bool"), x(4, 5), x(5)),
    case("where.ScalarOther", x(4, 5, dtype="bool"), x(4, 5), 2),
    case("where.ScalarSelf", x(4, 5, dtype="bool"), 2.5, x(4, 5)),
    case("where.Scalar", x(4, 5, dtype="bool"), 2.5, 1.0),
    case("masked_fill.Scalar", x(4, 5), x(4, 5, dtype="bool"), -1e9),
    case("masked_fill.Tensor", x(4, 5), x(5, dtype="bool"), x()),
    case("_to_copy.default", x(4, 5, dtype="int64"), dtype=F32),
    case("_to_copy.default", x(4, 5), dtype=I64),
    case("_to_copy.default", x(4, 5), dtype=DtypeRef("bool")),
    case("_to_copy.default", x(4, 5)),
    # Arrangement
    case("view.default", x(4, 6), (2, -1)),
    case("reshape.default", x(4, 6), (2, 2, 6)),
    case("reshape.default", x(1, 1), ()),
    case("reshape.default", x(0, 6), (3, 0)),
    case("_unsafe_view.default", x(4, 6), (24,)),
    case("flatten.using_ints", x(2, 3, 4), 1),
    case("unflatten.int", x(2, 6), 1, (3, 2)),
    case("squeeze.default", x(1, 3, 1)),
    case("squeeze.dim", x(2, 1, 3), 1),
    case("squeeze.dim", x(2, 1, 3), 0),
    case("squeeze.dims", x(1, 2, 1), (0, 2)),
    case("unsqueeze.default", x(2, 3), 1),
    case("unsqueeze.default", x(2, 3), -1),
    case("permute.default", x(2, 3, 4), (2, 0, -2)),
    case("permute.default", x(), ()),
    case("transpose.int", x(2, 3, 4), 1, -1),
    case("transpose.int", x(3), 0, -1),
    case("t.default", x(2, 3)),
    case("t.default", x(3)),
    case("expand.default", x(2, 1, 3), (4, -1, 5, 3)),
    case("broadcast_to.default", x(3), (2, 3)),
    case("slice.Tensor", x(4, 6), 1, 0, 3),
    case("slice.Tensor", x(4, 6), 1, 2, INT_MAX),
    case("slice.Tensor", x(4, 6), -1, -4, -1, 2),
    case("slice.Tensor", x(4, 6), 0, None, None, 3),
    case("slice.Tensor", x(4, 6), 0, 0, INT_MAX),
    case("slice.Tensor", x(4, 6), 0, 3, 1),
    case("narrow.default", x(4, 6), 1, 2, 3),
    case("select.int", x(2, 3, 4), 1, 0),
    case("select.int", x(2, 3, 4), -1, -1),
    case("split.Tensor", x(2, 7), 3, 1),
    case("split.Tensor", x(4, 2), 2),
    case("split.Tensor", x(2, 3), 3, 1),
    case("split_with_sizes.default", x(2, 7), (2, 4, 1), -1),
    case("chunk.default", x(2, 7), 3, 1),
    case("unbind.int", x(2, 3, 4), 1),
    case("unbind.int", x(1, 3)),
    case("cat.default", (x(2, 3), x(2, 4)), 1),
    case("cat.default", (x(2, 3), w(1, 3), x(2, 3))),
    case("cat.default", (x(2, 3), x(2, 3, dtype="int64")), -1),
    case("cat.default", (x(0), x(2, 3)), 1),
    case("stack.default", (x(2, 3), x(2, 3)), 2),
    case("stack.default", (x(2, 3), x(2, 3)), -2),
    case("embedding.default", w(7, 4), p(2, 3, dtype="int64")),
    case("embedding.default", w(7, 4), p(2, 3, dtype="int32"), 0),
    case("index_select.default", x(2, 3), 1, p(5, dtype="int64")),
    case("repeat.default", x(2, 3), (4, 1, 2)),
    case("constant_pad_nd.default", x(2, 3, 4), (1, 2, 0, 3), 0.5),
    case("constant_pad_nd.default", x(2, 3, 4), (-1, 1)),
    case("pixel_shuffle.default", x(2, 8, 3, 4), 2),
    *(case(f"{name}.default", x(2, 3)) for name in (
        "clone", "contiguous", "alias", "detach", "lift_fresh_copy",
    )),
    case("dropout.default", x(2, 3), 0.1, False),
]  # fmt: skip


@pytest.mark.parametrize(("target", "arguments", "keywords"), named(CASES))
def test_an_operator(target: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    assert_agrees(*graph_of(target, arguments, keywords))


def test_every_operator_that_is_described_is_allowed_and_among_the_cases() -> None:
    described = [*LAYERS, *POINTWISE, *ARRANGEMENT]
    assert len(set(described)) == len(described)
    assert set(described) <= set(KINDS)
    assert set(described) == {f"aten.{target}" for target, _, _ in CASES}


def test_a_mask_of_attention_says_what_counts() -> None:
    target = "scaled_dot_product_attention.default"
    arguments = (x(1, 2, 3, 8), x(1, 2, 5, 8), x(1, 2, 5, 8), x(3, 5, dtype="bool"))
    graph, weights, inputs = graph_of(target, arguments, {})
    inputs["x3"][0] = False  # nothing at all
    assert_agrees(graph, weights, inputs)


WITHOUT_COUNTERPART = [
    (case("cumsum.default", x(2, 3), 1), "not among those"),
    (case("conv2d.default", x(4, 9, 8), w(6, 4, 3, 3)), "no batch dimension"),
    (case("max_pool2d.default", x(4, 9, 8), (2,)), "no batch dimension"),
    (case("adaptive_avg_pool2d.default", x(4, 9, 8), (1, 1)), "no batch dimension"),
    (case("avg_pool2d.default", x(2, 3, 8, 8), (3, 3), (2, 2), (1, 1), True), "counts padding"),
    (
        case("avg_pool2d.default", x(2, 3, 8, 8), (2, 2), (2, 2), (0, 0), False, True, 3),
        "divisor_override = 3",
    ),
    (case("adaptive_avg_pool2d.default", x(2, 3, 8, 6), (3, 2)), "windows differ"),
    (case("elu.default", x(2, 3), 1.0, 2.0), "scale = 2.0"),
    (case("softplus.default", x(2, 3), 2), "beta"),
    (case("add.Tensor", x(2, dtype="bool"), x(2, dtype="bool")), "booleans"),
    (case("amax.default", x(2, dtype="bool"), (0,)), "booleans"),
    (case("relu.default", x(2, 3, dtype="int64")), "int64"),
    (case("dropout.default", x(2, 3), 0.5, True), "at random"),
    (
        case("scaled_dot_product_attention.default", *[x(1, 2, 3, 8)] * 3, is_causal=True),
        "is_causal = True",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("without", "reason"), WITHOUT_COUNTERPART, ids=[c[0][0] for c in WITHOUT_COUNTERPART]
)
def test_what_has_no_counterpart_is_named(without: Case, reason: str) -> None:
    graph, _, _ = graph_of(*without)
    message = rf"operator 'op' \(aten\.{re.escape(without[0])}\) cannot be .*{re.escape(reason)}"
    with pytest.raises(ExportError, match=message):
        export_unit(graph, graph.units[0])


def test_what_only_training_needs_cannot_be_returned() -> None:
    arguments = (x(2, 5, 8), (8,), w(8), w(8), 1e-12)
    graph, _, _ = graph_of("native_layer_norm.default", arguments, {})
    wanted = operator_units(
        name="statistics",
        inputs=graph.inputs,
        outputs=("r0", "r1"),
        weights=graph.weights,
        values=graph.values,
        operators=graph.operators,
    )
    with pytest.raises(ExportError, match="output 'r1' of unit 'op'"):
        export_unit(wanted, wanted.units[0])


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_of_several_operators(name: str) -> None:
    graph, weights = unit_graph(name)
    assert_agrees(graph, weights, random_inputs(graph, 2))


@pytest.mark.parametrize("name", ["squeezenet", "mobilenet_v1", "nasbench_0", "resnet18"])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_network(name: str) -> None:
    graph, weights = optimise(*import_program(zoo.program(name, 1), 1))
    assert_agrees(graph, weights, random_inputs(graph, 1), 1e-4)


def test_parameters_stand_as_they_are_first_read_and_are_stated() -> None:
    operators = [
        call("a", "mul.Tensor", ValueRef("y"), B),
        call("c", "add.Tensor", ValueRef("a"), X),
        call("d", "mul.Tensor", ValueRef("c"), W),
    ]
    graph, weights = one_unit(
        operators, dict.fromkeys("xyacd", (2, 3)) | dict.fromkeys("wb", (3,)), ("d", "a")
    )
    exported = assert_agrees(graph, weights, random_inputs(graph, 1))
    assert (exported.inputs, exported.weights) == (("y", "x"), ("b", "w"))
    assert exported.outputs == graph.units[0].outputs == ("a", "d")
    model = onnx.load_model_from_string(exported.model)
    for stated in [*model.graph.input, *model.graph.output]:
        assert [d.dim_value for d in stated.type.tensor_type.shape.dim] == [2, 3]
        assert stated.type.tensor_type.elem_type == TensorProto.FLOAT
    assert [value.name for value in model.graph.input] == ["input_0", "input_1"]
    assert [value.name for value in model.graph.output] == ["output_0", "output_1"]
    for tensor in model.graph.initializer:
        assert tensor.data_location == TensorProto.EXTERNAL
        assert list(tensor.dims) == [3]
        assert not tensor.raw_data


def test_a_value_may_be_returned_as_it_came_and_twice() -> None:
    operators = [
        call("a", "clone.default", X),
        call("c", "relu.default", X),
        call("d", "detach.default", ValueRef("c")),
        call("e", "alias.default", ValueRef("c")),
    ]
    graph, weights = one_unit(operators, dict.fromkeys("xacde", (2, 3)), tuple("acde"))
    assert_agrees(graph, weights, random_inputs(graph, 1))


@pytest.mark.parametrize(
    ("size", "kept", "kinds"),
    [
        (7, (), ["Gather", "Gather"]),
        (7, ("i",), ["Less", "Add", "Where", "Gather", "Gather"]),
        (5, (), ["Less", "Add", "Where", "Gather", "Gather"]),
    ],
)
def test_a_gather_counts_from_the_end_by_itself(
    size: int, kept: tuple[str, ...], kinds: list[str]
) -> None:
    """Unless the size added to indices below zero is another than that of what they index, or the
    sums are wanted themselves."""
    operators = [
        call("l", "lt.Scalar", X, 0),
        call("s", "add.Tensor", X, size),
        call("i", "where.self", ValueRef("l"), ValueRef("s"), X),
        call("e", "embedding.default", W, ValueRef("i")),
        call("t", "index_select.default", W, 0, ValueRef("i")),
    ]
    shapes = {"x": (3,), "l": (3,), "s": (3,), "i": (3,), "e": (3, 4), "t": (3, 4), "w": (7, 4)}
    types = {"x": "int64", "l": "bool", "s": "int64", "i": "int64"}
    values = {n: TensorSpec(shape, types.get(n, "float32")) for n, shape in shapes.items()}
    apart = operator_units(
        name="g", inputs=("x",), outputs=("e", "t", *kept), weights=("w",), values=values,
        operators=operators,
    )  # fmt: skip
    graph = regroup(apart, [operators])
    weights = {"w": torch.randn(7, 4)}
    exported = assert_agrees(graph, weights, {"x": torch.tensor([0, 4, -size])})
    model = onnx.load_model_from_string(exported.model)
    assert [node.op_type for node in model.graph.node] == kinds


@pytest.mark.parametrize(
    ("square", "returned", "kinds"),
    [
        (call("q", "mul.Tensor", X, X), ("s",), ["ReduceSumSquare"]),
        (call("q", "square.default", X), ("s",), ["ReduceSumSquare"]),
        (call("q", "pow.Tensor_Scalar", X, 2), ("s",), ["ReduceSumSquare"]),
        (call("q", "pow.Tensor_Scalar", X, 3), ("s",), ["Pow", "ReduceSum"]),
        (call("q", "mul.Tensor", X, B), ("s",), ["Mul", "ReduceSum"]),
        (call("q", "mul.Tensor", X, X), ("s", "q"), ["Mul", "ReduceSum"]),
    ],
)
def test_a_sum_of_squares_is_one_kernel(
    square: Operator, returned: tuple[str, ...], kinds: list[str]
) -> None:
    """Unless the squares are wanted themselves."""
    operators = [square, call("s", "sum.dim_IntList", ValueRef("q"), (1,))]
    shapes = {"x": (2, 3, 4), "b": (4,), "q": (2, 3, 4), "s": (2, 4)}
    graph, weights = one_unit(operators, shapes, returned)
    exported = assert_agrees(graph, weights, random_inputs(graph, 1))
    model = onnx.load_model_from_string(exported.model)
    assert [node.op_type for node in model.graph.node] == kinds


def test_equal_structures_are_equal_models() -> None:
    def exported(prefix: str, factor: float) -> bytes:
        a, b, c = (f"{prefix}{letter}" for letter in "abc")
        operators = [
            Operator(b, "aten.mul.Tensor", (ValueRef(a), factor), (), (b,)),
            Operator(c, "aten.add.Tensor", (ValueRef(b), factor), (), (c,)),
        ]
        graph = operator_units(
            name=prefix,
            inputs=(a,),
            outputs=(c,),
            weights=(),
            values=dict.fromkeys((a, b, c), TensorSpec((2, 3), "float32")),
            operators=operators,
        )
        whole = regroup(graph, [operators])
        return export_unit(whole, whole.units[0]).model

    assert exported("first", 2.0) == exported("second", 2.0)
    assert exported("first", 2.0) != exported("first", 2.5)
    model = onnx.load_model_from_string(exported("first", 2.0))
    assert len(model.graph.initializer) == 1


def test_weights_given_beside_a_model_are_constants_to_the_runtime(tmp_path: Path) -> None:
    """It chooses the same kernels, and layouts, as for weights within."""
    graph, weights = convolution(channels=32)
    exported = export_unit(graph, graph.units[0])
    inputs = random_inputs(graph, 1)
    beside, within = tmp_path / "beside.onnx", tmp_path / "within.onnx"
    by_onnx_runtime(exported, weights, inputs, beside)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(within)
    onnxruntime.InferenceSession(
        with_weights(exported, weights).SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
    )
    kinds = [
        [(node.op_type, node.domain) for node in onnx.load(path).graph.node]
        for path in (beside, within)
    ]
    assert kinds[0] == kinds[1]
    assert ("Relu", "") not in kinds[0]  # it became a part of the convolution


def test_a_root_mean_square_normalisation_is_one_kernel(tmp_path: Path) -> None:
    operators = [
        call("s", "square.default", X),
        call("m", "mean.dim", ValueRef("s"), (-1,), True),
        call("a", "add.Tensor", ValueRef("m"), 1e-6),
        call("r", "rsqrt.default", ValueRef("a")),
        call("n", "mul.Tensor", X, ValueRef("r")),
        call("o", "mul.Tensor", W, ValueRef("n")),
    ]
    shapes = dict.fromkeys("xsno", (1, 6, 32)) | dict.fromkeys("mar", (1, 6, 1)) | {"w": (32,)}
    graph, weights = one_unit(operators, shapes, ("o",))
    inputs = random_inputs(graph, 1)
    exported = assert_agrees(graph, weights, inputs)
    by_onnx_runtime(exported, weights, inputs, tmp_path / "optimised.onnx")
    (node,) = onnx.load(tmp_path / "optimised.onnx").graph.node
    assert node.op_type == "SimplifiedLayerNormalization"
