"""The JSON form of schedules and the key they carry."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from workers.schedules.schedule import (
    Placement,
    ScheduleError,
    ScheduleKey,
    Stage,
    StageSchedule,
    StreamSchedule,
    require_match,
    schedule_from_json,
    schedule_to_json,
)

KEY = ScheduleKey("abc", "cpu-1", "float32", 1, {"torch": "2.13.0"})
SCHEDULE = StageSchedule(
    "ios", (Stage((("a", "b"), ("c",)), threads=(2, 1)), Stage((("d",),), strategy="merge"))
)


@pytest.mark.parametrize("barriers", [True, False])
def test_a_schedule_survives_json(barriers: bool) -> None:
    schedule = replace(SCHEDULE, barriers=barriers)
    text = json.dumps(schedule_to_json(schedule, KEY))
    assert schedule_from_json(json.loads(text)) == (schedule, KEY)


def test_a_schedule_with_providers_survives_json() -> None:
    placements = (Placement("a", 0, "inductor"), Placement("b", 1), Placement("c", 0))
    schedule = StreamSchedule("mixed", placements, (1, 2))
    data = schedule_to_json(schedule, KEY)
    assert data["placements"] == [["a", 0, "inductor"], ["b", 1], ["c", 0]]
    assert schedule_from_json(json.loads(json.dumps(data))) == (schedule, KEY)
    with pytest.raises(ScheduleError, match="malformed"):
        schedule_from_json(data | {"placements": [["a", 0, "aten", 5]]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "zip"}, "format is 'zip'"),
        ({"version": 9}, "version 9 is not 1"),
        ({"kind": "tasks"}, "'tasks'; known: stages"),
        ({"stages": [{"groups": []}]}, "strategy"),
        ({"key": {}}, "graph_hash"),
        ({"barriers": "no"}, "'barriers' is 'no', neither true nor false"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        schedule_from_json(schedule_to_json(SCHEDULE, KEY) | change)


def test_a_schedule_for_something_else_is_refused() -> None:
    require_match(KEY, replace(KEY, versions={"torch": "2.13.0"}))
    with pytest.raises(ScheduleError, match="batch_size is 1, here it is 8") as caught:
        require_match(KEY, replace(KEY, batch_size=8, device_fingerprint="cpu-2"))
    assert "device_fingerprint is 'cpu-1', here it is 'cpu-2'" in str(caught.value)
