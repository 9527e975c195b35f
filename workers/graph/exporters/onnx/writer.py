"""An ONNX model in the making: numbered values, nodes, constants, and weights that lie nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.graph.graph import TensorSpec

OPSET = 20
_FORMAT = 9  # came with that opset
_NOWHERE = "weights"

# TensorProto.DataType of the standard's onnx.proto.
_ELEMENT_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
    "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip


class ExportError(Exception):
    """An operator, or its arguments, that have no counterpart here; the message names it."""


def element_type(dtype: str) -> int:
    """ONNX's number of torch's element type."""
    return _ELEMENT_TYPES[dtype]


@dataclass(frozen=True, slots=True)
class _Node:
    op_type: str
    inputs: Sequence[str]
    results: Sequence[str]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Constant:
    values: Sequence[float]
    spec: TensorSpec


class ModelWriter:
    """Takes a model's parts; what is computed before what reads it."""

    def __init__(self) -> None:
        self._inputs: dict[str, TensorSpec] = {}
        self._weights: dict[str, TensorSpec] = {}
        self._outputs: dict[str, TensorSpec] = {}
        self._constants: dict[str, _Constant] = {}
        self._known_constants: dict[tuple[Any, ...], str] = {}
        self._nodes: list[_Node] = []
        self._made = 0
        self._returned: dict[str, str] = {}

    def input(self, name: str, spec: TensorSpec) -> str:
        self._inputs[name] = spec
        return name

    def weight(self, name: str, spec: TensorSpec) -> str:
        """An initializer without content, for whoever makes a session to give."""
        self._weights[name] = spec
        return name

    def constant(self, values: Sequence[float], shape: tuple[int, ...], dtype: str) -> str:
        """A small tensor whose content is part of the model; equal ones are one."""
        key = (tuple(map(repr, values)), shape, dtype)  # -0.0 is equal to 0.0
        if key not in self._known_constants:
            name = f"constant_{len(self._constants)}"
            self._known_constants[key] = name
            self._constants[name] = _Constant(values, TensorSpec(shape, dtype))
        return self._known_constants[key]

    def nodes(
        self, op_type: str, inputs: Sequence[str], count: int, **attributes: Any
    ) -> list[str]:
        """A node of ``count`` results; an input that is not given is an empty name."""
        results = [f"value_{self._made + number}" for number in range(count)]
        self._made += count
        self._nodes.append(_Node(op_type, inputs, results, attributes))
        return results

    def output(self, name: str, value: str, spec: TensorSpec) -> None:
        """Return ``value``. It takes the output's name, unless it has to keep the one it has."""
        self._outputs[name] = spec
        if value.startswith("value_") and value not in self._returned:
            self._returned[value] = name
        else:
            self._nodes.append(_Node("Identity", [value], [name], {}))

    def _needed(self) -> list[_Node]:
        """The nodes on which the outputs depend."""
        wanted = {*self._outputs, *self._returned}
        needed = []
        for node in reversed(self._nodes):
            if wanted.intersection(node.results):
                wanted.update(node.inputs)
                needed.append(node)
        return needed[::-1]

    def model(self) -> bytes:
        """The serialised ModelProto, without nodes that nothing depends on."""
        from onnx import TensorProto, helper  # noqa: PLC0415  # optional, and slow to import

        def stated(values: Mapping[str, TensorSpec]) -> list[Any]:
            return [
                helper.make_tensor_value_info(name, element_type(spec.dtype), spec.shape)
                for name, spec in values.items()
            ]

        def renamed(names: Sequence[str]) -> list[str]:
            return [self._returned.get(name, name) for name in names]

        initializers = []
        for name, spec in self._weights.items():
            tensor = TensorProto(
                name=name,
                dims=spec.shape,
                data_type=element_type(spec.dtype),
                data_location=TensorProto.EXTERNAL,
            )
            tensor.external_data.add(key="location", value=_NOWHERE)
            initializers.append(tensor)
        needed = self._needed()
        read = {name for node in needed for name in node.inputs}
        for name, constant in self._constants.items():
            if name not in read:
                continue
            spec = constant.spec
            initializers.append(
                helper.make_tensor(name, element_type(spec.dtype), spec.shape, constant.values)
            )
        nodes = [
            helper.make_node(n.op_type, renamed(n.inputs), renamed(n.results), **n.attributes)
            for n in needed
        ]
        graph = helper.make_graph(
            nodes, "unit", stated(self._inputs), stated(self._outputs), initializers
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_FORMAT
        )
        content: bytes = model.SerializeToString(deterministic=True)
        return content
