"""The zoo's models as files."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import torch
from torch.export import ExportedProgram

from workers.zoo import find, program


class FileFormat(StrEnum):
    ONNX = "onnx"
    PT2 = "pt2"


def export(name: str, file_format: FileFormat, path: Path, batch_size: int | None = None) -> None:
    """Write the model of that name to ``path``, which holds it whole or not at all.

    Without ``batch_size`` the file takes batches of any size. An ONNX file holds its weights, too:
    no model of the zoo reaches the 2 GB at which they would have to lie beside it. Raises KeyError
    if there is no such model, OSError if the file cannot be written, ImportError if what writes
    ONNX is not installed.
    """
    # In the same directory, so that moving it into place replaces at once.
    handle, given = tempfile.mkstemp(dir=path.parent, prefix=".plait-", suffix=f".{file_format}")
    os.close(handle)
    unfinished = Path(given)
    try:
        with _without_hints():
            exported = program(name, batch_size)
            if file_format is FileFormat.ONNX:
                _write_onnx(name, exported, unfinished, batch_size)
            else:
                torch.export.save(exported, unfinished)
        unfinished.chmod(0o644)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _write_onnx(name: str, exported: ExportedProgram, path: Path, batch_size: int | None) -> None:
    inputs = [given.name for given in find(name).inputs]
    outputs = [f"output_{index}" for index in range(len(exported.graph_signature.user_outputs))]
    batch = {0: torch.export.Dim("batch")} if batch_size is None else None
    torch.onnx.export(
        exported,
        (),
        path,
        input_names=inputs,
        output_names=outputs,
        dynamic_shapes=tuple(batch for _ in inputs),
        dynamo=True,
        external_data=False,
        verbose=False,
    )


@contextmanager
def _without_hints() -> Iterator[None]:
    """Keep from the user what torch says to developers: that it uses a function of its own that
    will go, that inputs share an axis name, that torchvision, which the zoo does not use, lacks."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
