"""Small ONNX models, as ModelProtos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from workers.graph.importers.onnx import OnnxModel, open_model
from workers.graph.importers.opened import Sizes

OPSET = 20
MEMORY_BYTES = 1 << 30
Shape = Sequence[int | str | None]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray[Any, Any]] | None = None,
    *,
    opset: int = OPSET,
    input_type: int = TensorProto.FLOAT,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of one input type whose outputs' types are left to inference."""
    graph = helper.make_graph(
        list(nodes),
        "model",
        [helper.make_tensor_value_info(n, input_type, list(s)) for n, s in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, version) for domain, version in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def convolutions(batch: int | str = 1, scale: float = 1.0) -> onnx.ModelProto:
    """Two branches of convolutions, added, pooled, flattened and classified."""
    generator = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray[Any, Any]:
        return scale * generator.standard_normal(shape, np.float32)

    return model(
        [
            helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
            helper.make_node("Conv", ["x", "w2"], ["c2"]),
            helper.make_node("Relu", ["c1"], ["r1"]),
            helper.make_node("Add", ["r1", "c2"], ["s"]),
            helper.make_node("GlobalAveragePool", ["s"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("Gemm", ["f", "w3"], ["y"], transB=1),
        ],
        {"x": [batch, 16, 8, 8]},
        ["y"],
        {"w1": weight(32, 16, 3, 3), "b1": weight(32), "w2": weight(32, 16, 1, 1),
         "w3": weight(4, 32)},
    )  # fmt: skip


def written(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def opened(path: Path, batch_size: int = 1, sequence_length: int | None = None) -> OnnxModel:
    return open_model(path, Sizes(batch_size, sequence_length), MEMORY_BYTES)
