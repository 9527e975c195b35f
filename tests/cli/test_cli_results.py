"""The table of a job's results in a terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from backend.cli.leaderboard import batch_verdict, details, results_table

SUMMARY = {
    "batch_size": 8,
    "winner": "ios",
    "latency_ms": 8.0,
    "baseline_ms": 10.0,
    "speedup": 1.25,
    "simulated": False,
}
KEEP = {"name": "torch.compile", "latency_ms": 6.5}


def row(scheduler: str, latency_ms: float, **search: Any) -> dict[str, Any]:
    return {
        "batch_size": 1,
        "scheduler": scheduler,
        "latency_ms": latency_ms,
        "low_ms": latency_ms,
        "high_ms": latency_ms,
        "simulated": True,
        "verified": True,
        "max_abs_error": 0.0,
        "winner": scheduler == "ios",
        "provider": "aten",
        "kind": "alternative" if scheduler.startswith("torch.") else "schedule",
        "place": search.pop("place", None),
        "search": search,
    }


def test_schedules_whose_barriers_were_removed_are_named_so() -> None:
    table = results_table(
        [
            row("sequential", 2.0, barriers=True),
            row("greedy", 1.5, barriers=False),
            row("ios", 1.0, barriers=False),
            row("opara", 1.75),
        ]
    )
    assert list(table.columns[0].cells) == [
        "ios, without barriers ★",
        "greedy, without barriers",
        "opara",
        "sequential",
    ]


def printed(rows: list[dict[str, Any]]) -> str:
    screen = io.StringIO()
    Console(width=80, file=screen).print(results_table(rows))
    return screen.getvalue()


def cells(title: str, rows: list[dict[str, Any]], **summary: Any) -> list[Any]:
    table = results_table(rows, [{"batch_size": 1, **summary}])
    [column] = [column for column in table.columns if column.header == title]
    return list(column.cells)


def test_the_leaderboard_is_by_place_and_says_what_became_of_each() -> None:
    rows = [
        row("sequential", 2.0, place=5, final=True, tied=False, rung=3, rungs=3),
        row("greedy", 1.9, place=4, final=False, rung=2, rungs=3),
        row("opara", 1.0, place=3, final=True, tied=False),
        row("refined", 0.9, place=2, final=True, tied=True),
        row("ios", 1.0, place=1, final=True, tied=True),
    ]
    assert cells("contender", rows) == ["ios ★", "refined", "opara", "greedy", "sequential"]
    assert cells("became", rows) == [
        "winner",
        "tied with the fastest",
        "lost the final",
        "out in rung 2",
        "lost the final",
    ]


def test_an_alternative_is_marked_and_kept_only_if_it_is_faster_than_every_schedule() -> None:
    rows = [row("torch.compile", 0.8, place=1, tied=True), row("ios", 1.0, place=2, final=True)]
    assert cells("contender", rows, faster_alternative=KEEP) == ["torch.compile †", "ios ★"]
    became = ["fastest: keep this", "in the artifact"]
    assert cells("became", rows, faster_alternative=KEEP) == became
    assert cells("became", rows, faster_alternative=None) == ["tied with the fastest", "winner"]


def test_a_speed_up_has_its_interval() -> None:
    compared = {"speedup": 1.25, "speedup_low": 1.2, "speedup_high": 1.3, "verdict": "faster"}
    exact = {"speedup": 1.5, "speedup_low": 1.5, "speedup_high": 1.5, "verdict": "faster"}
    doubt = {"speedup": 1.0, "speedup_low": 0.99, "speedup_high": 1.02, "verdict": "no difference"}
    rows = [row("ios", 1.0, **compared), row("opara", 2.0, **exact), row("greedy", 3.0, **doubt)]
    assert cells("vs sequential", rows) == [
        "1.250×\n1.200 – 1.300",
        "1.500×",
        "1.000× ≈\n0.990 – 1.020",
    ]


def test_a_narrow_terminal_cuts_nothing_off() -> None:
    compared = {"speedup": 1.25, "speedup_low": 1.2, "speedup_high": 1.3, "verdict": "faster"}
    rows = [
        row("torch.compile max-autotune", 10.8, place=1, final=True, tied=True, **compared),
        row("ios", 11.0, place=2, final=True, barriers=False, **compared),
    ]
    for each in rows:
        each["low_ms"] -= 1
    said = printed(rows)
    for words in ("max-autotune", "9.800 – 10.800", "10.000 – 11.000"):
        assert words in said
    for words in ("1.200 – 1.300", "(simulated)", "† an alternative", "all verified"):
        assert words in said
    assert "…" not in said
    assert "batch" not in said


def test_batches_and_kernels_are_named_where_there_are_others_than_one() -> None:
    rows = [row("sequential", 1.0), {**row("sequential", 2.0), "batch_size": 8}]
    for each in rows:
        each["provider"] = "inductor"
    assert cells("batch", rows) == ["1", "8"]
    assert "kernels of inductor" in printed(rows)
    rows[1]["verified"] = False
    assert "NOT VERIFIED: sequential" in printed(rows)


def test_the_verdict_sends_the_user_to_what_is_faster_than_any_schedule() -> None:
    assert batch_verdict(SUMMARY) == ("batch 8: ios takes 8.000 ms, 1.250× as fast as sequential")
    assert batch_verdict({**SUMMARY, "faster_alternative": KEEP}) == (
        "batch 8: keep torch.compile, which takes 6.500 ms, less than any schedule; of the "
        "schedules, ios takes 8.000 ms, 1.250× as fast as sequential"
    )


def test_what_was_not_proved_of_schedules_is_not_claimed() -> None:
    none = {**SUMMARY, "winner": "sequential", "latency_ms": 10.0, "speedup": 1.0}
    assert batch_verdict(none) == ("batch 8: nothing beat the sequential baseline of 10.000 ms")
    assert batch_verdict({**none, "faster_alternative": KEEP}).endswith(
        "of the schedules, none was proved faster than sequential with 10.000 ms"
    )


def test_details_tell_ties_reasons_floors_and_who_was_skipped() -> None:
    gap = "25 % of the latency is above the highest"
    told = details(
        {
            **SUMMARY,
            "tied_with": ["refined"],
            "why": ["It waits less."],
            "floors": [{"name": "memory", "ms": 2.0}, {"name": "critical path", "ms": 6.0}],
            "gap": 0.25,
            "skipped": [{"contender": "opara", "reason": "needs a GPU"}],
        }
    )
    assert told == [
        "tied: refined could not be told apart from ios, which is preferred",
        "why: It waits less.",
        f"floors (estimates): memory 2 ms, critical path 6 ms; {gap}",
        "skipped opara: needs a GPU",
    ]
    assert details(SUMMARY) == []
