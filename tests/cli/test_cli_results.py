"""The table of a job's results in a terminal."""

from __future__ import annotations

from typing import Any

from backend.cli.watching import results_table


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
    assert list(table.columns[1].cells) == [
        "ios, without barriers ★",
        "greedy, without barriers",
        "opara",
        "sequential",
    ]
