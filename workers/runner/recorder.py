"""What a running job reports, wherever the report goes (database, terminal, test)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from backend.jobs.schemas import BatchSummary, JobProgress, LogEvent, RoundEvent, SearchEvent
from workers.runner.outcome import ScheduleOutcome


class Recorder(Protocol):
    """Receives a job's reports in order. Every call is durable when it returns."""

    def enter_tuning(self) -> None:
        """The import is done; the search for schedules begins (again, for a further batch)."""

    def enter_verifying(self) -> None:
        """The search is done; results are being verified and measured against each other."""

    def progress(self, progress: JobProgress) -> None: ...

    def search(self, event: SearchEvent) -> None: ...

    def round(self, event: RoundEvent) -> None: ...

    def graph(self, facts: Mapping[str, Any]) -> None:
        """What is known of the imported graph (``backend.models.schemas.GraphFacts``)."""

    def log(self, event: LogEvent) -> None: ...

    def result(self, outcome: ScheduleOutcome) -> None: ...

    def artifact(self, batch_size: int, path: Path) -> None: ...

    def succeed(self, summary: list[BatchSummary]) -> None: ...
