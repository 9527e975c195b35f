"""What an ONNX model is called with, at the sizes that a job asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from onnx import GraphProto, TypeProto, ValueInfoProto

from workers.graph.graph import TensorSpec
from workers.graph.importers.onnx.tensors import dtype_of
from workers.graph.importers.opened import Sizes
from workers.graph.importers.source import ImportFailure


@dataclass(frozen=True, slots=True)
class Inputs:
    """``wanted`` are the inputs' specifications at the job's sizes, ``stated`` those at the batch
    size that the file states; they are the same where the file leaves the batch open."""

    wanted: Mapping[str, TensorSpec]
    stated: Mapping[str, TensorSpec]

    @property
    def rebatched(self) -> bool:
        """Whether the model is to run at another batch size than the one it states."""
        return self.wanted != self.stated

    @property
    def batch_sizes(self) -> tuple[int, int]:
        """The size that the file states, and the one that the job asks for."""
        name = next(name for name, spec in self.stated.items() if spec != self.wanted[name])
        return self.stated[name].shape[0], self.wanted[name].shape[0]


def model_inputs(graph: GraphProto, sizes: Sizes) -> Inputs:
    """The inputs that are not given by initializers.

    An open first dimension is the batch, and so is every other one of the same name; the remaining
    open ones are sequences. If every input states its first dimension, that of the first is the
    batch: it is replaced wherever an input begins with it. Raises ImportFailure naming the input.
    """
    given = {initializer.name for initializer in graph.initializer}
    given.update(sparse.values.name for sparse in graph.sparse_initializer)
    declared = [_Declared.read(value) for value in graph.input if value.name not in given]
    batch_names = {d.sizes[0] for d in declared if d.sizes and isinstance(d.sizes[0], str)}
    opened = any(d.sizes and not isinstance(d.sizes[0], int) for d in declared)
    batch = None if opened else next((d.sizes[0] for d in declared if d.sizes), None)
    if sizes.sequence_length is not None and not any(d.sequences(batch_names) for d in declared):
        raise ImportFailure(
            "unsupported_input",
            f"the job asks for sequence length {sizes.sequence_length}, but no input of the model "
            "has an open dimension besides the batch; leave it out",
        )
    wanted, stated = {}, {}
    for item in declared:
        shape = item.shape(sizes, batch_names)
        stated[item.name] = TensorSpec(shape, item.dtype)
        if shape and shape[0] == batch and isinstance(batch, int):
            shape = (sizes.batch_size, *shape[1:])
        wanted[item.name] = TensorSpec(shape, item.dtype)
    return Inputs(wanted, stated)


def check_outputs(
    inputs: Inputs,
    stated: Mapping[str, Sequence[int]],
    wanted: Mapping[str, Sequence[int]],
) -> None:
    """Refuse a model whose outputs do not grow with its batch as the batch's rows do.

    ``stated`` and ``wanted`` are the outputs' shapes at both batch sizes. Raises ImportFailure.
    """
    name = next(name for name, spec in inputs.stated.items() if spec != inputs.wanted[name])
    before, after = inputs.batch_sizes
    advice = (
        f"the file states batch size {before} (input {name!r}); ask for {before}, or export the "
        "model with an open batch dimension"
    )
    for output, shape in stated.items():
        found = list(wanted[output])
        grown = [shape[0] // before * after, *shape[1:]] if shape else []
        if not shape or shape[0] % before or found != grown:
            raise ImportFailure(
                "unsupported_batch",
                f"at batch size {after} the output {output!r} has the shape {found}, not "
                f"{grown or 'one row a sample'}: the model has its batch size built in; {advice}",
            )


@dataclass(frozen=True, slots=True)
class _Declared:
    """An input as the file has it; a size is a number, a name, or None for neither."""

    name: str
    dtype: str
    sizes: tuple[int | str | None, ...]

    @classmethod
    def read(cls, value: ValueInfoProto) -> _Declared:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise ImportFailure(
                "unsupported_input",
                f"input {value.name!r} is a {(kind or 'thing').removesuffix('_type')}; only "
                "tensors are supported",
            )
        tensor: TypeProto.Tensor = value.type.tensor_type
        dtype: torch.dtype = dtype_of(tensor.elem_type, f"input {value.name!r}")
        if not tensor.HasField("shape"):
            raise ImportFailure(
                "unsupported_input",
                f"input {value.name!r} states no shape; export the model with its inputs' ranks",
            )
        sizes = tuple(
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in tensor.shape.dim
        )
        return cls(value.name, str(dtype).removeprefix("torch."), sizes)

    def sequences(self, batch_names: set[str]) -> bool:
        """Whether an open dimension is not the batch."""
        return any(
            not isinstance(size, int) and axis != 0 and size not in batch_names
            for axis, size in enumerate(self.sizes)
        )

    def shape(self, sizes: Sizes, batch_names: set[str]) -> tuple[int, ...]:
        found = []
        for axis, size in enumerate(self.sizes):
            if isinstance(size, int):
                found.append(size)
            elif axis == 0 or size in batch_names:
                found.append(sizes.batch_size)
            elif sizes.sequence_length is not None:
                found.append(sizes.sequence_length)
            else:
                what = f"dimension {size!r}" if size else f"dimension {axis}"
                raise ImportFailure(
                    "unsupported_input",
                    f"the model leaves {what} of input {self.name!r} open; say how long it is to "
                    "be with sequence_length (--sequence-length)",
                )
        return tuple(found)
