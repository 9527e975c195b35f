"""The original model as its user would call it. Opening may execute its code: only in the
sandbox."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from workers import zoo
from workers.graph.graph import TensorSpec
from workers.graph.importers import pt2, torchscript
from workers.graph.importers.catalog import FORMATS
from workers.graph.importers.input_sizes import FixedBatch
from workers.graph.importers.opened import Sizes
from workers.graph.importers.program_inputs import dtype_name, program_inputs
from workers.graph.importers.source import ImportFailure

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TorchOriginal:
    """A module, and what it is called with: ``specs`` are its inputs in order, and ``arguments``
    puts tensors for them into the nesting that the module takes."""

    module: Any
    specs: Mapping[str, TensorSpec]
    arguments: Callable[[Sequence[Tensor]], Arguments]


@dataclass(frozen=True, slots=True)
class OnnxOriginal:
    """A model's file, and its inputs in order."""

    path: Path
    specs: Mapping[str, TensorSpec]


Original = TorchOriginal | OnnxOriginal


def open_original(order: Mapping[str, Any]) -> Original:
    """Open the model of an order. Raises ImportFailure, also for a model that takes another batch
    size only: what its user has is then not what the job asks for."""
    sizes = Sizes(order["batch_size"], order["sequence_length"])
    if order["zoo"]:
        return _of_zoo(order["zoo"], sizes)
    path, memory_bytes = Path(order["model"]), order["memory_bytes"]
    if order["format"] == "pt2":
        return _of_program(path, sizes, memory_bytes)
    if order["format"] == "torchscript":
        return _of_script(path, sizes, memory_bytes)
    return _of_onnx(order["format"], path, sizes, memory_bytes)


def _of_zoo(name: str, sizes: Sizes) -> TorchOriginal:
    given = zoo.inputs(name, sizes.batch_size, sizes.sequence_length)
    specs = {
        f"input_{number}": TensorSpec(tuple(t.shape), dtype_name(t.dtype, f"input {number}"))
        for number, t in enumerate(given)
    }
    return TorchOriginal(zoo.build(name), specs, _positional)


def _of_program(path: Path, sizes: Sizes, memory_bytes: int) -> TorchOriginal:
    model = pt2.open_model(path, sizes, memory_bytes)
    inputs = program_inputs(model.program, sizes, model.declared)
    _refuse_fixed(inputs.fixed, sizes)

    def arguments(tensors: Sequence[Tensor]) -> Arguments:
        return inputs.call(model.program, dict(zip(inputs.tensors, tensors, strict=True)))

    return TorchOriginal(model.program.module(), inputs.tensors, arguments)


def _of_script(path: Path, sizes: Sizes, memory_bytes: int) -> TorchOriginal:
    model = torchscript.open_model(path, sizes, memory_bytes)
    _refuse_fixed(model.inputs.fixed, sizes)
    return TorchOriginal(model.module, model.inputs.tensors, _positional)


def _of_onnx(form: str, path: Path, sizes: Sizes, memory_bytes: int) -> OnnxOriginal:
    importer = importlib.import_module(FORMATS[form])  # the package onnx is optional
    inputs_of = importlib.import_module("workers.graph.importers.onnx.inputs")
    model = importer.open_model(path, sizes, memory_bytes)
    inputs = inputs_of.model_inputs(model.data.model.graph, sizes)
    if inputs.rebatched:
        stated, _ = inputs.batch_sizes
        raise _other_batch(stated, sizes)
    return OnnxOriginal(model.data.path, inputs.wanted)


def _positional(tensors: Sequence[Tensor]) -> Arguments:
    return tuple(tensors), {}


def _refuse_fixed(fixed: FixedBatch | None, sizes: Sizes) -> None:
    if fixed is not None:
        raise _other_batch(fixed.size, sizes)


def _other_batch(size: int, sizes: Sizes) -> ImportFailure:
    return ImportFailure(
        "unsupported_batch",
        f"the original takes batch size {size} only, and the job asks for {sizes.batch_size}",
    )
