"""Records as JSON, and which program is tuned next."""

from __future__ import annotations

import json
import math
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.measure.measurement import Failure
from workers.tuning.records import (
    KernelRecord,
    RankedRecord,
    ReactRecord,
    RecordError,
    RoundRecord,
    SpanRecord,
    TrialRecord,
    dump_lines,
    load_lines,
)
from workers.tuning.task_scheduler import PATIENCE, Standing, choose

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def finite(kind: type[Any], **others: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Records of a kind whose numbers JSON has a form for."""
    numbers = {float: FINITE, float | None: st.none() | FINITE}
    hints = get_type_hints(kind)
    given = {name: numbers[hint] for name, hint in hints.items() if hint in numbers}
    return st.builds(kind, **{**given, **others})


def few(records: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(records, max_size=2).map(tuple)


ROUNDS = finite(
    RoundRecord,
    failures=st.dictionaries(st.sampled_from([kind.value for kind in Failure]), st.integers(1, 9)),
    trials=few(finite(TrialRecord)),
    spans=few(finite(SpanRecord)),
    react=st.none() | finite(ReactRecord),
)
KERNELS = finite(KernelRecord, ranked=few(finite(RankedRecord)))


@given(st.lists(ROUNDS, max_size=3))
def test_rounds_survive_json(records: list[RoundRecord]) -> None:
    assert load_lines(dump_lines(records)) == records


@given(KERNELS)
def test_kernels_survive_json(record: KernelRecord) -> None:
    text = json.dumps(record.to_json(), allow_nan=False)
    assert KernelRecord.from_json(json.loads(text)) == record


@given(st.lists(ROUNDS, min_size=1, max_size=3), st.integers(1, 50))
def test_a_line_that_was_being_written_is_left_out(records: list[RoundRecord], cut: int) -> None:
    assert load_lines(dump_lines(records)[:-cut]) == records[:-1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "no RoundRecord of version 1"),
        ({"number": "1"}, "number: int expected, '1' given"),
        ({"number": True}, "number: int expected, True given"),
        ({"more": 1}, "more missing or unknown"),
        ({"spans": [{"kind": "sleep"}]}, "missing or unknown"),
        ({"trials": None}, "trials: list expected"),
    ],
)
def test_what_is_no_record_is_refused_by_its_place(change: dict[str, Any], words: str) -> None:
    given = {**round_record().to_json(), **change}
    with pytest.raises(RecordError, match=words):
        RoundRecord.from_json(given)
    with pytest.raises(RecordError, match="line 1: "):
        load_lines(json.dumps(given) + "\n")


def test_a_word_that_is_none_of_its_kind_is_refused() -> None:
    given = round_record().to_json()
    given["trials"][0]["failure"] = "boredom"
    with pytest.raises(RecordError, match=r"trials\[0\].failure: 'boredom'"):
        RoundRecord.from_json(given)


def test_the_gain_of_a_trial_is_estimated_from_both_sides() -> None:
    """By hand: 0.2 · (6 - 4) / 8 + 0.8 · 4 / 16, thrice."""
    assert Standing(3.0, (8, 16), (6.0, 4.0)).gain == pytest.approx(3 * (0.05 + 0.2))
    assert Standing(2.0, (8,), (4.0,)).gain == pytest.approx(1.0)
    assert Standing(2.0, (8, 16), (math.inf, 4.0)).gain == pytest.approx(0.5)


def test_every_program_has_its_first_batch_then_the_one_that_gains_most() -> None:
    fresh, slow, fast = Standing(1.0), Standing(1.0, (8,), (9.0,)), Standing(1.0, (8,), (1.0,))
    assert choose([slow, fresh, fresh]) == 1
    assert choose([fast, slow]) == 1
    assert choose([Standing(10.0, (8,), (1.0,)), slow]) == 0
    assert choose([slow, slow]) == 0
    assert choose([]) is None
    assert choose([Standing(1.0, (8,), (9.0,), open=False)]) is None


def test_patience_with_a_program_that_only_fails_ends() -> None:
    failing = Standing(1.0, tuple(range(8, 8 * PATIENCE, 8)), (math.inf,) * (PATIENCE - 1))
    hopeless = Standing(1.0, tuple(range(8, 8 * PATIENCE + 8, 8)), (math.inf,) * PATIENCE)
    working = Standing(1.0, (8,), (1.0,))
    assert choose([working, failing]) == 1
    assert choose([hopeless, working]) == 1
    assert choose([hopeless]) == 0


@given(
    st.lists(
        st.builds(
            lambda weight, bests: Standing(
                weight,
                tuple(8 * (place + 1) for place in range(len(bests))),
                tuple(sorted(bests, reverse=True)),
            ),
            st.floats(0.1, 10),
            st.lists(st.floats(0.01, 100) | st.just(math.inf), max_size=4),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_some_open_program_is_always_chosen(standings: list[Standing]) -> None:
    place = choose(standings)
    assert place is not None
    assert all(standings[place].gain >= standing.gain >= 0 for standing in standings)


def round_record() -> RoundRecord:
    trial = TrialRecord("p", 1, "c", "[]", None, None, None, None, None, None, None, "", 0.5)
    return RoundRecord(
        1, 1, 4, "p", 1, 4.0, 1, {}, 0, 0, 0, None, 0.0, 1.0, None, None, (trial,), ()
    )
