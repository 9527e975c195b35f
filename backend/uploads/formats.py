"""Which file formats there are, told from a name and from the bytes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from backend.problems import InvalidFieldsError
from backend.uploads.archive import ArchiveError, check_archive

# Loading these executes code that is in the file, so they need the scope upload:trusted.
TRUSTED_FORMATS = frozenset({"pt2"})
SUFFIXES = {".pt2": "pt2"}
MAX_NAME = 120
NOT_EXPORTED = (
    "a zip archive, but not one that torch.export.save wrote (it has no archive_format); export "
    "the model with torch.export.export and save that"
)


def format_of(filename: str, accepted: Iterable[str]) -> str:
    """The format that the name claims. Raises InvalidFieldsError if no device reads it."""
    known = sorted(accepted)
    suffix = PurePosixPath(filename).suffix.lower()
    claimed = SUFFIXES.get(suffix)
    if claimed is None or claimed not in known:
        names = ", ".join(s for s, f in SUFFIXES.items() if f in known)
        hint = names or "none yet (has a worker been started?)"
        raise InvalidFieldsError(
            ("file", f"{filename!r} is of no format that a device reads; known: {hint}")
        )
    return claimed


def check_bytes(path: Path, claimed: str) -> None:
    """Whether the file is what its name claims, without executing anything of it. Raises
    InvalidFieldsError."""
    try:
        names = check_archive(path)
    except ArchiveError as error:
        raise InvalidFieldsError(("file", f"not a usable .{claimed} archive: {error}")) from None
    members = {PurePosixPath(name).parts[-1] for name in names}
    if "archive_format" not in members and "serialized_exported_program.json" not in members:
        raise InvalidFieldsError(("file", NOT_EXPORTED))


def sanitise(filename: str) -> str:
    """The name alone: no folders, nothing that cannot be printed, at most 120 characters."""
    name = unicodedata.normalize("NFC", filename).replace("\\", "/").rpartition("/")[2]
    name = "".join(c for c in name if c.isprintable() and c not in '<>:"|?*').strip(". ")
    if not name:
        raise InvalidFieldsError(("filename", f"{filename!r} is not a file's name"))
    stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
    return stem[: MAX_NAME - len(suffix)] + suffix
