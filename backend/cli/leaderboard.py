"""A job's results in a terminal: who is how fast, what became of everybody, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from backend.cli.watching import SIMULATED

BASELINE = "sequential"
ALTERNATIVE, SAME = "†", "≈"
"""Marks, which the table's caption explains."""

Rows = Sequence[dict[str, Any]]


def results_table(results: Rows, summaries: Sequence[dict[str, Any]] = ()) -> Table:
    """Contenders by place, with what became of each; simulated figures are marked. ``summaries``
    are those of the batch sizes, once there are any. An interval is
    below its number, for all to fit a terminal."""
    ordered = sorted(results, key=_position)
    several = len({row["batch_size"] for row in results}) > 1
    digits = _decimals(min((row["latency_ms"] for row in results), default=1.0))
    baselines = {r["batch_size"]: r["latency_ms"] for r in results if r["scheduler"] == BASELINE}
    faster = {s["batch_size"]: s.get("faster_alternative") for s in summaries}
    simulated = SIMULATED if any(row["simulated"] for row in results) else ""
    table = Table(title="Leaderboard", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.caption = _caption(results)
    if several:
        table.add_column("batch", justify="right", no_wrap=True, min_width=5)
    table.add_column("contender", overflow="fold")
    table.add_column(f"median ms{simulated}", justify="right", min_width=2 * digits + 7)
    table.add_column(f"vs {BASELINE}", justify="right", min_width=len(f"vs {BASELINE}"))
    table.add_column("became", overflow="fold")
    for position, row in enumerate(ordered):
        batch, better = row["batch_size"], faster.get(row["batch_size"])
        if position and batch != ordered[position - 1]["batch_size"]:
            table.add_section()
        table.add_row(
            *([str(batch)] if several else []),
            _name(row),
            f"{row['latency_ms']:.{digits}f}{_interval(row['low_ms'], row['high_ms'], digits)}",
            _ratio(row, baselines.get(batch)),
            fate(row, better["name"] if better else None),
        )
    return table


def fate(row: dict[str, Any], faster: str | None = None) -> str:
    """What became of a contender, in a few words. ``faster`` is the alternative that is faster than
    every schedule, if one is."""
    search = row["search"]
    if row["scheduler"] == faster and is_alternative(row):
        return "fastest: keep this"
    if row["winner"]:
        return "in the artifact" if faster else "winner"
    if search.get("tied"):
        return "tied with the fastest"
    if search.get("final"):
        return "lost the final"
    if search.get("rung"):
        return f"out in rung {search['rung']}"
    return ""


def is_alternative(row: dict[str, Any]) -> bool:
    return bool(row.get("kind") == "alternative")


def noise_caption(results: Rows) -> str | None:
    """Why the figures are not to be trusted, if the machine was busy; None if it was quiet."""
    noises = [row.get("environment", {}).get("noise") or {} for row in results]
    complaint = next((noise["complaint"] for noise in noises if noise.get("complaint")), None)
    return f"measured on a busy machine: {complaint}" if complaint else None


def job_verdict(job: dict[str, Any]) -> str:
    """One sentence on how the job ended."""
    if job["state"] == "succeeded":
        return "; ".join(batch_verdict(entry) for entry in job["summary"])
    if job["problem"]:
        return f"{job['state']}: {job['problem']['detail']}"
    return str(job["state"])


def batch_verdict(entry: dict[str, Any]) -> str:
    """What to take for one batch size, and how much is gained, or that nothing is."""
    label = SIMULATED if entry["simulated"] else ""
    batch, faster = f"batch {entry['batch_size']}", entry.get("faster_alternative")
    if entry["winner"] == BASELINE:
        found = f"nothing beat the sequential baseline of {_in_ms(entry['baseline_ms'])}{label}"
    else:
        found = (
            f"{entry['winner']} takes {_in_ms(entry['latency_ms'])}, "
            f"{entry['speedup']:.3f}× as fast as sequential{label}"
        )
    if not faster:
        return f"{batch}: {found}"
    if entry["winner"] == BASELINE:
        found = f"none was proved faster than {BASELINE} with {_in_ms(entry['baseline_ms'])}{label}"
    kept = f"keep {faster['name']}, which takes {_in_ms(faster['latency_ms'])}{label}"
    return f"{batch}: {kept}, less than any schedule; of the schedules, {found}"


def details(entry: dict[str, Any]) -> list[str]:
    """What else there is to say of one batch size, a line each: ties, why the winner won, how far
    it is from the floors, and who was skipped for which reason."""
    lines = []
    tied = entry.get("tied_with") or []
    if tied:
        lines.append(
            f"tied: {', '.join(tied)} could not be told apart from {entry['winner']}, which is "
            "preferred"
        )
    lines += [f"why: {sentence}" for sentence in entry.get("why") or []]
    floors = [f"{floor['name']} {floor['ms']:.3g} ms" for floor in entry.get("floors") or []]
    if floors:
        gap = entry.get("gap")
        above = "" if gap is None else f"; {100 * gap:.0f} % of the latency is above the highest"
        lines.append(f"floors (estimates): {', '.join(floors)}{above}")
    lines += [f"skipped {one['contender']}: {one['reason']}" for one in entry.get("skipped") or []]
    return lines


def _position(row: dict[str, Any]) -> tuple[int, bool, float]:
    """By batch size and place; what has no place, as older results have none, by latency."""
    place = row.get("place")
    return row["batch_size"], place is None, row["latency_ms"] if place is None else place


def _name(row: dict[str, Any]) -> str:
    """The contender, with what was changed of its schedule, and a star for the winner."""
    changed = ", without barriers" if row["search"].get("barriers") is False else ""
    mark = f" {ALTERNATIVE}" if is_alternative(row) else ""
    return f"{row['scheduler']}{mark}{changed}{' ★' if row['winner'] else ''}"


def _decimals(latency_ms: float) -> int:
    """Enough to tell short latencies apart: three, or four digits that count if these are more."""
    return 3 if latency_ms <= 0 else min(max(3, 3 - math.floor(math.log10(latency_ms))), 6)


def _in_ms(latency_ms: float) -> str:
    return f"{latency_ms:.{_decimals(latency_ms)}f} ms"


def _interval(low: float, high: float, digits: int) -> str:
    """On a line of its own; nothing for what is exact."""
    return "" if low == high else f"\n{low:.{digits}f} – {high:.{digits}f}"


def _verified(results: Rows) -> str:
    """What comparing with the original model's outputs gave."""
    wrong = [row["scheduler"] for row in results if not row["verified"]]
    if wrong:
        return f"NOT VERIFIED: {', '.join(wrong)}"
    largest = max((row["max_abs_error"] for row in results), default=0.0)
    return f"all verified against the original model, error ≤ {largest:.1e}"


def _kernels(results: Rows) -> str | None:
    """Whose kernels a job chose, unless they are PyTorch's own; the names of contenders with others
    than the job's say so."""
    [*chosen] = {row["provider"] for row in results if row["scheduler"] == BASELINE} - {"aten"}
    return f"kernels of {', '.join(chosen)}" if chosen else None


def _caption(results: Rows) -> str | None:
    """What marks mean, and what speaks against the figures; None if nothing is to be said."""
    legend = f"{ALTERNATIVE} an alternative: no schedule, but what can run the model already"
    doubt = f"{SAME} not told apart from {BASELINE}"
    said = [
        legend if any(map(is_alternative, results)) else None,
        doubt if any(map(_undecided, results)) else None,
        _verified(results),
        _kernels(results),
        noise_caption(results),
    ]
    return "\n".join(words for words in said if words) or None


def _ratio(row: dict[str, Any], baseline_ms: float | None) -> str:
    """The speed-up of the comparison, which was made round by round, with its verdict; where there
    was none, the quotient of the medians."""
    speedup = row["search"].get("speedup")
    if speedup is None:
        return f"{baseline_ms / row['latency_ms']:.3f}×" if baseline_ms else "–"
    low, high = row["search"].get("speedup_low"), row["search"].get("speedup_high")
    known = row["scheduler"] != BASELINE and low is not None and high is not None
    interval = _interval(low, high, 3) if known else ""
    return f"{speedup:.3f}×{f' {SAME}' if _undecided(row) else ''}{interval}"


def _undecided(row: dict[str, Any]) -> bool:
    """Whether measuring in turns found no difference from the baseline."""
    return bool(row["scheduler"] != BASELINE and row["search"].get("verdict") == "no difference")
