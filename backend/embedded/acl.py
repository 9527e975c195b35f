"""Letting one account pass through a folder: POSIX access control lists, as Linux stores them."""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

ATTRIBUTE = "system.posix_acl_access"
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_NOBODY = 0xFFFFFFFF
_OWNER, _USER, _GROUP, _NAMED_GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_ENTER = 0o1


@dataclass(frozen=True, slots=True, order=True)
class _Entry:
    """Ordered as the kernel wants them: by tag, then by id."""

    tag: int
    identifier: int
    permissions: int


def may_enter(folder: Path, uid: int) -> bool:
    """Whether ``uid``, which is in no group that matters here, may pass through ``folder``."""
    status = folder.stat()
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IXUSR)
    entries = _read(folder, status.st_mode)
    named = [e for e in entries if e.tag == _USER and e.identifier == uid]
    if named:
        mask = next((e.permissions for e in entries if e.tag == _MASK), 0o7)
        return bool(named[0].permissions & mask & _ENTER)
    return bool(status.st_mode & stat.S_IXOTH)


def let_enter(folder: Path, uid: int) -> None:
    """Add an entry that lets ``uid`` pass through ``folder`` but not list it. Raises OSError
    where the filesystem has no access control lists."""
    kept = [
        entry
        for entry in _read(folder, folder.stat().st_mode)
        if entry.tag != _MASK and not (entry.tag == _USER and entry.identifier == uid)
    ]
    entries = [*kept, _Entry(_USER, uid, _ENTER)]
    mask = 0
    for entry in entries:
        if entry.tag in (_USER, _GROUP, _NAMED_GROUP):
            mask |= entry.permissions
    _write(folder, [*entries, _Entry(_MASK, _NOBODY, mask)])


def _read(folder: Path, mode: int) -> list[_Entry]:
    """The folder's entries; without a list, the three that its mode stands for."""
    try:
        raw = os.getxattr(folder, ATTRIBUTE)
    except OSError:
        return [
            _Entry(_OWNER, _NOBODY, mode >> 6 & 0o7),
            _Entry(_GROUP, _NOBODY, mode >> 3 & 0o7),
            _Entry(_OTHER, _NOBODY, mode & 0o7),
        ]
    return [
        _Entry(tag, identifier, permissions)
        for tag, permissions, identifier in _ENTRY.iter_unpack(raw[len(_VERSION) :])
    ]


def _write(folder: Path, entries: list[_Entry]) -> None:
    packed = (_ENTRY.pack(e.tag, e.permissions, e.identifier) for e in sorted(entries))
    os.setxattr(folder, ATTRIBUTE, _VERSION + b"".join(packed))
