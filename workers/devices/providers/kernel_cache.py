"""Compiled kernels on disk: one folder for each key, held whole or not at all.

    ROOT/<key>/            an entry: its files, and entry.json with the digest of each
    ROOT/build/            where the compiler works, shared by all entries

ROOT is ``PLAIT_KERNEL_CACHE`` or ``~/.cache/plait/kernels``. Entries are code that this process
will run: the folder is made for its owner alone.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

MANIFEST = "entry.json"


def default_root() -> Path:
    """Where kernels are kept unless told otherwise."""
    given = os.environ.get("PLAIT_KERNEL_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "plait" / "kernels"


class KernelCache:
    """Entries under ``root``, which need not exist yet. Several processes may use it at once."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def build(self) -> Path:
        """The compiler's folder, made if it is not there."""
        folder = self._root / "build"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def find(self, key: str) -> tuple[Path, dict[str, Any]] | None:
        """The entry's folder and what was noted about it; None if there is none that is whole."""
        folder = self._root / key
        try:
            manifest = json.loads((folder / MANIFEST).read_bytes())
            if manifest["files"] == _digests(folder):
                return folder, manifest["notes"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return None

    def store(self, key: str, notes: dict[str, Any], fill: Callable[[Path], None]) -> Path:
        """Make the entry of what ``fill`` writes into the folder that it is given. Replaces an
        entry that is not whole; of two processes that store at once, the first one's stays."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=self._root))
        try:
            fill(made)
            manifest = {"notes": notes, "files": _digests(made)}
            (made / MANIFEST).write_text(json.dumps(manifest, indent=1))
            if self.find(key) is None:
                self.drop(key)
                # Another process may have put its own there meanwhile, which serves as well.
                with suppress(OSError):
                    made.rename(self._root / key)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return self._root / key

    def drop(self, key: str) -> None:
        """Remove the entry, if there is one. Who has loaded it keeps what was loaded."""
        folder = self._root / key
        if folder.exists():
            gone = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=self._root))
            with suppress(OSError):
                folder.rename(gone / key)
            shutil.rmtree(gone, ignore_errors=True)


def _digests(folder: Path) -> dict[str, str]:
    return {
        path.name: blake2b(path.read_bytes(), digest_size=16).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST
    }
