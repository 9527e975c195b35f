"""``plait schedule``: a job's whole run in this process, without any server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError
from rich.progress import Progress, TaskID

from backend.cli.exits import ExitCode
from backend.cli.importing import model_source, sandbox_limits
from backend.cli.jobs import (
    EVERYTHING,
    IOS,
    AllowNoise,
    Batch,
    Budget,
    Device,
    GroupUnits,
    IosGap,
    IosMode,
    IosThreads,
    Kernels,
    Measuring,
    Model,
    OparaStrict,
    SchedulerNames,
    SequenceLength,
    StageGroups,
    StageStrategies,
    UnitGranularity,
    ios_options,
    print_details,
)
from backend.cli.leaderboard import batch_verdict, results_table
from backend.cli.model_files import file_format
from backend.cli.output import Json, console, errors, fail, handles_errors, print_json
from backend.cli.profiles import open_local_index
from backend.cli.searching import SearchLines
from backend.cli.traces import TraceFiles
from backend.cli.watching import WARNINGS, progress_bar, show_step
from backend.jobs.schemas import (
    BatchSummary,
    JobProgress,
    JobSpec,
    LogEvent,
    RoundEvent,
    SearchEvent,
)
from backend.settings import get_settings

if TYPE_CHECKING:
    from workers.runner.outcome import ScheduleOutcome


@dataclass
class TerminalRecorder:
    """A Recorder that shows a progress bar and keeps the results."""

    bar: Progress
    output: Path | None
    traces: TraceFiles
    searching: SearchLines
    task: TaskID = field(init=False)
    results: list[dict[str, Any]] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)
    summary: list[BatchSummary] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.task = self.bar.add_task("starting", total=None, message="")

    def enter_tuning(self) -> None:
        show_step(self.bar, self.task, "tuning")

    def enter_verifying(self) -> None:
        show_step(self.bar, self.task, "verifying")

    def progress(self, progress: JobProgress) -> None:
        shown = progress.stage, progress.step, progress.steps, progress.message
        show_step(self.bar, self.task, *shown)

    def search(self, event: SearchEvent) -> None:
        if line := self.searching.line(event):
            self.bar.console.print(f"  {line}", style="dim", markup=False, highlight=False)

    def round(self, event: RoundEvent) -> None:
        """Rounds are for the dashboard's history."""

    def graph(self, facts: Mapping[str, Any]) -> None:
        """`plait inspect` is for these."""

    def log(self, event: LogEvent) -> None:
        self.bar.console.print(
            f"  {event.message}", style=WARNINGS.get(event.level, "dim"), markup=False
        )

    def result(self, outcome: ScheduleOutcome) -> None:
        measured = outcome.measurement
        self.results.append(
            {
                "batch_size": outcome.batch_size,
                "scheduler": outcome.scheduler,
                "latency_ms": measured.latency_ms,
                "low_ms": measured.low_ms,
                "high_ms": measured.high_ms,
                "samples": measured.samples,
                "simulated": measured.simulated,
                "verified": outcome.verified,
                "max_abs_error": outcome.max_abs_error,
                "winner": outcome.winner,
                "provider": outcome.provider,
                "kind": outcome.kind,
                "place": outcome.place,
                "search": dict(outcome.search),
                "environment": dict(outcome.environment),
            }
        )
        if outcome.winner:
            self.traces.write(outcome)

    def artifact(self, batch_size: int, path: Path) -> None:
        if self.output is not None:
            self.output.mkdir(parents=True, exist_ok=True)
            self.artifacts.append(str(shutil.copy(path, self.output)))

    def succeed(self, summary: list[BatchSummary]) -> None:
        self.summary = summary


@handles_errors
def schedule(
    model: Model,
    device: Device = "cpu",
    batch: Batch = [1],  # noqa: B006  # Typer copies its defaults
    sequence_length: SequenceLength = None,
    scheduler: SchedulerNames = EVERYTHING,
    budget: Budget = 300,
    r: GroupUnits = IOS.max_units_per_group,
    s: StageGroups = IOS.max_groups_per_stage,
    ios_strategies: StageStrategies = IOS.strategies,
    ios_threads: IosThreads = IOS.threads,
    ios_mode: IosMode = IOS.mode,
    ios_gap: IosGap = IOS.gap,
    opara_strict: OparaStrict = False,
    granularity: UnitGranularity = "fused",
    provider: Kernels = "aten",
    measurer: Measuring = "serial",
    allow_noise: AllowNoise = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Directory for the artifacts.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Write the winner's timeline as a Chrome trace to this file or, for several "
            "batch sizes, directory."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find, verify and measure schedules here and now, without any server."""
    zoo = model.startswith("zoo:")
    try:
        spec = JobSpec(
            model=model if zoo else "zoo:file",  # a file needs no upload here
            device=device,
            batch_sizes=batch,
            sequence_length=sequence_length,
            schedulers=scheduler,
            budget_seconds=budget,
            ios=ios_options(r, s, ios_strategies, ios_threads, ios_mode, ios_gap),
            opara={"strict": opara_strict},
            granularity=granularity,
            provider=provider,
            measurer=measurer,
            allow_noise=allow_noise,
        )
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise fail("\n".join(lines), ExitCode.USAGE) from error
    if trace is not None and len(batch) > 1 and not trace.is_dir():
        raise fail(f"--trace {trace}: several batch sizes need a directory", ExitCode.USAGE)
    traces = TraceFiles(trace, Path(model.removeprefix("zoo:")).name, device)
    model_format = None if zoo else file_format(Path(model))
    # In JSON mode standard output is for the result alone.
    with progress_bar(errors if as_json else console, disable=as_json) as bar:
        searching = SearchLines(simulated=device.startswith("sim:"))
        recorder = TerminalRecorder(bar, output, traces, searching)
        problem = _run(spec, model, model_format, recorder)
    if problem is not None:
        raise fail(problem, ExitCode.JOB_FAILED)
    summaries = [entry.model_dump() for entry in recorder.summary]
    if as_json:
        print_json(
            {
                "summary": summaries,
                "results": recorder.results,
                "artifacts": recorder.artifacts,
                "traces": traces.written,
            }
        )
        return
    console.print(results_table(recorder.results, summaries))
    for entry in summaries:
        console.print(batch_verdict(entry), highlight=False)
        print_details(entry, several=len(summaries) > 1)
    for path in [*recorder.artifacts, *traces.written]:
        console.print(f"wrote {path}", highlight=False)


def _run(
    spec: JobSpec, model: str, model_format: str | None, recorder: TerminalRecorder
) -> str | None:
    """Run the job; why it failed, if it did."""
    from workers.devices import open_device  # noqa: PLC0415  # torch loads only for this command
    from workers.runner.pipeline import run_job  # noqa: PLC0415
    from workers.runner.problems import job_problem  # noqa: PLC0415
    from workers.runner.quiet import NoisePolicy  # noqa: PLC0415
    from workers.runner.workplace import (  # noqa: PLC0415
        Workplace,
        calm_numpy,
        collect_rarely,
        keep_kernels,
    )

    settings = get_settings()
    settings.home.mkdir(parents=True, exist_ok=True)
    keep_kernels(settings)
    calm_numpy()
    collect_rarely()
    index = open_local_index(settings)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="plait-job-") as workdir,
            closing(open_device(spec.device)) as device,
        ):
            directory = Path(workdir)
            name, source = model_source(model, model_format, directory)
            limits = sandbox_limits(settings)
            noise = NoisePolicy(spec.allow_noise or settings.allow_noise, settings.quiet_seconds)
            place = Workplace(device, index, recorder, directory, limits, noise)
            run_job(spec, name, source, place)
    except Exception as error:
        problem = job_problem(error)
        if problem is None:
            raise
        return problem.detail
    return None
