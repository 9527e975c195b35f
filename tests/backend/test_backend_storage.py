"""Storage: a file is there whole or not at all, and only below its root."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from backend.storage import BLOCK_BYTES, Storage, StorageError


@pytest.fixture(params=["file", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "file":
        yield Storage(f"file://{tmp_path / 'storage'}")
    else:
        yield Storage("memory://bucket/plait")
        MemoryFileSystem.store.clear()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(bytes(range(256)) * (BLOCK_BYTES // 128))
    return path


def test_what_is_put_can_be_had_in_every_way(
    storage: Storage, source: Path, tmp_path: Path
) -> None:
    storage.put(source, "a/b/c.pt2")
    assert source.exists()
    assert storage.size("a/b/c.pt2") == source.stat().st_size
    assert b"".join(storage.read("a/b/c.pt2")) == source.read_bytes()
    assert all(len(block) <= BLOCK_BYTES for block in storage.read("a/b/c.pt2"))
    storage.fetch("a/b/c.pt2", tmp_path / "fetched")
    assert (tmp_path / "fetched").read_bytes() == source.read_bytes()


def test_taking_leaves_no_source(storage: Storage, source: Path) -> None:
    content = source.read_bytes()
    storage.take(source, "taken")
    assert not source.exists()
    assert b"".join(storage.read("taken")) == content


def test_a_later_file_takes_the_place_of_an_earlier(storage: Storage, source: Path) -> None:
    storage.put(source, "key")
    source.write_bytes(b"new")
    storage.put(source, "key")
    assert b"".join(storage.read("key")) == b"new"


def test_what_is_not_there_is_not_found(storage: Storage, tmp_path: Path) -> None:
    storage.delete("nothing")
    with pytest.raises(FileNotFoundError):
        storage.size("nothing")
    with pytest.raises(FileNotFoundError):
        next(storage.read("nothing"))
    with pytest.raises(FileNotFoundError):
        storage.fetch("nothing", tmp_path / "x")


def test_what_is_deleted_is_gone(storage: Storage, source: Path) -> None:
    storage.put(source, "key")
    storage.delete("key")
    with pytest.raises(FileNotFoundError):
        storage.size("key")


@pytest.mark.parametrize("key", ["", "/etc/passwd", "../x", "a/../../x", "a/.."])
def test_no_key_leads_out(storage: Storage, source: Path, key: str) -> None:
    for attempt in (storage.size, storage.delete, lambda key: storage.put(source, key)):
        with pytest.raises(StorageError):
            attempt(key)


def test_nobody_else_may_look_into_the_storage(source: Path, tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path / 'storage'}")
    storage.put(source, "a/b")
    assert (tmp_path / "storage").stat().st_mode & 0o077 == 0


def test_a_failed_copy_leaves_nothing(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path / 'storage'}")
    with pytest.raises(FileNotFoundError):
        storage.put(tmp_path / "not-there", "folder/key")
    assert [path for path in (tmp_path / "storage").rglob("*") if path.is_file()] == []


def test_readers_see_one_file_or_the_other_while_it_is_replaced(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path / 'storage'}")
    contents = [bytes([number]) * 100_000 for number in range(8)]
    sources = []
    for number, content in enumerate(contents):
        path = tmp_path / str(number)
        path.write_bytes(content)
        sources.append(path)
    storage.put(sources[0], "key")
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(storage.put, source, "key") for source in sources * 5]
        while not all(done.done() for done in writing):
            assert b"".join(storage.read("key")) in contents
        for done in writing:
            done.result()
