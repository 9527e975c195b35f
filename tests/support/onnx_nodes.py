"""ONNX's own tests of its operators, run through Plait's importer."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto
from torch import Tensor

from workers.graph.importers.onnx import OnnxModel
from workers.graph.importers.onnx.model_file import ModelData, checked_model
from workers.graph.importers.onnx.tensors import DTYPES
from workers.graph.importers.opened import Sizes
from workers.graph.importers.source import ImportFailure
from workers.graph.interpreter import run_graph

_REFUSED = Path(__file__).parents[1] / "reference" / "onnx_refused.json"
_MUST_BE_KNOWN = re.compile(r"\((?P<name>[^()]*)\) must be known")


@dataclass(frozen=True)
class NodeTest:
    """One of ONNX's tests: a small model and pairs of inputs and expected outputs."""

    name: str
    model: onnx.ModelProto
    data_sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.op_type for node in self.model.graph.node))

    @property
    def opset(self) -> int:
        version: int = next(
            e.version for e in self.model.opset_import if e.domain in ("", "ai.onnx")
        )
        return version


@cache
def node_tests() -> tuple[NodeTest, ...]:
    """Every test of the default domain whose tensors are of types that a Graph can hold."""
    from onnx.backend.test.case.node import collect_testcases  # takes seconds

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    return tuple(
        NodeTest(case.name, case.model, case.data_sets or (), case.rtol, case.atol)
        for case in cases
        if case.model is not None and _is_eligible(case.model)
    )


def _is_eligible(model: onnx.ModelProto) -> bool:
    if any(node.domain not in ("", "ai.onnx") for node in model.graph.node):
        return False
    return all(
        value.type.WhichOneof("value") == "tensor_type"
        and value.type.tensor_type.elem_type in DTYPES
        for value in (*model.graph.input, *model.graph.output)
    )


def check(test: NodeTest) -> None:
    """Import the test's model and compare its outputs with the expected ones.

    An input that decides a shape, such as that of Reshape, is fixed to the test's own value:
    a Graph is static. Raises ImportFailure or AssertionError.
    """
    for given, expected in test.data_sets:
        names = [value.name for value in test.model.graph.input]
        inputs = dict(zip(names, map(tensor, given), strict=True))
        outputs = computed(test.model, inputs)
        for declared, found, wanted in zip(
            test.model.graph.output, outputs, map(tensor, expected), strict=True
        ):
            assert found.dtype == wanted.dtype, f"{declared.name} is {found.dtype}"
            torch.testing.assert_close(
                widened(found),
                widened(wanted),
                rtol=test.rtol,
                atol=max(test.atol, rounding(wanted)),
                equal_nan=True,
            )


def rounding(expected: Tensor) -> float:
    """Four units in the last place of the largest element: sums that are taken in another order,
    or on another processor, differ by as much."""
    finite = (
        expected[expected.isfinite()] if expected.dtype.is_floating_point else expected.new_empty(0)
    )
    if not finite.numel():
        return 0.0
    return 4 * torch.finfo(expected.dtype).eps * float(finite.abs().max())


def computed(model: onnx.ModelProto, inputs: Mapping[str, Tensor]) -> list[Tensor]:
    """The outputs of the model's Graph; ``inputs`` also say which shapes the model gets."""
    fixed: dict[str, Tensor] = {}
    integers = {n: t for n, t in inputs.items() if not t.dtype.is_floating_point}
    while True:
        try:
            return _run(model, inputs, fixed)
        except ImportFailure as failure:
            match = _MUST_BE_KNOWN.search(str(failure))
            if match is None or len(fixed) == len(inputs):
                raise
            name = match["name"]
            if name in inputs:
                fixed[name] = inputs[name]
            else:  # computed from inputs: as a rule, from those that are integers
                fixed.update(integers if integers.keys() - fixed.keys() else inputs)


def _run(
    model: onnx.ModelProto, inputs: Mapping[str, Tensor], fixed: Mapping[str, Tensor]
) -> list[Tensor]:
    shaped = onnx.ModelProto()
    shaped.CopyFrom(model)
    for value in shaped.graph.input:
        shape = value.type.tensor_type.shape
        shape.ClearField("dim")
        for size in inputs[value.name].shape:
            shape.dim.add().dim_value = size
    first = next((t.shape[0] for t in inputs.values() if t.dim()), 1)
    data = ModelData(checked_model(shaped), Path(), memoryview(b""), (), None)
    graph, weights = OnnxModel(data, Sizes(first), fixed).graph()
    free = {
        clean: inputs[name]
        for name, clean in zip((n for n in inputs if n not in fixed), graph.inputs, strict=True)
    }
    results = run_graph(graph, weights, free)
    return [results[name] for name in graph.outputs]


def tensor(value: Any) -> Tensor:
    """A test's array, of whatever type, as a tensor."""
    if isinstance(value, TensorProto):
        value = onnx.numpy_helper.to_array(value)
    array = np.asarray(value)
    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(array.copy())


def widened(value: Tensor) -> Tensor:
    """Unsigned types as int64, which torch can compare."""
    return value.to(torch.int64) if str(value.dtype).startswith("torch.uint") else value


def outcome(test: NodeTest) -> str | None:
    """None if the test passes, else what went wrong."""
    try:
        check(test)
    except (ImportFailure, AssertionError, RuntimeError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


@cache
def refusals() -> Mapping[str, str]:
    """The tests that are known not to pass, by name, and why."""
    listed: dict[str, list[str]] = json.loads(_REFUSED.read_text())
    return {name: reason for reason, names in listed.items() for name in names}
