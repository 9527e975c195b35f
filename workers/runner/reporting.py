"""From what the core reports to what a Recorder receives, at a pace that people can follow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from backend.jobs.schemas import JobProgress, LogEvent, RoundEvent, SearchEvent
from workers.measure.measurement import Round
from workers.runner.recorder import Recorder
from workers.schedulers.base import SearchProgress

SHORTEST_S, LONGEST_S, PACE = 0.1, 1.0, 0.05
"""The time between two reports of a search: this part of the time that it has taken so far, within
these limits."""


@dataclass(frozen=True)
class Reporter:
    """Reports on one batch size of a job."""

    recorder: Recorder
    batch_size: int

    def log(self, message: str) -> None:
        self.recorder.log(LogEvent(level="info", message=message))

    def warn(self, message: str) -> None:
        self.recorder.log(LogEvent(level="warning", message=message))

    def step(self, stage: str, step: int, steps: int, message: str) -> None:
        self.recorder.progress(JobProgress(stage=stage, step=step, steps=steps, message=message))

    def round(self, scheduler: str, record: Round) -> None:
        self.recorder.round(
            RoundEvent(
                scheduler=scheduler,
                batch_size=self.batch_size,
                number=record.number,
                degree_of_parallelism=record.degree_of_parallelism,
                candidates=record.candidates,
                timeout_seconds=record.timeout_s,
                failures=record.failures,
                timeouts=record.timeouts,
                outliers=record.outliers,
                remeasured=record.remeasured,
                mean_deviation=record.mean_deviation,
                duration_seconds=record.duration_s,
            )
        )


@dataclass
class SearchReporter:
    """A SearchObserver for one scheduler, whose search ends at ``deadline`` (of ``time.monotonic``)
    at the latest. It passes on the first report, the last, those before stages are measured again,
    which are few, and others at a pace that slows down as the search goes on, so that a short
    search has a history and a long one is no flood."""

    reporter: Reporter
    scheduler: str
    deadline: float = math.inf
    clock: Callable[[], float] = time.monotonic
    due: float = -math.inf

    def __post_init__(self) -> None:
        self._started = self.clock()

    def __call__(self, progress: SearchProgress) -> None:
        now = self.clock()
        if progress.ended is None and not progress.rechecking and now < self.due:
            return
        elapsed = now - self._started
        if not progress.rechecking:
            self.due = now + min(max(elapsed * PACE, SHORTEST_S), LONGEST_S)
        self.reporter.recorder.progress(self._job_progress(elapsed, progress))
        self.reporter.recorder.search(self._event(elapsed, progress))

    def _job_progress(self, elapsed: float, progress: SearchProgress) -> JobProgress:
        """Stages that were measured, of those to be measured. Where that is open there is no whole
        to be a part of: what the bounds exclude says little of when the search will end."""
        measured, remaining = progress.stages_measured, progress.remaining
        if progress.rechecking:
            doing = f"measuring chosen stages again, {progress.rechecking:,} in turns"
        elif remaining is None:
            doing = f"{measured:,} of {progress.stages_total:,} stages measured"
        else:
            doing = "measuring stages"
        return JobProgress(
            stage="tuning",
            step=measured,
            steps=0 if remaining is None else measured + remaining,
            message=f"{self.scheduler}, batch {self.reporter.batch_size}: {doing}",
            eta_seconds=_eta(elapsed, self.deadline - self.clock(), progress),
        )

    def _event(self, elapsed: float, progress: SearchProgress) -> SearchEvent:
        facts = asdict(progress)
        del facts["remaining"], facts["rechecking"]
        return SearchEvent(
            scheduler=self.scheduler,
            batch_size=self.reporter.batch_size,
            elapsed_seconds=elapsed,
            **facts,
        )


def _eta(elapsed: float, left: float, progress: SearchProgress) -> float | None:
    """Seconds until the search is done at its present pace, at most what is ``left`` of the
    budget; unknown before the first stage, while it is open which stages will be measured, and
    while some are measured again."""
    if progress.ended is not None:
        return 0.0
    if not progress.stages_measured or progress.remaining is None or progress.rechecking:
        return None
    return max(0.0, min(elapsed / progress.stages_measured * progress.remaining, left))
