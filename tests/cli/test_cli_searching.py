"""What a terminal says of a search while it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from backend.cli.searching import SearchLines
from backend.jobs.schemas import SearchEvent


def event(seconds: float, **fields: Any) -> SearchEvent:
    values: dict[str, Any] = {
        "scheduler": "ios",
        "batch_size": 4,
        "block": 1,
        "blocks": 4,
        "states": 500,
        "transitions": 9000,
        "stages_measured": 1200,
        "stages_total": 190_000,
        "best_ms": 3.71,
        "bound_ms": 3.52,
    }
    return SearchEvent(elapsed_seconds=seconds, **{**values, **fields})


def said(*events: SearchEvent, simulated: bool = False) -> list[str | None]:
    lines = SearchLines(simulated)
    return [lines.line(each) for each in events]


def test_a_line_has_the_best_the_bound_and_the_gap() -> None:
    [line] = said(event(12.2))
    assert line == (
        "ios, batch 4: 12 s, best 3.710 ms, proven bound 3.520 ms, gap 5.1 %, "
        "1,200 of 190,000 stages measured"
    )


def test_a_simulated_best_says_so() -> None:
    [line] = said(event(12.2), simulated=True)
    assert line is not None
    assert "best 3.710 ms (simulated)," in line


def test_a_long_search_says_little_and_each_search_its_end() -> None:
    events = [event(float(second)) for second in range(300)]
    lines = said(*events, event(300.0, ended="budget"), event(0.3, batch_size=8, ended="optimal"))
    assert sum(line is not None for line in lines[:300]) < 20
    assert lines[-2] is not None
    assert lines[-2].endswith("; the budget was used up")
    assert lines[-1] is not None
    assert lines[-1].endswith("; proven optimal: nothing in the search space is faster")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ended": "converged", "expected_ms": 3.7}, "expected 3.700 ms (not proven)"),
        ({"ended": "converged"}, "nothing better is expected, which is not proven"),
        (
            {"ended": "optimal", "bound_holds": False},
            "bound 3.520 ms (not proven), gap to it 5.1 %,",
        ),
        ({"ended": "gap", "bound_holds": False}, "the bound did not hold: not proven"),
    ],
)
def test_what_is_not_proven_never_looks_proven(fields: dict[str, Any], words: str) -> None:
    [line] = said(event(1.0, **fields))
    assert line is not None
    assert words in line
    assert ("proven bound" in line) == (", gap 5.1 %" in line) == fields.get("bound_holds", True)


def test_before_a_schedule_is_known_there_is_only_what_was_measured() -> None:
    [line] = said(event(9.0, best_ms=None))
    assert line == "ios, batch 4: 9 s, 1,200 of 190,000 stages measured"


@pytest.mark.parametrize(
    ("best", "bound", "words"),
    [
        (0.60234, 0.60230, "best 0.6023 ms, proven bound 0.6023 ms, gap < 0.1 %"),
        (12.3456, 10.0, "best 12.35 ms, proven bound 10.00 ms, gap 19 %"),
        (3.7, 3.7, "best 3.700 ms, proven bound 3.700 ms, gap 0 %"),
        (3.7, 3.7000001, "gap 0 %"),
        (0.0, 0.0, "best 0 ms, proven bound 0 ms, gap 0 %"),
    ],
)
def test_numbers_are_as_in_the_dashboard(best: float, bound: float, words: str) -> None:
    [line] = said(event(9.0, best_ms=best, bound_ms=bound))
    assert line is not None
    assert f"{words}, " in line


def test_another_attempt_of_a_job_is_not_silent_for_as_long_as_the_first() -> None:
    first = [event(float(second)) for second in range(200)]
    again = said(*first, event(0.1), event(6.0), event(7.0))[200:]
    assert [line is not None for line in again] == [False, True, False]


def test_a_line_explains_a_best_that_rises() -> None:
    [line] = said(event(9.0, stages_rechecked=31))
    assert line is not None
    assert line.endswith("1,200 of 190,000 stages measured, 31 of them again")
    [computed] = said(event(9.0, stages_rechecked=31), simulated=True)
    assert computed is not None
    assert computed.endswith("1,200 of 190,000 stages measured")
