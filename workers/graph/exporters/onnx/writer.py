"""An ONNX model in the making: numbered values, nodes, constants, and weights that lie nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto, helper

from workers.graph.graph import TensorSpec

OPSET = 20
_FORMAT = 9  # came with that opset
_NOWHERE = "weights"

_ELEMENT_TYPES = {
    "float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16, "int64": TensorProto.INT64, "int32": TensorProto.INT32,
    "int16": TensorProto.INT16, "int8": TensorProto.INT8, "uint64": TensorProto.UINT64,
    "uint32": TensorProto.UINT32, "uint16": TensorProto.UINT16, "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
}  # fmt: skip


class ExportError(Exception):
    """An operator, or its arguments, that have no counterpart here; the message names it."""


def element_type(dtype: str) -> int:
    """ONNX's number of torch's element type."""
    return int(_ELEMENT_TYPES[dtype])


class ModelWriter:
    """Takes a model's parts in any order that computes before it reads."""

    def __init__(self) -> None:
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []
        self._nodes: list[NodeProto] = []
        self._initializers: list[TensorProto] = []
        self._constants: dict[tuple[Any, ...], str] = {}
        self._made = 0
        self._results: dict[str, str] = {}

    def input(self, name: str, spec: TensorSpec) -> str:
        self._inputs.append(_value_info(name, spec))
        return name

    def weight(self, name: str, spec: TensorSpec) -> str:
        """An initializer without content, for whoever makes a session to give."""
        tensor = TensorProto(
            name=name,
            dims=spec.shape,
            data_type=element_type(spec.dtype),
            data_location=TensorProto.EXTERNAL,
        )
        tensor.external_data.append(StringStringEntryProto(key="location", value=_NOWHERE))
        self._initializers.append(tensor)
        return name

    def constant(self, values: Sequence[float], shape: tuple[int, ...], dtype: str) -> str:
        """A small tensor whose content is part of the model; equal ones are one."""
        key = (tuple(map(repr, values)), shape, dtype)
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = name
            tensor = helper.make_tensor(name, element_type(dtype), shape, values)
            self._initializers.append(tensor)
        return self._constants[key]

    def nodes(
        self, op_type: str, inputs: Sequence[str], count: int, **attributes: Any
    ) -> list[str]:
        """A node of ``count`` results; an input that is not given is an empty name."""
        results = [f"value_{self._made + number}" for number in range(count)]
        self._made += count
        self._nodes.append(helper.make_node(op_type, inputs, results, **attributes))
        return results

    def output(self, name: str, value: str, spec: TensorSpec) -> None:
        """Return ``value``. It takes the output's name, unless it has to keep the one it has."""
        self._outputs.append(_value_info(name, spec))
        if value.startswith("value_") and value not in self._results:
            self._results[value] = name
        else:
            self._nodes.append(
                helper.make_node("Identity", [self._results.get(value, value)], [name])
            )

    def model(self) -> bytes:
        for node in self._nodes:
            for names in (node.input, node.output):
                renamed = [self._results.get(name, name) for name in names]
                del names[:]
                names.extend(renamed)
        graph = helper.make_graph(
            self._nodes, "unit", self._inputs, self._outputs, self._initializers
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_FORMAT
        )
        content: bytes = model.SerializeToString(deterministic=True)
        return content


def _value_info(name: str, spec: TensorSpec) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, element_type(spec.dtype), spec.shape)
