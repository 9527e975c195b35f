"""Small ONNX models run by ONNX Runtime, to compare the importer with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from workers.graph.importers.onnx.tensors import elem_type

_FORMAT = 10  # that ONNX Runtime reads, whatever the newest is


def one_node(
    op_type: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    opset: int,
    given: Mapping[str, Tensor],
    constants: Mapping[str, Tensor] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node. ``given`` are the model's inputs, ``constants`` its initializers."""
    declared = [
        helper.make_tensor_value_info(name, elem_type(tensor.dtype), list(tensor.shape))
        for name, tensor in given.items()
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs]
    weights = [
        numpy_helper.from_array(tensor.numpy(), name) for name, tensor in (constants or {}).items()
    ]
    node = helper.make_node(op_type, list(inputs), list(outputs), name="node", **attributes)
    graph = helper.make_graph([node], "one node", declared, results, weights)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=_FORMAT
    )
    return onnx.shape_inference.infer_shapes(model)


def by_onnx_runtime(model: onnx.ModelProto, inputs: Mapping[str, Tensor]) -> list[Tensor]:
    """The model's outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    return [torch.from_numpy(array) for array in found]
