"""What the description of an ONNX operator sees of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from workers.graph.importers.onnx.recorder import Recorder, Value
from workers.graph.importers.source import ImportFailure

if TYPE_CHECKING:
    from onnx import GraphProto

Item = Value | tuple[Value, ...] | None
"""What an edge carries: a tensor, a sequence of tensors, or, left out, nothing."""


class Scope(Protocol):
    """Runs a subgraph of a node, which sees the values around the node."""

    def __call__(self, graph: GraphProto, inputs: Sequence[Item]) -> list[Item]: ...


class Node:
    """One call of an ONNX operator: its inputs, its attributes, and where its results go.

    ``version`` is the version of the operator's domain that the model imports, ``outputs`` the
    number of outputs that the model names.
    """

    def __init__(
        self,
        *,
        op_type: str,
        version: int,
        inputs: Sequence[Item],
        attributes: Mapping[str, Any],
        outputs: Sequence[str],
        recorder: Recorder,
        run: Scope,
    ) -> None:
        self.op_type, self.version = op_type, version
        self.items, self.attributes, self.outputs = tuple(inputs), attributes, tuple(outputs)
        self.recorder, self.run = recorder, run

    def __getitem__(self, index: int) -> Value:
        """The input at ``index``, which must be there and be a tensor."""
        value = self.optional(index)
        if value is None:
            raise ImportFailure("malformed", f"its input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        """The input at ``index``, None if it is left out."""
        item = self.items[index] if index < len(self.items) else None
        if isinstance(item, tuple):
            raise ImportFailure("malformed", f"its input {index} is a sequence, not a tensor")
        return item

    def sequence(self, index: int) -> tuple[Value, ...]:
        """The input at ``index``, which must be a sequence."""
        item = self.items[index]
        if not isinstance(item, tuple):
            raise ImportFailure("malformed", f"its input {index} is a tensor, not a sequence")
        return item

    @property
    def inputs(self) -> tuple[Value, ...]:
        """All inputs, which must be tensors."""
        return tuple(self[index] for index in range(len(self.items)))

    def wants(self, index: int) -> bool:
        """Whether the model names the output at ``index``."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def known(self, index: int) -> Tensor:
        """The elements of the input at ``index``. Raises ImportFailure if they are not constant."""
        value = self[index]
        if not value.constant:
            raise ImportFailure(
                "unsupported_operator",
                f"its input {index} ({value.name}) must be known when the model is imported, but "
                "it is computed from the model's inputs; export the model with fixed sizes",
            )
        return value.tensor

    def known_ints(self, index: int) -> list[int]:
        """The constant input at ``index`` as a list of integers."""
        return [int(item) for item in self.known(index).reshape(-1).tolist()]

    def integers_from(self, name: str, index: int) -> list[int] | None:
        """Integers that older versions give as an attribute and newer ones as an input."""
        if name in self.attributes:
            return [int(item) for item in self.attributes[name]]
        return None if self.optional(index) is None else self.known_ints(index)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or ``default``; None as default means that it is required."""
        if name not in self.attributes:
            if default is None:
                raise ImportFailure("malformed", f"its attribute {name!r} is missing")
            return default
        return self.attributes[name]

    def has(self, name: str) -> bool:
        return name in self.attributes

    def integer(self, name: str, default: int | None = None) -> int:
        return int(self.get(name, default))

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        return [int(item) for item in self.get(name, default)]

    def number(self, name: str, default: float | None = None) -> float:
        return float(self.get(name, default))

    def text(self, name: str, default: str | None = None) -> str:
        return str(self.get(name, default))

    def axis(self, name: str, rank: int, default: int | None = None) -> int:
        """An attribute that names an axis of ``rank`` many, as a non-negative number."""
        return self.on(self.integer(name, default), rank)

    def on(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front. Raises ImportFailure if there is no such axis."""
        if not -rank <= axis < max(rank, 1):
            raise ImportFailure("malformed", f"its axis {axis} is not one of {rank}")
        return axis % rank if rank else 0

    def call(self, target: str, *arguments: Any, **keywords: Any) -> Value:
        return self.recorder.call(target, *arguments, **keywords)

    def call_all(self, target: str, *arguments: Any, **keywords: Any) -> tuple[Value, ...]:
        return self.recorder.call_all(target, *arguments, **keywords)

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        if value.dtype is dtype:
            return value
        if value.constant:
            return Value(value.tensor.to(dtype), value.name)
        return self.call("_to_copy.default", value, dtype=dtype)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        if value.shape == tuple(shape):
            return value
        if value.constant:
            return Value(value.tensor.reshape(tuple(shape)), value.name)
        return self.call("reshape.default", value, list(shape))

    def constant(self, data: Any, dtype: torch.dtype) -> Value:
        return Value(torch.tensor(data, dtype=dtype))

    def refuse(self, detail: str) -> ImportFailure:
        """The failure to raise for what this operator may do but Plait does not support."""
        return ImportFailure("unsupported_operator", detail)
