"""Reading an ``.onnx`` file: parsed without its weights, and checked."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto, defs

from workers.graph.importers.archive import ArchiveError, ArchiveTooLargeError, check_archive
from workers.graph.importers.onnx.tensors import mapped
from workers.graph.importers.onnx.wire import WireError, slim
from workers.graph.importers.source import ImportFailure

OLDEST_OPSET = 7
_DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True, slots=True)
class ModelData:
    """A parsed model. ``content`` is the mapped file, ``places`` say where in it the large tensors
    lie; ``folder`` holds the files of its external data, None if it may have none."""

    model: ModelProto
    path: Path
    content: memoryview
    places: Sequence[tuple[int, int]]
    folder: Path | None


def read_model(path: Path, folder: Path | None) -> ModelData:
    """Read an ``.onnx`` file. Raises ImportFailure saying what is wrong with it."""
    content = mapped(path)
    model = ModelProto()
    try:
        found = slim(content)
        model.ParseFromString(found.message)
    except (WireError, ValueError, RecursionError) as error:
        raise _no_model(str(error)) from error
    except Exception as error:  # Protocol Buffers' own DecodeError derives from nothing else
        raise _no_model(str(error)) from error
    return ModelData(checked_model(model), path, content, found.places, folder)


def checked_model(model: ModelProto) -> ModelProto:
    """The model, if it has a graph of a version that is known. Raises ImportFailure."""
    if not model.HasField("graph") or not model.graph.node:
        raise _no_model("it has no graph with nodes")
    operator_versions(model)
    return model


def _no_model(reason: str) -> ImportFailure:
    return ImportFailure(
        "malformed",
        f"not a usable .onnx file: {reason}; check it with onnx.checker.check_model and export "
        "the model again",
    )


def operator_versions(model: ModelProto) -> dict[str, int]:
    """The version of each operator domain; the default one goes by the empty name."""
    versions = {
        "" if entry.domain in _DEFAULT_DOMAINS else entry.domain: entry.version
        for entry in model.opset_import
    }
    version, newest = versions.get(""), defs.onnx_opset_version()
    if version is None and not model.functions:
        raise _no_model("it does not say which version of ONNX's operators it uses")
    if version is not None and not OLDEST_OPSET <= version <= newest:
        raise ImportFailure(
            "unsupported_operator",
            f"the model uses version {version} of ONNX's operators; {OLDEST_OPSET} to {newest} are "
            "supported: convert it with onnx.version_converter.convert_version",
        )
    return versions


def unpacked_bundle(path: Path, memory_bytes: int) -> Path:
    """Unpack a ``.zip`` of one ``.onnx`` file and its data files into a new folder; the path of the
    ``.onnx`` file there.

    Raises ImportFailure if the archive must not be opened, or has not exactly one ``.onnx`` file.
    """
    try:
        names = check_archive(path, memory_bytes)
    except ArchiveError as error:
        kind = "too_large" if isinstance(error, ArchiveTooLargeError) else "malformed"
        raise ImportFailure(kind, f"not a usable bundle: {error}; pack it again") from error
    models = [name for name in names if name.lower().endswith(".onnx")]
    if len(models) != 1:
        found = ", ".join(models[:5]) or "none"
        raise ImportFailure(
            "malformed",
            f"a bundle has exactly one .onnx file beside its data files; this one has {found}",
        )
    folder = Path(tempfile.mkdtemp(prefix="bundle-"))
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error) as error:
        raise ImportFailure(
            "malformed", f"the bundle cannot be unpacked: {error}; pack it again"
        ) from error
    return folder / models[0]
