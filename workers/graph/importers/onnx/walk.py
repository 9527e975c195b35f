"""Goes through an ONNX model's nodes in order and has each one described as ATen operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, defs, helper

from workers.graph.importers.onnx.node import Item, Node
from workers.graph.importers.onnx.operators import describe
from workers.graph.importers.onnx.recorder import Recorder, Value
from workers.graph.importers.onnx.tensors import TensorReader, elem_type
from workers.graph.importers.source import ImportFailure

MOST_NODES = 200_000
"""Nodes that a model may come to once its loops are unrolled and its functions expanded."""

_MAX_DEPTH = 64
_DEFAULT_DOMAINS = ("", "ai.onnx")
_MAX_REASON = 300


@dataclass(frozen=True)
class _Frame:
    """Where a node stands: the versions of the domains, the attributes of the function around it,
    and the values it can see by name. ``prefix`` tells the recorded names of calls apart."""

    versions: Mapping[str, int]
    attributes: Mapping[str, AttributeProto]
    values: dict[str, Item]
    prefix: str
    depth: int


class Walker:
    """Records a model's nodes. Raises ImportFailure naming the node and its operator."""

    def __init__(
        self, recorder: Recorder, reader: TensorReader, functions: Sequence[FunctionProto]
    ) -> None:
        self._recorder, self._reader = recorder, reader
        self._functions = {(function.domain, function.name): function for function in functions}
        self._nodes = 0

    def model(
        self, graph: GraphProto, versions: Mapping[str, int], inputs: Mapping[str, Value]
    ) -> dict[str, Value]:
        """The model's outputs by name."""
        frame = _Frame(versions, {}, dict(inputs), "", 0)
        outputs: dict[str, Value] = {}
        found = self._graph(graph, frame)
        for declared, item in zip(graph.output, found, strict=True):
            if not isinstance(item, Value):
                raise ImportFailure(
                    "unsupported_input",
                    f"the output {declared.name!r} is a sequence; let the model return tensors",
                )
            outputs[declared.name] = item
        return outputs

    def _graph(self, graph: GraphProto, frame: _Frame) -> list[Item]:
        for initializer in graph.initializer:
            if initializer.name not in frame.values or frame.depth:
                frame.values[initializer.name] = Value(
                    self._reader.read(initializer), frame.prefix + initializer.name
                )
        for sparse in graph.sparse_initializer:
            raise ImportFailure(
                "unsupported_input",
                f"the weight {sparse.values.name!r} is sparse; store it as a dense tensor",
            )
        needed = _needed(graph.node, [output.name for output in graph.output])
        for node, wanted in zip(graph.node, needed, strict=True):
            if wanted:
                self._node(node, frame)
        return [self._value(output.name, frame) for output in graph.output]

    def _node(self, node: NodeProto, frame: _Frame) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise ImportFailure(
                "too_large",
                f"with its loops unrolled the model has more than {MOST_NODES} nodes; shorten them",
            )
        label = node.name or next((name for name in node.output if name), node.op_type)
        outer, self._recorder.label = self._recorder.label, frame.prefix + label
        try:
            results = self._described(node, frame, label)
        except ImportFailure as failure:
            if failure.operator is not None:
                raise
            raise ImportFailure(
                failure.kind,
                f"{node.op_type} {label!r}: {failure}",
                f"{node.op_type} {label}",
            ) from failure
        except (
            RuntimeError, ValueError, TypeError, IndexError, KeyError, NotImplementedError,
            AssertionError, OverflowError, ArithmeticError,
        ) as error:  # fmt: skip
            reason = " ".join(str(error).split())[:_MAX_REASON]
            raise ImportFailure(
                "unsupported_batch" if frame.depth == 0 else "malformed",
                f"{node.op_type} {label!r} does not work on {self._inputs_in_words(node, frame)}: "
                f"{type(error).__name__}: {reason}",
                f"{node.op_type} {label}",
            ) from error
        self._recorder.label = outer
        for name, result in zip(node.output, results, strict=False):
            frame.values[name] = result

    def _described(self, node: NodeProto, frame: _Frame, label: str) -> Sequence[Item]:
        inputs = [self._value(name, frame) if name else None for name in node.input]
        domain = "" if node.domain in _DEFAULT_DOMAINS else node.domain
        local = self._functions.get((node.domain, node.op_type))
        if local is not None:
            return self._function(local, node, inputs, frame, label)
        version = frame.versions.get(domain)
        if version is None:
            raise ImportFailure(
                "malformed", f"the model does not say which version of domain {domain!r} it uses"
            )
        if frame.depth > _MAX_DEPTH:
            raise ImportFailure("too_large", f"nodes are nested more than {_MAX_DEPTH} deep")

        def run(graph: GraphProto, inputs: Sequence[Item]) -> list[Item]:
            names = [declared.name for declared in graph.input]
            inner = dict(frame.values)
            inner.update(zip(names, inputs, strict=False))
            number = self._nodes
            deeper = _Frame(
                frame.versions, frame.attributes, inner, f"{frame.prefix}{label}.{number}.",
                frame.depth + 1,
            )  # fmt: skip
            return self._graph(graph, deeper)

        description = describe(domain, node.op_type, version)
        if description is not None:
            found = description(
                Node(
                    op_type=node.op_type,
                    version=version,
                    inputs=inputs,
                    attributes=self._attributes(node, frame),
                    outputs=node.output,
                    recorder=self._recorder,
                    run=run,
                )
            )
            if found is not None:
                return found
        standard = _standard_function(self._bound(node, frame), domain, version, inputs)
        if standard is None:
            where = f" of domain {domain!r}" if domain else ""
            raise ImportFailure(
                "unsupported_operator",
                f"Plait does not support this operator{where} in version {version}",
            )
        complete, body = standard
        return self._function(body, complete, inputs, frame, label)

    def _function(
        self,
        function: FunctionProto,
        node: NodeProto,
        inputs: Sequence[Item],
        frame: _Frame,
        label: str,
    ) -> Sequence[Item]:
        """The results of a node that is defined by other nodes."""
        if frame.depth > _MAX_DEPTH:
            raise ImportFailure("too_large", f"functions are nested more than {_MAX_DEPTH} deep")
        attributes = {attribute.name: attribute for attribute in function.attribute_proto}
        for attribute in node.attribute:
            resolved = self._resolved(attribute, frame)
            if resolved is not None:
                attributes[attribute.name] = resolved
        values: dict[str, Item] = dict.fromkeys(function.input)
        values.update(zip(function.input, inputs, strict=False))
        versions = {entry.domain: entry.version for entry in function.opset_import}
        inner = _Frame(
            {**frame.versions, **versions}, attributes, values, f"{frame.prefix}{label}.",
            frame.depth + 1,
        )  # fmt: skip
        for member, wanted in zip(
            function.node, _needed(function.node, function.output), strict=True
        ):
            if wanted:
                self._node(member, inner)
        return [inner.values.get(name) for name in function.output]

    def _value(self, name: str, frame: _Frame) -> Item:
        if name not in frame.values:
            raise ImportFailure("malformed", f"the value {name!r} is read before it is computed")
        return frame.values[name]

    def _attributes(self, node: NodeProto, frame: _Frame) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for attribute in node.attribute:
            resolved = self._resolved(attribute, frame)
            if resolved is not None:
                found[attribute.name] = self._content(resolved)
        return found

    def _bound(self, node: NodeProto, frame: _Frame) -> NodeProto:
        """A copy of the node with the attributes that the function around it was called with."""
        bound = NodeProto()
        bound.CopyFrom(node)
        bound.ClearField("attribute")
        for attribute in node.attribute:
            resolved = self._resolved(attribute, frame)
            if resolved is not None:
                bound.attribute.add().CopyFrom(resolved)
                bound.attribute[-1].name = attribute.name
        return bound

    @staticmethod
    def _resolved(attribute: AttributeProto, frame: _Frame) -> AttributeProto | None:
        if not attribute.ref_attr_name:
            return attribute
        return frame.attributes.get(attribute.ref_attr_name)

    def _content(self, attribute: AttributeProto) -> Any:
        if attribute.type == AttributeProto.TENSOR:
            return self._reader.read(attribute.t)
        content = helper.get_attribute_value(attribute)
        if isinstance(content, bytes):
            return content.decode(errors="replace")
        if attribute.type == AttributeProto.STRINGS:
            return [item.decode(errors="replace") for item in content]
        return content

    def _inputs_in_words(self, node: NodeProto, frame: _Frame) -> str:
        words = []
        for name in node.input:
            item = frame.values.get(name) if name else None
            if isinstance(item, Value):
                dtype = str(item.dtype).removeprefix("torch.")
                words.append(f"{name}: {dtype}{list(item.shape)}")
        return ", ".join(words) or "no inputs"


def _needed(nodes: Sequence[NodeProto], outputs: Sequence[str]) -> list[bool]:
    """Whether each node computes something that an output needs."""
    wanted = set(outputs)
    needed = []
    for node in reversed(nodes):
        need = bool(wanted.intersection(node.output))
        if need:
            wanted.update(_read_by(node))
        needed.append(need)
    return needed[::-1]


def _read_by(node: NodeProto) -> set[str]:
    """The values that a node or a subgraph of it may read."""
    read = set(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                read |= _read_by(inner)
            read.update(output.name for output in graph.output)
    return read - {""}


def _standard_function(
    node: NodeProto, domain: str, version: int, inputs: Sequence[Item]
) -> tuple[NodeProto, FunctionProto] | None:
    """The nodes by which ONNX itself defines an operator, if it does; and the node with the
    operator's defaults for the attributes that it leaves out."""
    try:
        schema: Any = defs.get_schema(node.op_type, version, domain)
    except defs.SchemaError:
        return None
    function = FunctionProto()
    if schema.has_function:
        function = schema.function_body
    elif schema.has_context_dependent_function:
        types = [_type(item).SerializeToString() for item in inputs]
        newest = max(schema.context_dependent_function_opset_versions)
        function.ParseFromString(
            schema.get_context_dependent_function_with_opset_version(
                newest, node.SerializeToString(), types
            )
        )
    if not function.node:
        return None
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type:
            node.attribute.append(attribute.default_value)
    return node, function


def _type(item: Item) -> TypeProto:
    if not isinstance(item, Value):
        return TypeProto()
    return helper.make_tensor_type_proto(elem_type(item.dtype), list(item.shape))
