"""Following a job in the terminal: a progress bar while it runs, a table when it is done."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from backend.cli.client import Client
from backend.cli.searching import SearchLines
from backend.jobs.schemas import JobProgress, SearchEvent

SIMULATED = " (simulated)"
WARNINGS = {"warning": "yellow", "error": "red"}


def progress_bar(console: Console, disable: bool = False) -> Progress:
    """A job's bar: what it does, how far it is, since when."""
    return Progress(
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[message]}", style="dim"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=disable,
    )


def show_step(
    bar: Progress, task: TaskID, stage: str, step: int = 0, steps: int = 0, message: str = ""
) -> None:
    """What a job does now. Where ``steps`` is 0 nobody knows how many there are; the bar pulses."""
    bar.update(task, description=stage, completed=step, message=message)
    # For update, a total of None is one that stays as it was.
    next(shown for shown in bar.tasks if shown.id == task).total = steps or None


def watch_job(client: Client, job: str, console: Console) -> dict[str, Any]:
    """Show the job's events until it is finished; returns the finished job."""
    lines = SearchLines(client.get(f"/jobs/{job}")["spec"]["device"].startswith("sim:"))
    with progress_bar(console) as progress:
        bar = progress.add_task("queued", total=None, message="")
        for event in client.events(job):
            data = event["data"]
            if event["type"] == "progress":
                step = JobProgress.model_validate(data)
                show_step(progress, bar, step.stage, step.step, step.steps, step.message)
            elif event["type"] == "state":
                show_step(progress, bar, data["state"])
            elif event["type"] == "search":
                if line := lines.line(SearchEvent.model_validate(data)):
                    console.print(f"  {line}", style="dim", markup=False, highlight=False)
            elif event["type"] == "log":
                style = WARNINGS.get(data["level"], "dim")
                console.print(f"  {data['message']}", style=style, markup=False)
    finished: dict[str, Any] = client.get(f"/jobs/{job}")
    return finished


def results_table(results: list[dict[str, Any]]) -> Table:
    """Schedulers side by side, the fastest first; simulated figures are marked."""
    providers = sorted({row["provider"] for row in results} - {"aten"})
    kernels = f", kernels of {', '.join(providers)}" if providers else ""
    table = Table(title=f"Latency by scheduler{kernels}", title_justify="left")
    table.add_column("batch", justify="right")
    table.add_column("scheduler")
    table.add_column("median ms", justify="right")
    table.add_column("95 % interval", justify="right")
    table.add_column("vs sequential", justify="right")
    table.add_column("verified")
    table.caption = noise_caption(results)
    baselines = {
        r["batch_size"]: r["latency_ms"] for r in results if r["scheduler"] == "sequential"
    }
    for row in sorted(results, key=lambda r: (r["batch_size"], r["latency_ms"])):
        label = SIMULATED if row["simulated"] else ""
        table.add_row(
            str(row["batch_size"]),
            _name(row),
            f"{row['latency_ms']:.3f}{label}",
            f"{row['low_ms']:.3f} – {row['high_ms']:.3f}",
            _ratio(row, baselines.get(row["batch_size"])),
            f"yes, error ≤ {row['max_abs_error']:.1e}" if row["verified"] else "NO",
        )
    return table


def _name(row: dict[str, Any]) -> str:
    """The scheduler, with what was changed of its schedule, and a star for the winner."""
    changed = ", without barriers" if row["search"].get("barriers") is False else ""
    return f"{row['scheduler']}{changed}{' ★' if row['winner'] else ''}"


def _ratio(row: dict[str, Any], baseline_ms: float | None) -> str:
    """The speed-up of the comparison, which was made round by round, with its verdict; where there
    was none, the quotient of the medians."""
    speedup = row["search"].get("speedup")
    if speedup is None:
        return f"{baseline_ms / row['latency_ms']:.3f}×" if baseline_ms else "–"
    doubt = row["search"].get("verdict") == "no difference" and row["scheduler"] != "sequential"
    return f"{speedup:.3f}×{', no difference' if doubt else ''}"


def noise_caption(results: list[dict[str, Any]]) -> str | None:
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
    """Who won one batch size, by how much, or that nothing beat the baseline."""
    label = SIMULATED if entry["simulated"] else ""
    if entry["winner"] == "sequential":
        return (
            f"batch {entry['batch_size']}: nothing beat the sequential baseline of "
            f"{entry['baseline_ms']:.3f} ms{label}"
        )
    return (
        f"batch {entry['batch_size']}: {entry['winner']} takes {entry['latency_ms']:.3f} ms, "
        f"{entry['speedup']:.3f}× as fast as sequential{label}"
    )
