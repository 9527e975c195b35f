"""Reading a zip's central directory before anything else touches the file."""

from __future__ import annotations

import stat
import struct
import zipfile
from pathlib import Path
from typing import BinaryIO

MAX_ENTRIES = 20_000
MAX_DIRECTORY_BYTES = 8 << 20
MAX_TOTAL_BYTES = 16 << 30
MAX_RATIO = 200  # real archives hold weights uncompressed; a bomb's ratio is in the thousands

_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE = b"PK\x05\x06"
_LOCATOR = struct.Struct("<4sLQL")
_LOCATOR_SIGNATURE = b"PK\x06\x07"
_END64 = struct.Struct("<4sQ2H2L4Q")
_END64_SIGNATURE = b"PK\x06\x06"


class ArchiveError(ValueError):
    """A zip that must not be unpacked, with the reason."""


def check_archive(path: Path) -> list[str]:
    """The names in the archive. Raises ArchiveError if it is truncated, a bomb, or reaches out of
    its folder. Nothing is decompressed."""
    size = path.stat().st_size
    with path.open("rb") as file:
        _check_directory_size(file, size)  # before zipfile reads the whole directory into memory
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
            raise ArchiveError(f"damaged or truncated ({error})") from None
    if not entries:
        raise ArchiveError("empty")
    if len(entries) > MAX_ENTRIES:
        raise ArchiveError(f"{len(entries)} entries; at most {MAX_ENTRIES} are allowed")
    _check_sizes(entries, size)
    _check_names(entries)
    return [entry.filename for entry in entries]


def _check_directory_size(file: BinaryIO, size: int) -> None:
    tail_start = max(0, size - _END.size - 0xFFFF)
    file.seek(tail_start)
    tail = file.read()
    at = tail.rfind(_END_SIGNATURE)
    if at < 0 or len(tail) - at < _END.size:
        raise ArchiveError("damaged or truncated (no end of central directory)")
    directory_bytes = _END.unpack_from(tail, at)[5]
    if directory_bytes == 0xFFFFFFFF:
        directory_bytes = _directory_bytes_64(file, tail_start + at)
    if directory_bytes > MAX_DIRECTORY_BYTES:
        raise ArchiveError(f"a central directory of {directory_bytes} bytes")
    file.seek(0)


def _directory_bytes_64(file: BinaryIO, end: int) -> int:
    try:
        file.seek(end - _LOCATOR.size)
        signature, _, offset, _ = _LOCATOR.unpack(file.read(_LOCATOR.size))
        if signature == _LOCATOR_SIGNATURE:
            file.seek(offset)
            record = _END64.unpack(file.read(_END64.size))
            if record[0] == _END64_SIGNATURE:
                return int(record[8])
    except (OSError, struct.error, OverflowError):
        pass  # said below: whatever went wrong, the record is not where it must be
    raise ArchiveError("damaged or truncated (no zip64 end of central directory)")


def _check_sizes(entries: list[zipfile.ZipInfo], size: int) -> None:
    stored = sum(entry.compress_size for entry in entries)
    unpacked = sum(entry.file_size for entry in entries)
    if stored > size:
        raise ArchiveError("entries overlap, or are longer than the file")
    if unpacked > MAX_TOTAL_BYTES:
        raise ArchiveError(f"unpacks to {unpacked} bytes; at most {MAX_TOTAL_BYTES} are allowed")
    if unpacked > MAX_RATIO * max(stored, 1):
        raise ArchiveError(f"unpacks to {unpacked // max(stored, 1)} times its size")
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            raise ArchiveError(f"entry {entry.filename!r} overlaps another")
        end = entry.header_offset + entry.compress_size
        if end > size:
            raise ArchiveError(f"entry {entry.filename!r} is longer than the file")


def _check_names(entries: list[zipfile.ZipInfo]) -> None:
    seen: set[str] = set()
    for entry in entries:
        name = entry.orig_filename.replace("\\", "/")
        if name.startswith("/") or "\0" in name or (len(name) > 1 and name[1] == ":"):
            raise ArchiveError(f"entry {entry.orig_filename!r} has an absolute path")
        if ".." in name.split("/"):
            raise ArchiveError(f"entry {entry.orig_filename!r} reaches out of the archive")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise ArchiveError(f"entry {entry.orig_filename!r} is a link")
        if entry.flag_bits & 0x1:
            raise ArchiveError(f"entry {entry.orig_filename!r} is encrypted")
        if name in seen:
            raise ArchiveError(f"entry {entry.orig_filename!r} appears twice")
        seen.add(name)
