"""Whether a file's bytes are of the format that its name claims.

Only a zip's directory and a file's first bytes are looked at: nothing is decompressed, parsed or
executed here. What is inside is for the sandbox.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path, PurePosixPath

from backend.problems import InvalidFieldsError
from backend.uploads.archive import ArchiveError, check_archive
from backend.uploads.formats import FORMATS

EXPORT = (
    "export the model with torch.export.export and torch.export.save (.pt2), or with "
    "torch.onnx.export (.onnx)"
)
_ZIP = b"PK"
_PICKLE = b"\x80"
_IR_VERSION = 0x08  # the tag of ModelProto's first field, a number
_MAX_IR_VERSION = 127  # one byte; ONNX is at 13


def check_bytes(path: Path, claimed: str) -> None:
    """Whether the file can be what its name claims. Raises InvalidFieldsError saying what it seems
    to be, and what to do."""
    with path.open("rb") as file:
        beginning = file.read(16)
    if not beginning:
        raise _wrong(f"the file is empty; it should be {FORMATS[claimed].title}")
    if claimed == "onnx":
        _check_onnx(beginning)
    else:
        _check_zip(path, beginning, claimed)


def _check_onnx(beginning: bytes) -> None:
    if beginning.startswith(_ZIP):
        raise _wrong(
            "a zip archive, but no .onnx file; name a bundle of an ONNX model and its external "
            "data .zip, and a torch.export archive .pt2"
        )
    if not _looks_like_onnx(beginning):
        raise _wrong(
            "no ONNX model: the file does not begin with an IR version as Protocol Buffers write "
            "it; save the model with onnx.save, not as text or JSON"
        )


def _looks_like_onnx(beginning: bytes) -> bool:
    return len(beginning) > 1 and beginning[0] == _IR_VERSION and 0 < beginning[1] < _MAX_IR_VERSION


def _check_zip(path: Path, beginning: bytes, claimed: str) -> None:
    title = FORMATS[claimed].title
    if beginning.startswith(_PICKLE):
        raise _wrong(f"a pickle that torch.save wrote, and not {title}; {EXPORT}")
    if _looks_like_onnx(beginning):
        raise _wrong(f"an ONNX model, as it seems, and not {title}; let its name end in .onnx")
    try:
        names = check_archive(path)
    except ArchiveError as error:
        raise _wrong(f"not usable as {title}: the zip archive is {error}") from None
    found = _format_of_members(names)
    if found == claimed == "onnx.zip":
        _check_bundle(names)
    elif found != claimed:
        if found is None:
            raise _wrong(f"a zip archive, but not {title}; {EXPORT}")
        if found == "pickle":
            raise _wrong(
                "weights or a module that torch.save wrote, which do not say what to compute; "
                f"{EXPORT}"
            )
        other = FORMATS[found]
        raise _wrong(f"{other.title}, and not {title}; let its name end in {other.endings[0]}")


def _format_of_members(names: Collection[str]) -> str | None:
    """What an archive of these entries is; a key of FORMATS, or ``pickle``."""
    # torch puts everything into one folder, of any name.
    inner = {PurePosixPath(*PurePosixPath(name).parts[1:]).as_posix() for name in names}
    if "archive_format" in inner or "serialized_exported_program.json" in {*names, *inner}:
        return "pt2"
    if "constants.pkl" in inner and any(name.startswith("code/") for name in inner):
        return "torchscript"
    if "data.pkl" in inner:
        return "pickle"
    if any(name.lower().endswith(".onnx") for name in names):
        return "onnx.zip"
    return None


def _check_bundle(names: Collection[str]) -> None:
    models = [name for name in names if name.lower().endswith(".onnx")]
    if len(models) > 1:
        raise _wrong(
            f"a bundle of {len(models)} ONNX models ({', '.join(sorted(models)[:5])}); pack one, "
            "with the files of its external data"
        )


def _wrong(message: str) -> InvalidFieldsError:
    return InvalidFieldsError(("file", message))
