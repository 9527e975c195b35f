"""The files of orders on a measuring host, each named by its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path
from uuid import UUID

from backend.storage import Storage
from workers.runner.remote.forms import digest_of
from workers.runner.remote.states import reference_key

KEPT_BYTES = 2 << 30
"""Of references, which are used again by later orders of the same job."""


class WrongFileError(ValueError):
    """A file that is not the one that was placed."""


class OrderFiles:
    """Unpacks what orders need into ``folder``."""

    def __init__(self, storage: Storage, folder: Path, kept_bytes: int = KEPT_BYTES) -> None:
        self._storage, self._kept_bytes = storage, kept_bytes
        self._libraries, self._references = folder / "libraries", folder / "references"
        for made in (self._libraries, self._references):
            made.mkdir(parents=True, exist_ok=True)

    def library(self, digest: str, content: bytes) -> Path:
        """The file with this content. Raises WrongFileError."""
        if hashlib.sha256(content).hexdigest() != digest:
            raise WrongFileError("its library is not the one that was placed")
        path = self._libraries / f"{digest}.so"
        if not path.exists():
            path.write_bytes(content)
        return path

    def reference(self, job_id: UUID, digest: str) -> Path:
        """The file from storage, fetched once. Raises WrongFileError and FileNotFoundError."""
        path = self._references / f"{digest}.npz"
        if path.exists():
            path.touch()
            return path
        part = path.with_suffix(".part")
        self._storage.fetch(reference_key(job_id, digest), part)
        if digest_of(part) != digest:
            part.unlink()
            raise WrongFileError("its reference outputs are not those that were placed")
        return part.replace(path)

    def clear(self) -> None:
        """Between batches: remove libraries, and the references that were not used for longest."""
        for library in self._libraries.iterdir():
            library.unlink()
        used = sorted(self._references.iterdir(), key=lambda path: path.stat().st_mtime)
        total = sum(path.stat().st_size for path in used)
        for path in used:
            if total <= self._kept_bytes:
                return
            total -= path.stat().st_size
            path.unlink()
