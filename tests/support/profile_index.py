"""What holds for every ProfileIndex. A test class inherits it and overrides ``open_index``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from workers.measure.measurement import Failure, Measurement
from workers.measure.profile_index import MemoryIndex, ProfileIndex, ProfileKey
from workers.measure.profile_lines import read_lines, write_lines

KEY = ProfileKey("cpu-1", "aten", "concurrent threads=1+1", "abc:1|2")
MEASURED = Measurement(1.5, 1.25, 1.75, samples=30, outliers=2, simulated=True)
FAILED = Measurement.failed(Failure.OUT_OF_MEMORY, 'it said "no" – twice\nand left')

OpenIndex = Callable[[], ProfileIndex]


class ProfileIndexConformance:
    """``open_index`` opens the index; each call within a test opens the same one again."""

    @pytest.fixture
    def open_index(self) -> OpenIndex:
        raise NotImplementedError

    def test_it_knows_nothing_at_first(self, open_index: OpenIndex) -> None:
        assert open_index().lookup([KEY]) == {}
        assert open_index().lookup([]) == {}

    def test_what_is_recorded_is_found_again_in_full(self, open_index: OpenIndex) -> None:
        other = replace(KEY, signature="failed")
        index = open_index()
        index.record({KEY: MEASURED, other: FAILED})
        index.record({})
        for reader in (index, open_index()):
            assert reader.lookup([other, KEY]) == {KEY: MEASURED, other: FAILED}
        assert math.isinf(open_index().lookup([other])[other].latency_ms)

    @pytest.mark.parametrize("field", ["device_fingerprint", "provider", "context", "signature"])
    def test_every_part_of_the_key_counts(self, open_index: OpenIndex, field: str) -> None:
        index = open_index()
        index.record({KEY: MEASURED})
        assert index.lookup([replace(KEY, **{field: "another"})]) == {}

    def test_the_first_measurement_of_a_key_stays(self, open_index: OpenIndex) -> None:
        index = open_index()
        index.record({KEY: MEASURED})
        index.record({KEY: replace(MEASURED, latency_ms=9.0)})
        assert index.lookup([KEY]) == {KEY: MEASURED}
        assert open_index().lookup([KEY]) == {KEY: MEASURED}

    def test_entries_are_all_or_those_of_one_device(self, open_index: OpenIndex) -> None:
        other = replace(KEY, device_fingerprint="cpu-2")
        index = open_index()
        assert list(index.entries()) == []
        index.record({KEY: MEASURED, other: FAILED, replace(KEY, context="c"): MEASURED})
        for reader in (index, open_index()):
            assert dict(reader.entries("cpu-2")) == {other: FAILED}
            assert len(list(reader.entries("cpu-1"))) == 2
            assert len(list(reader.entries())) == 3
            assert list(reader.entries("cpu-3")) == []

    def test_what_is_exported_is_imported_elsewhere(self, open_index: OpenIndex) -> None:
        index = open_index()
        index.record({KEY: MEASURED, replace(KEY, signature="failed"): FAILED})
        lines = list(write_lines(index.entries()))
        elsewhere = MemoryIndex()
        elsewhere.record(dict(read_lines(lines, "export")))
        assert dict(elsewhere.entries()) == dict(index.entries())
        index.record(dict(read_lines(lines, "export")))
        assert sorted(write_lines(open_index().entries())) == sorted(lines)

    def test_devices_never_share(self, open_index: OpenIndex) -> None:
        """Two devices of one model that differ in nothing but their fingerprint."""
        index = open_index()
        other = replace(KEY, device_fingerprint="cpu-2")
        index.record({KEY: MEASURED})
        index.record({other: replace(MEASURED, latency_ms=1.6)})
        assert index.lookup([KEY, other])[KEY].latency_ms == 1.5
        assert index.lookup([KEY, other])[other].latency_ms == 1.6

    def test_many_keys_at_once(self, open_index: OpenIndex) -> None:
        entries = {
            replace(KEY, signature=f"s{number}"): replace(MEASURED, latency_ms=1.5 + number / 2000)
            for number in range(300)
        }
        open_index().record(entries)
        unknown = replace(KEY, signature="unknown")
        assert open_index().lookup([*entries, unknown, KEY]) == entries
