"""ONNX models to Graphs.

A file is data, not a program, so anybody may upload one; it is parsed in the sandbox all the same.
Its nodes are described as ATen operators one by one (``walk``, ``operators``); what does not depend
on the model's inputs is computed on the way (``recorder``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from workers.graph.graph import Graph, TensorSpec
from workers.graph.importers.onnx.inputs import Inputs, check_outputs, model_inputs
from workers.graph.importers.onnx.model_file import (
    ModelData,
    operator_versions,
    read_model,
)
from workers.graph.importers.onnx.recorder import Recorder, Value
from workers.graph.importers.onnx.reference import reference
from workers.graph.importers.onnx.tensors import TensorReader
from workers.graph.importers.onnx.walk import Walker
from workers.graph.importers.opened import Sizes
from workers.graph.importers.source import ImportFailure
from workers.graph.random_inputs import random_tensors


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """An ONNX model at given sizes: an ``OpenedModel``.

    ``fixed`` are inputs whose elements are part of what is imported, such as a shape.
    """

    data: ModelData
    sizes: Sizes
    fixed: Mapping[str, Tensor] = field(default_factory=dict)

    def graph(self) -> tuple[Graph, dict[str, Tensor]]:
        inputs = model_inputs(self.data.model.graph, self.sizes)
        recorder, outputs = self._recorded(inputs.wanted)
        if inputs.rebatched:
            _, stated = self._recorded(inputs.stated)
            check_outputs(inputs, _shapes(stated), _shapes(outputs))
        return recorder.graph("model", outputs)

    def run(self, seeds: Sequence[int]) -> list[dict[str, Tensor]]:
        inputs = model_inputs(self.data.model.graph, self.sizes)
        compute = reference(self.data.path)
        results = []
        for seed in seeds:
            tensors = random_tensors(inputs.wanted, seed)
            parts = [compute(part) for part in _batches(inputs, tensors)]
            outputs = [_joined(rows, inputs) for rows in zip(*parts, strict=True)]
            results.append({f"output_{index}": tensor for index, tensor in enumerate(outputs)})
        return results

    def _recorded(self, specs: Mapping[str, TensorSpec]) -> tuple[Recorder, dict[str, Value]]:
        model, recorder = self.data.model, Recorder()
        reader = TensorReader(self.data.content, self.data.places, self.data.folder)
        inputs = {
            name: Value(self.fixed[name])
            if name in self.fixed
            else recorder.input(name, spec.shape, getattr(torch, spec.dtype))
            for name, spec in specs.items()
        }
        walker = Walker(recorder, reader, model.functions)
        outputs = walker.model(model.graph, operator_versions(model), inputs)
        if not outputs:
            raise ImportFailure("malformed", "the model has no outputs")
        return recorder, outputs


def open_model(path: Path, sizes: Sizes, memory_bytes: int) -> OnnxModel:
    """Open an ``.onnx`` file. Raises ImportFailure saying what is wrong with it, and where."""
    return OnnxModel(read_model(path, None), sizes)


def _shapes(values: Mapping[str, Value]) -> dict[str, tuple[int, ...]]:
    return {name: value.shape for name, value in values.items()}


def _batches(inputs: Inputs, tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """The inputs in batches of the size that the file states, which is what the original takes;
    the last is filled up with copies of its last row."""
    if not inputs.rebatched:
        return [dict(tensors)]
    size, wanted = inputs.batch_sizes
    parts: list[dict[str, Tensor]] = []
    for start in range(0, wanted, size):
        rows = torch.arange(start, start + size).clamp(max=wanted - 1)
        parts.append(
            {
                name: tensor if inputs.wanted[name] == inputs.stated[name] else tensor[rows]
                for name, tensor in tensors.items()
            }
        )
    return parts


def _joined(rows: Sequence[Tensor], inputs: Inputs) -> Tensor:
    """An output of all batches together, without what was filled up."""
    if not inputs.rebatched:
        return rows[0]
    size, wanted = inputs.batch_sizes
    return torch.cat(list(rows))[: rows[0].shape[0] // size * wanted]
