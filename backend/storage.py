"""Files by key: uploads and artifacts, on any filesystem that fsspec speaks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from uuid import uuid4

from fsspec.core import url_to_fs

BLOCK_BYTES = 1 << 20


class StorageError(ValueError):
    """A key that could name something outside the storage."""


class Storage:
    """The files under one fsspec URL, such as ``file:///srv/plait`` or ``s3://bucket/plait``.

    A key is a relative path in POSIX form. A file appears whole under its key or not at all.
    """

    def __init__(self, url: str) -> None:
        self._files, self._root = url_to_fs(url)
        self._local = self._files.protocol == "file" or "file" in self._files.protocol

    def put(self, source: Path, key: str) -> None:
        """Copy ``source`` to ``key``, in place of any older file."""
        target = self._path(key)
        if not self._local:
            self._files.put_file(str(source), target)  # object stores show whole objects only
            return
        final = self._with_folder(target)
        scratch = final.with_name(f".{final.name}.{uuid4().hex}")
        try:
            shutil.copyfile(source, scratch)
            _publish(scratch, final)
        finally:
            scratch.unlink(missing_ok=True)

    def take(self, source: Path, key: str) -> None:
        """Like ``put``, but ``source`` is gone afterwards; free on the same filesystem."""
        target = self._path(key)
        if self._local:
            final = self._with_folder(target)
            if source.stat().st_dev == final.parent.stat().st_dev:
                _publish(source, final)
                return
        self.put(source, key)
        source.unlink()

    def fetch(self, key: str, target: Path) -> None:
        """Copy the file at ``key`` to ``target``. Raises FileNotFoundError."""
        self._files.get_file(self._path(key), str(target))

    def size(self, key: str) -> int:
        """Bytes at ``key``. Raises FileNotFoundError."""
        return int(self._files.size(self._path(key)))

    def read(self, key: str) -> Iterator[bytes]:
        """The file's bytes in blocks. Raises FileNotFoundError on the first."""
        with self._files.open(self._path(key), "rb", block_size=BLOCK_BYTES) as file:
            while block := file.read(BLOCK_BYTES):
                yield block

    def delete(self, key: str) -> None:
        """Remove the file at ``key``; nothing happens if there is none."""
        try:
            self._files.rm_file(self._path(key))
        except FileNotFoundError:
            return

    def _with_folder(self, target: str) -> Path:
        """The local path, in a folder that exists. Models are nobody else's business."""
        Path(self._root).mkdir(mode=0o700, parents=True, exist_ok=True)
        path = Path(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _path(self, key: str) -> str:
        parts = PurePosixPath(key).parts
        if not parts or key.startswith("/") or ".." in parts:
            raise StorageError(f"not a storage key: {key!r}")
        return f"{self._root}/{key}"


def _publish(scratch: Path, final: Path) -> None:
    """Give a finished file its name. It is on the disk before it has it, so that not even a power
    failure leaves a row in the database that points at half a file."""
    _sync(scratch)
    scratch.replace(final)
    _sync(final.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
