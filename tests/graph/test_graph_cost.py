"""What operators cost, checked by hand and against torch's own counter."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from workers import zoo
from workers.graph.cost import bytes_of, flops
from workers.graph.graph import Argument, GraphError, Operator, TensorSpec, ValueRef
from workers.graph.importers.pt2 import import_program

Shape = tuple[int, ...]


def cost_of(
    target: str, operands: list[Shape], result: Shape, rest: tuple[Argument, ...] = ()
) -> int:
    """Operations of ``target(*operands, *rest)`` with float32 tensors of these shapes."""
    values = {f"t{i}": TensorSpec(shape, "float32") for i, shape in enumerate(operands)}
    arguments = (*(ValueRef(name) for name in values), *rest)
    values["y"] = TensorSpec(result, "float32")
    return flops(Operator("y", f"aten.{target}", arguments, (), ("y",)), values)


@pytest.mark.parametrize(
    ("target", "operands", "rest", "result", "expected"),
    [
        # 8 filters of 3·3·3 on 4·4 positions
        ("conv2d.default", [(1, 3, 4, 4), (8, 3, 3, 3)], (), (1, 8, 4, 4), 2 * 16 * 8 * 27),
        # SqueezeNet's conv1: 96 filters of 3·7·7 on 109·109 positions
        (
            "conv2d.default",
            [(1, 3, 224, 224), (96, 3, 7, 7), (96,)],
            ((2, 2),),
            (1, 96, 109, 109),
            2 * (96 * 109 * 109) * (3 * 7 * 7),
        ),
        # grouped: each filter sees 16 / 4 channels; a dilated kernel has as many elements
        (
            "conv2d.default",
            [(2, 16, 8, 8), (32, 4, 3, 3)],
            (None, (1, 1), (2, 2), (2, 2), 4),
            (2, 32, 8, 8),
            2 * (2 * 32 * 64) * (4 * 9),
        ),
        # depthwise
        ("conv2d.default", [(1, 16, 8, 8), (16, 1, 3, 3)], (), (1, 16, 8, 8), 2 * 16 * 64 * 9),
        ("conv1d.default", [(1, 2, 10), (4, 2, 3)], (), (1, 4, 8), 2 * 4 * 8 * 6),
        # transposed: each of 4·5·5 inputs meets 3 channels of 2·2
        (
            "conv_transpose2d.input",
            [(1, 4, 5, 5), (4, 3, 2, 2)],
            (None, (2, 2)),
            (1, 3, 10, 10),
            2 * 100 * 12,
        ),
        ("linear.default", [(32, 100), (10, 100), (10,)], (), (32, 10), 2 * 32 * 10 * 100),
        ("addmm.default", [(10,), (32, 100), (100, 10)], (), (32, 10), 2 * 32 * 10 * 100),
        ("bmm.default", [(6, 5, 4), (6, 4, 3)], (), (6, 5, 3), 2 * 6 * 5 * 3 * 4),
        ("baddbmm.default", [(6, 5, 3), (6, 5, 4), (6, 4, 3)], (), (6, 5, 3), 720),
        ("matmul.default", [(2, 8, 5, 4), (4, 3)], (), (2, 8, 5, 3), 2 * 2 * 8 * 5 * 3 * 4),
        ("matmul.default", [(7,), (7,)], (), (), 14),
        # 2·3 heads of 5 queries on 7 keys: two products of length 4 and 6, softmax, scale
        (
            "scaled_dot_product_attention.default",
            [(2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)],
            (),
            (2, 3, 5, 6),
            2 * 3 * 5 * 7 * (8 + 12 + 5 + 1),
        ),
        ("max_pool2d.default", [(1, 8, 9, 9)], ((3, 3), (2, 2)), (1, 8, 4, 4), 8 * 16 * 9),
        ("avg_pool2d.default", [(1, 8, 9, 9)], ((2,),), (1, 8, 4, 4), 8 * 16 * 4),
        ("max_pool1d.default", [(1, 8, 9)], ((3,), (3,)), (1, 8, 3), 8 * 3 * 3),
        ("adaptive_avg_pool2d.default", [(1, 8, 6, 6)], ((3, 2),), (1, 8, 3, 2), 8 * 36),
        # windows [0, 2), [1, 4), [3, 5): seven elements on five
        ("adaptive_avg_pool1d.default", [(1, 2, 5)], ((3,),), (1, 2, 3), 2 * (2 + 3 + 2)),
        ("add.Tensor", [(4, 1), (1, 5)], (), (4, 5), 20),
        ("relu.default", [(4, 5)], (), (4, 5), 20),
        ("mean.dim", [(4, 5, 6)], ((1, 2),), (4,), 120),
        ("softmax.int", [(4, 5)], (-1,), (4, 5), 100),
        ("layer_norm.default", [(4, 5)], ((5,),), (4, 5), 160),
        ("cat.default", [(4, 5)], (), (4, 5), 0),
        ("embedding.default", [(100, 8), (4, 5)], (), (4, 5, 8), 0),
        ("view.default", [(4, 5)], ((20,),), (20,), 0),
    ],
)
def test_operations(
    target: str,
    operands: list[Shape],
    rest: tuple[Argument, ...],
    result: Shape,
    expected: int,
) -> None:
    assert cost_of(target, operands, result, rest) == expected


def test_products_agree_with_torch_s_counter() -> None:
    """All of SqueezeNet's convolutions; torch counts nothing else either."""
    model = zoo.build("squeezenet")
    (example,) = zoo.inputs("squeezenet", 1)
    graph, _ = import_program(torch.export.export(model, (example,)), 1)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        model.to("meta")(example.to("meta"))
    assert (
        sum(unit.flops for unit in graph.units if unit.kind == "conv") == counter.get_total_flops()
    )


def test_grouped_transposed_and_batched_products_agree_with_torch_s_counter() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.narrow = nn.Conv2d(4, 8, 3, stride=2, dilation=2, groups=2)
            self.widen = nn.ConvTranspose2d(8, 6, 4, stride=2, groups=2)
            self.project = nn.Linear(22, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = self.project(self.widen(self.narrow(x))).flatten(0, 1)
            return torch.bmm(rows, rows.transpose(1, 2))

    model, example = Model().eval(), torch.zeros(3, 4, 23, 23)
    graph, _ = import_program(torch.export.export(model, (example,)), 3)
    with FlopCounterMode(display=False) as counter:
        model(example)
    products = [unit.flops for unit in graph.units if unit.kind != "view"]
    assert len(products) == 4
    assert sum(products) == counter.get_total_flops()


def test_bytes_count_a_value_once() -> None:
    values = {"a": TensorSpec((2, 3), "float32"), "b": TensorSpec((5,), "float16")}
    assert bytes_of(["a", "b", "a"], values) == 24 + 10


@pytest.mark.parametrize(
    ("target", "arguments", "message"),
    [
        ("aten.bernoulli_.float", (), "unknown"),
        ("aten.conv2d.default", (ValueRef("x"),), "argument 1 of operator 'y'"),
        ("aten.conv2d.default", (ValueRef("x"), 3), "argument 1 of operator 'y'"),
        ("aten.max_pool2d.default", (ValueRef("x"),), "no kernel size"),
        ("aten.max_pool2d.default", (ValueRef("x"), (3, 3, 3)), "kernel size"),
        ("aten.max_pool2d.default", (ValueRef("x"), "3"), "kernel size"),
    ],
)
def test_arguments_that_do_not_fit(
    target: str, arguments: tuple[Argument, ...], message: str
) -> None:
    spec = TensorSpec((1, 4, 8, 8), "float32")
    with pytest.raises(GraphError, match=message):
        flops(Operator("y", target, arguments, (), ("y",)), {"x": spec, "y": spec})
