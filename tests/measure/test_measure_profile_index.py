"""The ProfileIndex in memory and in a file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.profile_index import FAILED, KEY, MEASURED, OpenIndex, ProfileIndexConformance

from workers.measure.measurement import Failure, Measurement
from workers.measure.profile_index import FileIndex, MemoryIndex, ProfileKey
from workers.measure.profile_lines import ProfileLineError, from_line, read_lines, to_line


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
    with pytest.raises(ValueError, match=r"index.jsonl, line 1 is no measurement: its version"):
        FileIndex(path)


def test_two_writers_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "index.jsonl"
    first, second = FileIndex(path), FileIndex(path)
    other = replace(KEY, signature="other")
    first.record({KEY: MEASURED})
    second.record({other: MEASURED, KEY: replace(MEASURED, latency_ms=9.0)})
    assert FileIndex(path).lookup([KEY, other]) == {KEY: MEASURED, other: MEASURED}


latencies = st.floats(0, allow_nan=False, allow_infinity=False)


@given(
    key=st.builds(ProfileKey, *[st.text()] * 4),
    measured=st.one_of(
        st.builds(
            lambda three, samples, simulated: Measurement(
                three[1], three[0], three[2], samples, simulated=simulated
            ),
            st.lists(latencies, min_size=3, max_size=3).map(sorted),
            st.integers(0),
            st.booleans(),
        ),
        st.builds(Measurement.failed, st.sampled_from(Failure), st.text()),
    ),
)
def test_a_line_is_read_as_it_was_written(key: ProfileKey, measured: Measurement) -> None:
    line = to_line(key, measured)
    assert line.count("\n") == 1
    assert from_line(line) == (key, measured)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON for other programs")

    json.loads(line, parse_constant=refuse)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "its version is 2; this Plait reads version 1"),
        ({"version": None}, "its version is None"),
        ({"latency_ms": "fast"}, "'latency_ms' is 'fast'"),
        ({"latency_ms": -1.0}, "'latency_ms' is -1.0"),
        ({"latency_ms": math.nan}, "'latency_ms' is nan"),
        ({"latency_ms": True}, "'latency_ms' is True"),
        ({"latency_ms": None}, "null exactly where there is a 'failure'"),
        ({"failure": "crash"}, "null exactly where there is a 'failure'"),
        ({"failure": "bored"}, "unknown failure 'bored'"),
        ({"low_ms": 3.0}, "ends before it begins"),
        ({"samples": 1.5}, "'samples' is 1.5, not a count"),
        ({"simulated": 1}, "'simulated' is 1, not true or false"),
        ({"signature": 7}, "'signature' is 7, not a text"),
        ({"colour": "red"}, "unknown field 'colour'"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_with_its_number(
    change: dict[str, Any], words: str
) -> None:
    good = to_line(KEY, MEASURED)
    bad = json.dumps(json.loads(good) | change)
    with pytest.raises(ProfileLineError, match=r"^upload, line 4 is no measurement: ") as error:
        list(read_lines([good, "\n", good, bad], "upload"))
    assert words in str(error.value)


@pytest.mark.parametrize("line", ["[]", "null", "{", '{"version": 1}', "[" * 10_000])
def test_other_text_is_no_line(line: str) -> None:
    with pytest.raises(ProfileLineError):
        from_line(line)


def test_which_failures_last() -> None:
    assert {failure for failure in Failure if failure.lasting} == {
        Failure.LAUNCH,
        Failure.WRONG_RESULT,
        Failure.COMPILE,
    }
    assert not (FAILED.failure and FAILED.failure.lasting)
