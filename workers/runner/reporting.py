"""From what the core reports to what a Recorder receives, at a pace that people can follow."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from backend.jobs.schemas import JobProgress, LogEvent, RoundEvent, SearchEvent
from workers.measure.measurement import Round
from workers.runner.recorder import Recorder
from workers.schedulers.base import SearchProgress

REPORT_SECONDS = 0.25


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
    """A SearchObserver for one scheduler: at most one report every REPORT_SECONDS, and the last."""

    reporter: Reporter
    scheduler: str
    started: float = field(default_factory=time.monotonic)
    last: float = 0.0

    def __call__(self, progress: SearchProgress) -> None:
        now = time.monotonic()
        done = progress.stages_measured == progress.stages_total
        if not done and now - self.last < REPORT_SECONDS:
            return
        self.last = now
        elapsed = now - self.started
        self.reporter.recorder.progress(
            JobProgress(
                stage="tuning",
                step=progress.stages_measured,
                steps=progress.stages_total,
                message=f"{self.scheduler}, batch {self.reporter.batch_size}: measuring stages",
                eta_seconds=_eta(elapsed, progress),
            )
        )
        self.reporter.recorder.search(
            SearchEvent(
                scheduler=self.scheduler,
                batch_size=self.reporter.batch_size,
                elapsed_seconds=elapsed,
                block=progress.block,
                blocks=progress.blocks,
                states=progress.states,
                transitions=progress.transitions,
                stages_measured=progress.stages_measured,
                stages_total=progress.stages_total,
                best_ms=progress.best_ms,
                bound_ms=progress.bound_ms,
                expected_ms=progress.expected_ms,
                states_visited=progress.states_visited,
                states_pruned=progress.states_pruned,
                stages_pruned=progress.stages_pruned,
            )
        )


def _eta(elapsed: float, progress: SearchProgress) -> float | None:
    """Seconds until the search is done at its present pace; unknown before the first stage."""
    if not progress.stages_measured:
        return None
    remaining = progress.stages_total - progress.stages_measured
    return elapsed / progress.stages_measured * remaining
