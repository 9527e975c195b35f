"""A Recorder that keeps what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.jobs.schemas import BatchSummary, JobProgress, LogEvent, RoundEvent, SearchEvent
from workers.runner.outcome import ScheduleOutcome


@dataclass
class Kept:
    """Artifacts go to ``keep``; what no test asks for is dropped."""

    keep: Path
    steps: list[JobProgress] = field(default_factory=list)
    searches: list[SearchEvent] = field(default_factory=list)
    outcomes: dict[str, ScheduleOutcome] = field(default_factory=dict)
    artifacts: list[Path] = field(default_factory=list)

    def enter_tuning(self) -> None: ...

    def enter_verifying(self) -> None: ...

    def progress(self, progress: JobProgress) -> None:
        self.steps.append(progress)

    def search(self, event: SearchEvent) -> None:
        self.searches.append(event)

    def round(self, event: RoundEvent) -> None: ...

    def graph(self, facts: Mapping[str, Any]) -> None: ...

    def log(self, event: LogEvent) -> None: ...

    def succeed(self, summary: list[BatchSummary]) -> None: ...

    def result(self, outcome: ScheduleOutcome) -> None:
        self.outcomes[outcome.scheduler] = outcome

    def artifact(self, batch_size: int, path: Path) -> None:
        self.artifacts.append(path.rename(self.keep / path.name))
