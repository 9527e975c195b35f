"""What a job's bar shows in a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from backend.cli.watching import progress_bar, show_step


def test_an_open_end_follows_a_known_one() -> None:
    with progress_bar(Console(file=io.StringIO())) as bar:
        task = bar.add_task("queued", total=None, message="")
        show_step(bar, task, "importing", 1, 2)
        assert (bar.tasks[0].completed, bar.tasks[0].total) == (1, 2)
        show_step(bar, task, "tuning", 160, 0, "160 of 4,683 stages measured")
        assert (bar.tasks[0].completed, bar.tasks[0].total) == (160, None)
        show_step(bar, task, "verifying", 0, 7)
        assert (bar.tasks[0].completed, bar.tasks[0].total) == (0, 7)
