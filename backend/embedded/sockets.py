"""Where a server's Unix socket can be: a path of at most 107 bytes that others cannot enter."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from backend.embedded.account import Account
from backend.embedded.errors import EmbeddedError

MAX_PATH_BYTES = 107


def socket_directory(preferred: Path, name: str, account: Account | None = None) -> Path:
    """``preferred`` if the socket's path fits there, else a private folder with a short path."""
    if len(os.fsencode(preferred / name)) <= MAX_PATH_BYTES:
        return preferred
    folder = _short(preferred)
    owner = account.uid if account else os.geteuid()
    try:
        folder.mkdir(mode=0o700)
        if account:
            os.chown(folder, account.uid, account.gid)
    except FileExistsError:
        pass  # ours from before, or a trap: told apart below
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != owner or status.st_mode & 0o077:
        raise EmbeddedError(f"{folder} exists and is not private to us; delete it, or set TMPDIR")
    return folder


def discard_short_directory(preferred: Path) -> None:
    """Remove the folder that ``socket_directory`` may have made instead of ``preferred``."""
    with suppress(OSError):  # there is none, or the socket of a server that was killed is in it
        _short(preferred).rmdir()


def _short(preferred: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(preferred)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"plait-{digest}"
