"""Which file formats there are, told from a file's name."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType

from backend.problems import InvalidFieldsError

MAX_NAME = 120


@dataclass(frozen=True, slots=True)
class FileFormat:
    """``endings`` are those of its files' names, the usual one first. Loading a ``trusted`` one
    executes code that is in the file, so that uploading it needs the scope upload:trusted."""

    title: str
    endings: tuple[str, ...]
    trusted: bool


FORMATS: Mapping[str, FileFormat] = MappingProxyType(
    {
        "onnx": FileFormat("an ONNX model", (".onnx",), trusted=False),
        "onnx.zip": FileFormat("an ONNX model with its external data", (".zip",), trusted=False),
        "pt2": FileFormat("a torch.export archive", (".pt2",), trusted=True),
        "torchscript": FileFormat("a TorchScript archive", (".pt", ".pth", ".ts"), trusted=True),
    }
)
"""By the key that the importers know the format by."""


def format_of(filename: str, accepted: Iterable[str]) -> str:
    """The format that the name claims. Raises InvalidFieldsError if it is not ``accepted``, which
    are the formats that a device reads."""
    known = {key: FORMATS[key] for key in sorted(accepted) if key in FORMATS}
    suffix = PurePosixPath(filename).suffix.lower()
    for key, file_format in known.items():
        if suffix in file_format.endings:
            return key
    endings = ", ".join(ending for each in known.values() for ending in each.endings)
    hint = endings or "none yet (has a worker been started?)"
    raise InvalidFieldsError(
        ("file", f"{filename!r} is of no format that a device reads; known endings: {hint}")
    )


def sanitise(filename: str) -> str:
    """The name alone: no folders, nothing that cannot be printed, at most 120 characters."""
    name = unicodedata.normalize("NFC", filename).replace("\\", "/").rpartition("/")[2]
    name = "".join(c for c in name if c.isprintable() and c not in '<>:"|?*').strip(". ")
    if not name:
        raise InvalidFieldsError(("filename", f"{filename!r} is not a file's name"))
    stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
    return stem[: MAX_NAME - len(suffix)] + suffix
