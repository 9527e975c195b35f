"""ONNX models that come with data files, in one ``.zip``."""

from __future__ import annotations

from pathlib import Path

from workers.graph.importers.onnx import OnnxModel
from workers.graph.importers.onnx.model_file import read_model, unpacked_bundle
from workers.graph.importers.opened import Sizes


def open_model(path: Path, sizes: Sizes, memory_bytes: int) -> OnnxModel:
    """Open a bundle. Tensors may lie in the files beside the model, and nowhere else. Raises
    ImportFailure."""
    model = unpacked_bundle(path, memory_bytes)
    return OnnxModel(read_model(model, model.parent), sizes)
