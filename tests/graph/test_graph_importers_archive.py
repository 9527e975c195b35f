from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.graph.importers.archive import (
    MAX_ENTRIES,
    ArchiveError,
    ArchiveTooLargeError,
    check_archive,
)

LIMIT = 1 << 20
LOCAL, DIRECTORY, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"


def write(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes], deflate: bool = False) -> Path:
    compression = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def edited(path: Path, *changes: tuple[bytes, int, str, int]) -> Path:
    """Change fields of the last record with that signature: (signature, offset, format, value)."""
    content = bytearray(path.read_bytes())
    for signature, offset, form, value in changes:
        struct.pack_into(form, content, content.rindex(signature) + offset, value)
    path.write_bytes(content)
    return path


def test_names_come_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "a", ("m/b", b"1"), ("m/a/", b""), ("m/a/c", b"2"))
    assert check_archive(path, LIMIT) == ("m/b", "m/a/", "m/a/c")


@pytest.mark.parametrize(
    "name", ["../up", "m/../../up", "m\\..\\..\\up", "/etc/passwd", "\\share", "C:/windows", ".."]
)
def test_a_name_that_leads_outside_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError) as refused:
        check_archive(write(tmp_path / "a", ("m/fine", b"1"), (name, b"1")), LIMIT)
    assert repr(name) in str(refused.value)


def test_a_name_with_a_zero_byte_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", ("m/xy", b"1"))
    path.write_bytes(path.read_bytes().replace(b"m/xy", b"m/\0y"))
    with pytest.raises(ArchiveError, match="zero byte"):
        check_archive(path, LIMIT)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", ("m/data", b"one"), ("m/data", b"two"))
    with pytest.raises(ArchiveError, match="'m/data' is there twice"):
        check_archive(path, LIMIT)


@pytest.mark.parametrize("kind", [0o120777, 0o010644, 0o060644], ids=["link", "pipe", "device"])
def test_an_entry_that_is_no_plain_file_is_refused(tmp_path: Path, kind: int) -> None:
    entry = zipfile.ZipInfo("m/link")
    entry.external_attr = kind << 16
    with pytest.raises(ArchiveError, match="'m/link' is a link or a special file"):
        check_archive(write(tmp_path / "a", (entry, b"/etc/passwd")), LIMIT)


def test_an_encrypted_entry_is_refused(tmp_path: Path) -> None:
    path = edited(write(tmp_path / "a", ("m/a", b"1")), (DIRECTORY, 8, "<H", 1))
    with pytest.raises(ArchiveError, match="'m/a' is encrypted"):
        check_archive(path, LIMIT)


def test_a_bomb_is_refused_without_unpacking_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a", ("m/zeros", bytes(LIMIT - 1)), deflate=True)
    with pytest.raises(ArchiveTooLargeError, match=r"'m/zeros' .* zip bomb"):
        check_archive(path, LIMIT)


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    half = bytes(LIMIT // 2)
    path = write(tmp_path / "a", ("m/1", half), ("m/2", half), ("m/3", b"1"))
    with pytest.raises(ArchiveTooLargeError, match="'m/3'"):
        check_archive(path, LIMIT)
    assert len(check_archive(path, LIMIT + 1)) == 3


def test_a_size_that_only_the_directory_claims_counts(tmp_path: Path) -> None:
    path = edited(write(tmp_path / "a", ("m/a", bytes(100))), (DIRECTORY, 24, "<I", 0xFFFFFFF0))
    with pytest.raises(ArchiveTooLargeError):
        check_archive(path, 1 << 40)


def test_overlapping_entries_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", ("m/a", bytes(100)), ("m/b", bytes(100)))
    with pytest.raises(ArchiveError, match="'m/b' overlaps"):
        check_archive(edited(path, (DIRECTORY, 42, "<I", 10)), LIMIT)


def test_an_entry_beyond_the_end_is_refused(tmp_path: Path) -> None:
    path = edited(write(tmp_path / "a", ("m/a", bytes(100))), (DIRECTORY, 20, "<I", 5000))
    with pytest.raises(ArchiveError, match="'m/a' is cut off"):
        check_archive(path, LIMIT)


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", *((f"m/{i}", b"") for i in range(MAX_ENTRIES + 1)))
    with pytest.raises(ArchiveTooLargeError, match=f"{MAX_ENTRIES + 1} entries"):
        check_archive(path, LIMIT)


@pytest.mark.parametrize(
    "content", [b"", b"no zip", b"PK\3\4", END + bytes(18), END + b"\xff" * 18]
)
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(ArchiveError):
        check_archive(path, LIMIT)


def test_an_archive_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "a", ("m/a", b"1234"), ("m/b", b"5678")).read_bytes()
    for length in range(len(whole)):
        (tmp_path / "b").write_bytes(whole[:length])
        with pytest.raises(ArchiveError):
            check_archive(tmp_path / "b", LIMIT)


def _archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("m/a", b"1234")
        archive.writestr("m/b", b"5678")
    return buffer.getvalue()


@given(st.lists(st.tuples(st.integers(0, len(_archive()) - 1), st.integers(0, 255)), max_size=6))
def test_damage_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(_archive())
    for position, value in changes:
        content[position] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content)
    try:
        names = check_archive(path, LIMIT)
    except ArchiveError:
        return
    assert not any(name.startswith("/") or ".." in name.split("/") for name in names)
