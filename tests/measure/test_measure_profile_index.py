"""The ProfileIndex in memory and in a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.profile_index import KEY, MEASURED, OpenIndex, ProfileIndexConformance

from workers.measure.profile_index import FileIndex, MemoryIndex


class TestMemoryIndex(ProfileIndexConformance):
    @pytest.fixture
    def open_index(self) -> OpenIndex:
        index = MemoryIndex()
        return lambda: index


class TestFileIndex(ProfileIndexConformance):
    @pytest.fixture
    def open_index(self, tmp_path: Path) -> OpenIndex:
        return lambda: FileIndex(tmp_path / "profiles" / "index.jsonl")


@pytest.mark.parametrize("cut", [1, 40])
def test_a_torn_last_line_is_skipped_and_the_file_goes_on(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "index.jsonl"
    other, third = replace(KEY, signature="other"), replace(KEY, signature="third")
    FileIndex(path).record({KEY: MEASURED})
    FileIndex(path).record({other: MEASURED})
    path.write_bytes(path.read_bytes()[:-cut])
    FileIndex(path).record({third: MEASURED})
    FileIndex(path).record({replace(KEY, signature="fourth"): MEASURED})
    complete = [KEY, third] if cut > 1 else [KEY, other, third]
    assert list(FileIndex(path).lookup([KEY, other, third])) == complete


def test_a_line_that_is_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "index.jsonl"
    FileIndex(path).record({KEY: MEASURED})
    path.write_text(f"{{}}\n{path.read_text()}")
    with pytest.raises(ValueError, match=r"line 1 is no measurement: 'device_fingerprint'"):
        FileIndex(path)


def test_two_writers_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "index.jsonl"
    first, second = FileIndex(path), FileIndex(path)
    other = replace(KEY, signature="other")
    first.record({KEY: MEASURED})
    second.record({other: MEASURED, KEY: replace(MEASURED, latency_ms=9.0)})
    assert FileIndex(path).lookup([KEY, other]) == {KEY: MEASURED, other: MEASURED}
