"""Following a job in the terminal: a progress bar while it runs."""

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
