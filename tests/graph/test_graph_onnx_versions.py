"""Operators that older versions of ONNX write in another way, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from support.onnx_models import opened, written

from workers.graph.interpreter import run_graph
from workers.graph.random_inputs import random_inputs

Array = np.ndarray[Any, Any]
SHAPE = (2, 3, 4, 6)


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


# operator, version, attributes, further inputs (None: left out), number of outputs
CASES: Sequence[tuple[str, int, Mapping[str, Any], Sequence[Array | None], int]] = [
    ("Squeeze", 11, {"axes": [0]}, [], 1),
    ("Squeeze", 13, {}, [i64(0)], 1),
    ("Unsqueeze", 11, {"axes": [0, 5]}, [], 1),
    ("Unsqueeze", 13, {}, [i64(0, -1)], 1),
    ("Slice", 9, {"starts": [1, -2], "ends": [3, 9], "axes": [2, 3]}, [], 1),
    ("Slice", 9, {"starts": [0, 1], "ends": [1, 2]}, [], 1),
    ("Slice", 10, {}, [i64(3, 0), i64(-9, 4), i64(2, 3), i64(-2, 3)], 1),
    ("Pad", 10, {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "value": 2.0}, [], 1),
    ("Pad", 10, {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "mode": "reflect"}, [], 1),
    ("Pad", 13, {}, [i64(0, 0, 1, 2, 0, 0, -1, 1), f32(3.0).reshape(())], 1),
    ("Pad", 18, {"mode": "edge"}, [i64(1, 2, 0, 1), None, i64(2, 3)], 1),
    ("Clip", 6, {"min": -0.5, "max": 0.5}, [], 1),
    ("Clip", 6, {}, [], 1),
    ("Clip", 11, {}, [None, f32(0.25).reshape(())], 1),
    ("Split", 11, {"axis": 3, "split": [1, 5]}, [], 2),
    ("Split", 11, {"axis": 1}, [], 3),
    ("Split", 13, {"axis": 3}, [i64(2, 4)], 2),
    ("Split", 18, {"axis": 1, "num_outputs": 2}, [], 2),
    ("ReduceSum", 11, {"axes": [1, -1], "keepdims": 0}, [], 1),
    ("ReduceSum", 13, {"keepdims": 1}, [i64(2)], 1),
    ("ReduceMean", 11, {"axes": [2]}, [], 1),
    ("ReduceMax", 11, {}, [], 1),
    ("ReduceL2", 18, {}, [i64(0, 1)], 1),
    ("Softmax", 11, {"axis": 2}, [], 1),
    ("LogSoftmax", 11, {}, [], 1),
    ("Softmax", 13, {"axis": 2}, [], 1),
    ("TopK", 9, {"k": 3, "axis": 3}, [], 2),
    ("TopK", 10, {}, [i64(2)], 2),
    ("TopK", 11, {"largest": 0, "axis": 1}, [i64(2)], 2),
    ("Dropout", 7, {"ratio": 0.3}, [], 1),
    ("Dropout", 12, {}, [f32(0.3).reshape(())], 1),
    ("Reshape", 5, {}, [i64(0, -1, 2)], 1),
    ("Reshape", 14, {"allowzero": 0}, [i64(6, 0, -1)], 1),
    ("Flatten", 9, {"axis": 2}, [], 1),
    ("Flatten", 11, {"axis": -1}, [], 1),
    ("Flatten", 9, {"axis": 0}, [], 1),
    ("Gather", 11, {"axis": 3}, [i64(5, 0, -1)], 1),
    ("Gather", 11, {"axis": -2}, [i64(-1).reshape(())], 1),
    ("MaxPool", 8, {"kernel_shape": [2, 3], "strides": [1, 2]}, [], 1),
    ("MaxPool", 10, {"kernel_shape": [3, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]}, [], 1),
    ("MaxPool", 12, {"kernel_shape": [2, 2], "dilations": [2, 2]}, [], 1),
    ("MaxPool", 12, {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "strides": [2, 2]}, [], 1),
    ("AveragePool", 7, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, [], 1),
    ("AveragePool", 10, {"kernel_shape": [3, 3], "pads": [0, 1, 2, 1], "ceil_mode": 0}, [], 1),
    ("AveragePool", 11,
     {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "count_include_pad": 1}, [], 1),
    ("GlobalAveragePool", 1, {}, [], 1),
    ("GlobalMaxPool", 1, {}, [], 1),
    ("LRN", 1, {"size": 5, "alpha": 0.1, "bias": 1.5}, [], 1),
    ("LRN", 13, {"size": 3}, [], 1),
    ("BatchNormalization", 7, {"epsilon": 0.1},
     [f32(1, 2, 3), f32(0, 1, 2), f32(0, 0.5, 1), f32(1, 2, 3)], 1),
    ("BatchNormalization", 15, {}, [f32(1, 2, 3), f32(0, 1, 2), f32(0, 0.5, 1), f32(1, 2, 3)], 1),
    ("InstanceNormalization", 6, {}, [f32(1, 2, 3), f32(0, 1, 2)], 1),
    ("PRelu", 7, {}, [f32(0.1, 0.2, 0.3).reshape(3, 1, 1)], 1),
    ("Transpose", 1, {}, [], 1),
    ("Transpose", 1, {"perm": [1, 0, 3, 2]}, [], 1),
    ("Expand", 8, {}, [i64(5, 1, 3, 1, 6)], 1),
    ("Tile", 6, {}, [i64(1, 2, 1, 3)], 1),
    ("DepthToSpace", 11, {"blocksize": 1, "mode": "CRD"}, [], 1),
    ("SpaceToDepth", 1, {"blocksize": 2}, [], 1),
    ("CumSum", 11, {"exclusive": 1, "reverse": 1}, [i64(2).reshape(())], 1),
    ("ArgMax", 11, {"axis": -1, "keepdims": 0}, [], 1),
    ("ArgMin", 13, {"axis": 2, "select_last_index": 1}, [], 1),
    ("Hardmax", 11, {}, [], 1),
    ("MeanVarianceNormalization", 9, {}, [], 1),
    ("LpNormalization", 1, {"axis": 1, "p": 1}, [], 1),
    ("Shrink", 9, {"lambd": 0.3, "bias": 0.1}, [], 1),
    ("HardSigmoid", 6, {"alpha": 0.3}, [], 1),
    ("ThresholdedRelu", 10, {"alpha": 0.4}, [], 1),
    ("Trilu", 14, {"upper": 0}, [i64(1).reshape(())], 1),
    ("Mod", 10, {"fmod": 1}, [f32(0.7)], 1),
    ("Pow", 7, {}, [f32(2.0)], 1),
    ("Pow", 13, {}, [i64(3)], 1),
    ("Max", 8, {}, [f32(0.1, 0.2, 0.3, 0.4, 0.5, 0.6), f32(0.3)], 1),
    ("ConvTranspose", 11,
     {"strides": [2, 1], "pads": [1, 0, 0, 1], "output_padding": [1, 0]},
     [np.linspace(-1, 1, 3 * 2 * 9, dtype=np.float32).reshape(3, 2, 3, 3), f32(0.5, -0.5)], 1),
    ("ConvTranspose", 11, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
     [np.linspace(-1, 1, 3 * 2 * 9, dtype=np.float32).reshape(3, 2, 3, 3)], 1),
    ("Conv", 11, {"auto_pad": "SAME_LOWER", "strides": [2, 2], "group": 3},
     [np.linspace(-1, 1, 3 * 4, dtype=np.float32).reshape(3, 1, 2, 2)], 1),
    ("QuantizeLinear", 10, {}, [f32(0.1).reshape(()), np.array(128, np.uint8)], 1),
    ("QuantizeLinear", 13, {"axis": 1}, [f32(0.1, 0.2, 0.3), np.array([0, 1, 2], np.int8)], 1),
    ("DynamicQuantizeLinear", 11, {}, [], 3),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "version", "attributes", "further", "outputs"),
    CASES,
    ids=[f"{case[0]}-{case[1]}-{index}" for index, case in enumerate(CASES)],
)
def test_an_older_form_computes_what_onnx_runtime_does(
    tmp_path: Path,
    name: str,
    version: int,
    attributes: Mapping[str, Any],
    further: Sequence[Array | None],
    outputs: int,
) -> None:
    import onnxruntime  # takes a while

    weights = {f"w{index}": array for index, array in enumerate(further) if array is not None}
    shape = (1, *SHAPE[1:]) if name == "Squeeze" else SHAPE
    read = ["x", *("" if a is None else f"w{i}" for i, a in enumerate(further))]
    made = [f"y{index}" for index in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(name, read, made, **attributes)],
        "one",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name=output) for output in made],
        [onnx.numpy_helper.from_array(array, weight) for weight, array in weights.items()],
    )
    # The version in which the operator last changed, but no older than what is supported.
    opset = max(version, 7)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    proto = onnx.shape_inference.infer_shapes(proto)
    path = written(proto, tmp_path)
    found_graph, found_weights = opened(path, shape[0]).graph()
    inputs = random_inputs(found_graph, 0)
    found = run_graph(found_graph, found_weights, inputs)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": inputs["x"].numpy()})
    for output, array in zip(found_graph.outputs, expected, strict=True):
        torch.testing.assert_close(
            found[output], torch.from_numpy(np.asarray(array)), rtol=1e-4, atol=1e-5
        )
