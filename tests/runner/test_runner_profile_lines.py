"""The service's form of a measurement and the core's are one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.profile_index import FAILED, KEY, MEASURED

from backend.profiles.schemas import ProfileLine
from workers.measure.measurement import Failure, Measurement
from workers.measure.profile_lines import Entry, ProfileKey, from_line, to_line

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
KEYS = st.builds(ProfileKey, TEXT, TEXT, TEXT, TEXT)
LATENCIES = st.tuples(*[st.floats(0, 1e9)] * 3).map(sorted)
COUNTS = st.integers(0, 1 << 30)
TAKEN = st.builds(
    lambda ms, samples, outliers, simulated: Measurement(
        ms[1], ms[0], ms[2], samples + 1, outliers, simulated
    ),
    LATENCIES,
    COUNTS,
    COUNTS,
    st.booleans(),
)
LOST = st.builds(
    Measurement.failed, st.sampled_from([f for f in Failure if f is not Failure.BUDGET]), TEXT
)


@given(KEYS, TAKEN | LOST)
def test_what_the_core_writes_the_service_reads_and_the_core_reads_again(
    key: ProfileKey, measurement: Measurement
) -> None:
    line = ProfileLine.model_validate_json(to_line(key, measurement))
    assert (line.latency_ms is None) == math.isinf(measurement.latency_ms)
    read: Entry = from_line(line.model_dump_json())
    assert read == (key, measurement)


def test_both_have_the_same_fields() -> None:
    import json

    assert list(json.loads(to_line(KEY, MEASURED))) == list(ProfileLine.model_fields)


def test_what_a_budget_left_out_is_no_measurement() -> None:
    left_out = to_line(KEY, Measurement.failed(Failure.BUDGET, "budget"))
    with pytest.raises(ValidationError, match="failure"):
        ProfileLine.model_validate_json(left_out)
    assert ProfileLine.model_validate_json(to_line(KEY, FAILED)).failure == "out_of_memory"
