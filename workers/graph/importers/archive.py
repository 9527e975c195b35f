"""The check of a zip archive before anything reads what is in it.

Only the central directory is looked at, so a bomb costs nothing. The API checks an upload in the
same way when it arrives; this check, made in the sandbox, is the one that importing relies on.
"""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path

MAX_ENTRIES = 20_000
MAX_RATIO = 200  # weights are stored as they are, and JSON shrinks about tenfold

_LOCAL_HEADER_BYTES = 30  # before its name and extra field
_ENCRYPTED = 0x1


class ArchiveError(ValueError):
    """An archive that must not be opened; the message names the entry and what is wrong with it."""


class ArchiveTooLargeError(ArchiveError):
    """An archive that would unpack to more than is allowed."""


def check_archive(path: Path, max_bytes: int) -> tuple[str, ...]:
    """The names of the archive's entries, in order.

    Raises ArchiveTooLargeError if it has too many entries, unpacks to more than ``max_bytes`` or
    is a bomb, and ArchiveError if it is damaged or one of its entries is not a plain file with a
    name of its own inside the archive.
    """
    entries = _entries(path)
    if not entries:
        raise ArchiveError("the archive is empty")
    if len(entries) > MAX_ENTRIES:
        raise ArchiveTooLargeError(f"the archive has {len(entries)} entries, over {MAX_ENTRIES}")
    _check_names(entries)
    _check_extents(entries, path.stat().st_size)
    _check_sizes(entries, max_bytes)
    return tuple(entry.filename for entry in entries)


def _entries(path: Path) -> Sequence[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    # Besides its own error, zipfile lets those of the functions that it parses with through.
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
        raise ArchiveError(f"it is not a zip archive, or it is cut off or damaged ({error})") from (
            error
        )


def _check_names(entries: Sequence[zipfile.ZipInfo]) -> None:
    seen: set[str] = set()
    for entry in entries:
        written = entry.orig_filename  # zipfile cleans the other one up
        parts = written.replace("\\", "/").split("/")
        if parts[0] == "" or parts[0].endswith(":"):
            raise ArchiveError(f"the entry {written!r} has an absolute path")
        if ".." in parts:
            raise ArchiveError(f"the entry {written!r} leads out of the archive")
        if "\0" in written:
            raise ArchiveError(f"the name of the entry {written!r} has a zero byte")
        if entry.filename in seen:
            raise ArchiveError(f"the entry {written!r} is there twice")
        mode = entry.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ArchiveError(f"the entry {written!r} is a link or a special file")
        if entry.flag_bits & _ENCRYPTED:
            raise ArchiveError(f"the entry {written!r} is encrypted")
        seen.add(entry.filename)


def _check_extents(entries: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Every entry lies in the file, and none overlaps another, as a bomb's do."""
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            raise ArchiveError(f"the entry {entry.filename!r} overlaps the one before it")
        end = entry.header_offset + _LOCAL_HEADER_BYTES + entry.compress_size
        if end > size:
            raise ArchiveError(f"the entry {entry.filename!r} is cut off")


def _check_sizes(entries: Sequence[zipfile.ZipInfo], max_bytes: int) -> None:
    total = 0
    for entry in entries:
        total += entry.file_size
        if entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
            ratio = entry.file_size // max(entry.compress_size, 1)
            raise ArchiveTooLargeError(
                f"the entry {entry.filename!r} unpacks to {ratio} times its size, "
                f"over {MAX_RATIO}: this is how a zip bomb looks"
            )
        if total > max_bytes:
            raise ArchiveTooLargeError(
                f"with the entry {entry.filename!r} it unpacks to {total} bytes, over {max_bytes}"
            )
