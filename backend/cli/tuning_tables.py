"""How a job for kernels stands, as a table and a sentence."""

from __future__ import annotations

from typing import Any

from rich.table import Table

ENDED = {
    "exhausted": "; no design space has more candidates",
    "budget": "; the budget was used up",
}


def tuning_table(tuning: dict[str, Any], kernels: list[dict[str, Any]]) -> Table:
    """The job's programs with their best latencies."""
    tuned = {kernel["program"]: kernel for kernel in kernels}
    table = Table()
    for column in ("program", "weight", "trials", "best told", "in isolation", "GFLOP/s"):
        table.add_column(column, overflow="fold")
    for program in tuning["programs"]:
        kernel = tuned.get(program["program"])
        alone = kernel["latency_ms"] if kernel else None
        table.add_row(
            program["name"],
            f"{program['weight']:g}",
            str(program["trials"]),
            _in_ms(program["best_ms"]),
            _in_ms(alone),
            f"{program['gflops'] / alone * 1e3:.3g}" if alone else "-",
        )
    return table


def _in_ms(latency: float | None) -> str:
    return "-" if latency is None else f"{latency:.4g} ms"


def tuning_verdict(job: dict[str, Any], tuning: dict[str, Any]) -> str:
    """One sentence on how the job ended."""
    made = f"{tuning['trials']} of {tuning['trials_wanted']} trials in {tuning['rounds']} rounds"
    failed = ", ".join(f"{count} {kind}" for kind, count in tuning["failures"].items())
    words = f"{made}{ENDED.get(tuning['ended'], '')}"
    if failed:
        words += f"; failed: {failed}"
    if job["problem"]:
        words = f"{job['problem']['detail']}; {words}"
    return words if job["state"] == "succeeded" else f"{job['state']}: {words}"
