"""Graphs for the passes: from a list of calls, and at random; and what every pass must keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from workers.graph.graph import Argument, DtypeRef, Graph, Operator, TensorSpec, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs
from workers.graph.units import operator_units

Weights = Mapping[str, Tensor]
Shape = tuple[int, ...]
MATRIX = (4, 4)


def call(name: str, target: str, *arguments: Any, **keywords: Any) -> Operator:
    """One operator with one result, both called ``name``."""
    return Operator(name, f"aten.{target}", arguments, tuple(keywords.items()), (name,))


def graph_of_calls(
    calls: Sequence[Operator],
    *,
    outputs: Sequence[str],
    inputs: Mapping[str, Shape] | None = None,
    weights: Mapping[str, Shape] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    dtypes: Mapping[str, str] | None = None,
    dtype: str = "float32",
) -> tuple[Graph, dict[str, Tensor]]:
    """The graph of ``calls``, each a Unit, and random weights for it.

    Without other word the input is ``x``, the weight ``w`` and every value a float32 4 x 4 matrix.
    """
    given = {"x": MATRIX} if inputs is None else dict(inputs)
    held = {"w": MATRIX} if weights is None else dict(weights)
    made = {name: MATRIX for operator in calls for name in operator.outputs}
    values = {
        name: TensorSpec(shape, (dtypes or {}).get(name, dtype))
        for name, shape in (given | held | made | dict(shapes or {})).items()
    }
    graph = operator_units(
        name="calls",
        inputs=tuple(given),
        outputs=outputs,
        weights=tuple(held),
        values=values,
        operators=calls,
    )
    generator = torch.Generator().manual_seed(0)
    drawn = {
        name: torch.randn(shape, generator=generator).to(getattr(torch, values[name].dtype))
        for name, shape in held.items()
    }
    return graph, {name: drawn[name] for name in graph.weights}


def targets(graph: Graph) -> list[str]:
    """The operators in order, without namespace and overload."""
    return [operator.target.split(".")[1] for operator in graph.operators]


def assert_same(
    before: tuple[Graph, Weights], after: tuple[Graph, Weights], tolerance: float = 0.0
) -> None:
    """Both graphs have the same inputs and outputs by name, and give the same values."""
    assert before[0].inputs == after[0].inputs
    assert before[0].outputs == after[0].outputs
    assert set(after[0].weights) == set(after[1])
    inputs = random_inputs(before[0], seed=1)
    expected = run_graph(*before, inputs)
    found = run_graph(*after, inputs)
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, rtol=tolerance, atol=tolerance, equal_nan=True
        )


class Calls(nn.Module):
    """A module whose ``forward`` is ``function``; ``parts`` are its submodules by name."""

    def __init__(self, function: Callable[..., object], **parts: nn.Module) -> None:
        super().__init__()
        self._function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *inputs: Tensor) -> object:
        return self._function(self, *inputs)


def imported(model: nn.Module, *shapes: tuple[int, ...]) -> tuple[Graph, dict[str, Tensor]]:
    """The graph of a model in eval mode, with statistics and affine parameters away from 0 and 1
    where it normalises."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    examples = tuple(torch.randn(shape) for shape in shapes)
    return import_program(torch.export.export(model.eval(), examples), shapes[0][0])


# Operators on 4 x 4 matrices by what they read; the rest of their arguments.
_ONE: dict[str, tuple[Argument, ...]] = {
    "t.default": (), "permute.default": ((1, 0),), "reshape.default": ((4, 4),),
    "clone.default": (), "relu.default": (), "tanh.default": (), "sigmoid.default": (),
    "mul.Tensor": (1,), "add.Tensor": (0.5,), "sub.Tensor": (0,),
    "softmax.int": (1,), "cumsum.default": (0,),
}  # fmt: skip
_TWO = ("add.Tensor", "mul.Tensor", "maximum.default", "mm.default")
_NONE: dict[str, tuple[Argument, ...]] = {
    "full.default": ((4, 4), 0.25), "ones.default": ((4, 4),), "zeros.default": ((4, 4),),
}  # fmt: skip
_LAYER: dict[str, tuple[Argument, ...]] = {
    "linear.default": (ValueRef("w"),),
    "conv1d.default": (ValueRef("depthwise"), None, (1,), (1,), (1,), 4),
    "conv1d.default ": (ValueRef("mixing"), None, (1,), (0,), (1,), 1),
}  # fmt: skip
RANDOM_WEIGHTS = {
    "w": MATRIX, "v": MATRIX, "u": MATRIX, "depthwise": (4, 1, 3), "mixing": (4, 4, 1)
}  # fmt: skip


@st.composite
def random_graphs(draw: st.DrawFn, max_operators: int = 14) -> tuple[Graph, dict[str, Tensor]]:
    """Layers, separable convolutions, concatenations, element-wise operators, reductions, copies,
    views and constants on 4 x 4 matrices, with inputs ``x`` and ``z`` and the weights above, of
    which ``v`` and ``u`` are equal. In float64, so that another order of operations differs by
    little."""
    names = ["x", "z", "w", "v", "u"]
    operators = []
    shapes = {}
    for number in range(draw(st.integers(0, max_operators))):
        recent = st.sampled_from(names[-3:]) | st.sampled_from(names)
        kinds = ("one", "one", "two", "two", "layer", "layer", "none", "joined")
        kind = draw(st.sampled_from(kinds))
        name = f"o{number}"
        first, second = ValueRef(draw(recent)), ValueRef(draw(recent))
        if kind == "two":
            made = call(name, draw(st.sampled_from(_TWO)), first, second)
        elif kind == "none":
            target = draw(st.sampled_from(sorted(_NONE)))
            made = call(name, target, *_NONE[target], dtype=DtypeRef("float64"))
        elif kind == "joined":
            operators.append(call(f"{name}s", "stack.default", (first, second)))
            shapes[f"{name}s"] = (2, *MATRIX)
            made = call(name, "amax.default", ValueRef(f"{name}s"), (0,))
        else:
            table = _ONE if kind == "one" else _LAYER
            target = draw(st.sampled_from(sorted(table)))
            made = call(name, target.strip(), first, *table[target])
        operators.append(made)
        names.append(name)
    outputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    graph, tensors = graph_of_calls(
        operators,
        outputs=outputs,
        inputs={"x": MATRIX, "z": MATRIX},
        weights=RANDOM_WEIGHTS,
        shapes=shapes,
        dtype="float64",
    )
    if {"u", "v"} <= tensors.keys():
        tensors["u"] = tensors["v"].clone()
    return graph, tensors
