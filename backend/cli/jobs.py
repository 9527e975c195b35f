"""``plait submit | watch | jobs | result | trace | cancel | retry``: the REST API from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from backend.cli.client import Client
from backend.cli.exits import ExitCode
from backend.cli.leaderboard import details, job_verdict, results_table
from backend.cli.output import Json, console, fail, handles_errors, print_json
from backend.cli.tuning_tables import tuning_table, tuning_verdict
from backend.cli.watching import SIMULATED, watch_job
from backend.jobs.schemas import (
    AUTO,
    Granularity,
    IosOptions,
    Provider,
    Purpose,
    SearchMode,
    StageMeasurer,
    Strategies,
    Threads,
)
from backend.results.filenames import result_filename
from backend.settings import get_settings

Model = Annotated[str, typer.Argument(help="A .onnx, .pt2 or TorchScript file, or zoo:NAME.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
Device = Annotated[str, typer.Option(help="Device to tune for.")]
Batch = Annotated[list[int], typer.Option("--batch", "-b", help="Batch size; may be repeated.")]
SequenceLength = Annotated[
    int | None,
    typer.Option(help="Size of the open dimensions besides the batch [default: as exported]."),
]
SchedulerNames = Annotated[
    list[str],
    typer.Option(
        "--scheduler",
        "-s",
        help="Scheduler; may be repeated. `auto` is all of them, combined and refined, beside what "
        "else could run the model.",
    ),
]
Budget = Annotated[float, typer.Option(help="Seconds to search, per batch size.")]
GroupUnits = Annotated[int, typer.Option("--r", help="IOS: most units in a group.")]
StageGroups = Annotated[int, typer.Option("--s", help="IOS: most groups in a stage.")]

StageStrategies = Annotated[
    Strategies,
    typer.Option(
        "--ios-strategies",
        help="IOS: run a stage's groups side by side, merge its operators, or the better of both.",
    ),
]
IosThreads = Annotated[
    Threads,
    typer.Option(
        "--ios-threads",
        help="IOS, on a CPU: try other threads for the groups of a stage, or leave them to the "
        "device.",
    ),
]
IosMode = Annotated[
    SearchMode,
    StageMeasurer,
    typer.Option(
        "--ios-mode",
        help="IOS: measure every stage; only those that bounds cannot exclude (the same optimum); "
        "or those that a model of contention expects to be good.",
    ),
]
IosGap = Annotated[
    float,
    typer.Option(
        "--ios-gap",
        help="IOS, exact and guided: stop when the best schedule is within this fraction of the "
        "bound; 0.01 is 1 %.",
    ),
]
IOS = IosOptions()

OparaStrict = Annotated[
    bool,
    typer.Option("--opara-strict", help="Opara as published; needs a GPU, real or simulated."),
]

UnitGranularity = Annotated[
    Granularity,
    typer.Option(
        "--granularity",
        help="What is one unit: every kernel, fused operators, or every run between branches.",
    ),
]

Kernels = Annotated[
    Provider, typer.Option("--provider", help="Who implements the operators; see `plait devices`.")
]
Measuring = Annotated[
    StageMeasurer,
    typer.Option("--measurer", help="Stages one at a time, or several beside each other."),
]
AllowNoise = Annotated[
    bool, typer.Option("--allow-noise", help="Measure although the machine is busy.")
]

EVERYTHING = [AUTO]


def service_client() -> Client:
    """A client of the service that the environment names, or of the local one."""
    return Client.from_environment(get_settings())


def model_reference(client: Client, model: str) -> str:
    """``zoo:NAME`` as it is; a file is uploaded and becomes ``upload:ID``."""
    if model.startswith(("zoo:", "upload:")):
        return model
    path = Path(model)
    if not path.is_file():
        raise fail(f"no such file: {path} (for a built-in model, write zoo:NAME)", ExitCode.USAGE)
    return f"upload:{client.upload(path)['id']}"


def ios_options(
    r: int, s: int, strategies: Strategies, threads: Threads, mode: SearchMode, gap: float
) -> dict[str, Any]:
    """As a JobSpec has them; not checked."""
    return {
        "max_units_per_group": r,
        "max_groups_per_stage": s,
        "strategies": strategies,
        "threads": threads,
        "mode": mode,
        "gap": gap,
    }


def finish(client: Client, job: dict[str, Any], as_json: bool) -> None:
    """Show a finished job and end with the code that says how it went."""
    if job["spec"]["purpose"] == Purpose.KERNELS:
        _show_kernels(client, job, as_json)
    else:
        _show_results(client, job, as_json)
    if job["state"] != "succeeded":
        raise typer.Exit(ExitCode.JOB_FAILED)


def _show_kernels(client: Client, job: dict[str, Any], as_json: bool) -> None:
    tuning = client.get(f"/jobs/{job['id']}/tuning")
    kernels = client.get(f"/jobs/{job['id']}/tuning/kernels")
    if as_json:
        print_json({**job, "tuning": tuning, "kernels": kernels})
        return
    if tuning["programs"]:
        console.print(tuning_table(tuning, kernels))
    console.print(tuning_verdict(job, tuning), markup=False, highlight=False)


def _show_results(client: Client, job: dict[str, Any], as_json: bool) -> None:
    results = client.get(f"/jobs/{job['id']}/results")
    if as_json:
        print_json({**job, "results": results})
    else:
        summaries = job["summary"] or []
        if results:
            console.print(results_table(results, summaries))
        console.print(job_verdict(job), highlight=False)
        for entry in summaries:
            print_details(entry, several=len(summaries) > 1)


def print_details(entry: dict[str, Any], several: bool) -> None:
    """Below the verdicts, for each batch size."""
    prefix = f"batch {entry['batch_size']}, " if several else ""
    for line in details(entry):
        console.print(f"  {prefix}{line}", style="dim", markup=False, highlight=False)


@handles_errors
def submit(
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
    name: Annotated[str, typer.Option(help="A label for people.")] = "",
    wait: Annotated[bool, typer.Option(help="Follow the job until it is done.")] = False,
    as_json: Json = False,
) -> None:
    """Submit a tuning job; a file is uploaded first."""
    client = service_client()
    job = client.post(
        "/jobs",
        {
            "model": model_reference(client, model),
            "device": device,
            "batch_sizes": batch,
            "sequence_length": sequence_length,
            "schedulers": scheduler,
            "budget_seconds": budget,
            "ios": ios_options(r, s, ios_strategies, ios_threads, ios_mode, ios_gap),
            "opara": {"strict": opara_strict},
            "granularity": granularity,
            "provider": provider,
            "measurer": measurer,
            "allow_noise": allow_noise,
            "name": name,
        },
    )
    if wait:
        finish(client, follow(client, job["id"], as_json), as_json)
    elif as_json:
        print_json(job)
    else:
        console.print(f"job {job['id']} queued", soft_wrap=True)


def follow(client: Client, job: str, as_json: bool) -> dict[str, Any]:
    """Until the job is done; the finished job."""
    if not as_json:
        return watch_job(client, job, console)
    for _ in client.events(job):
        pass
    finished: dict[str, Any] = client.get(f"/jobs/{job}")
    return finished


@handles_errors
def watch(job: JobId, as_json: Json = False) -> None:
    """Follow a job until it is done; with --json, one event a line."""
    client = service_client()
    if as_json:
        for event in client.events(job):
            print_json(event)
        state = client.get(f"/jobs/{job}")["state"]
        raise typer.Exit(ExitCode.OK if state == "succeeded" else ExitCode.JOB_FAILED)
    finish(client, watch_job(client, job, console), as_json=False)


@handles_errors
def jobs(
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    purpose: Annotated[
        str | None,
        typer.Option(
            help="What they are for: tune (schedules), kernels, inspect, or all; without it all "
            "but inspections."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 20,
    as_json: Json = False,
) -> None:
    """List jobs, the newest first."""
    page = service_client().get("/jobs", state=state, purpose=purpose, limit=limit)
    if as_json:
        print_json(page)
        return
    table = Table()
    for column in ("job", "model", "device", "state", "result"):
        table.add_column(column, overflow="fold")
    for job in page["items"]:
        verdict = job_verdict(job) if job["summary"] or job["problem"] else job["progress"]["stage"]
        table.add_row(job["id"], job["model_name"], job["spec"]["device"], job["state"], verdict)
    console.print(table)


@handles_errors
def result(
    job: JobId,
    artifact: Annotated[
        Path | None, typer.Option(help="Also download the artifact to this file or directory.")
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", "-b", help="Which batch size.")] = None,
    as_json: Json = False,
) -> None:
    """Show a job's results and, with --artifact, download its verified schedule."""
    client = service_client()
    if artifact is not None:
        offered = client.get(f"/jobs/{job}/artifacts")
        chosen = [entry for entry in offered if batch in (None, entry["batch_size"])]
        if not chosen:
            raise fail(f"job {job} has no artifact for that batch size", ExitCode.JOB_FAILED)
        for entry in chosen:
            target = artifact / entry["filename"] if artifact.is_dir() else artifact
            client.download(f"/jobs/{job}/artifacts/{entry['id']}/download", target)
            if not as_json:
                console.print(f"wrote {target}", highlight=False)
    finish(client, client.get(f"/jobs/{job}"), as_json)


@handles_errors
def trace(
    job: JobId,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File or directory [default: a file named by the job]"),
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", "-b", help="Which batch size [default: the smallest].")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", "-s", help="Whose result [default: the winner's].")
    ] = None,
    as_json: Json = False,
) -> None:
    """Download a result's timeline as a Chrome trace, for ui.perfetto.dev or chrome://tracing."""
    client = service_client()
    chosen = [
        found
        for found in client.get(f"/jobs/{job}/results")
        if batch in (None, found["batch_size"])
        and (found["winner"] if scheduler is None else found["scheduler"] == scheduler)
    ]
    if not chosen:
        raise fail(f"job {job} has no such result", ExitCode.JOB_FAILED)
    found = chosen[0]
    model = client.get(f"/jobs/{job}")["model_name"]
    name = result_filename(model, found["batch_size"], found["scheduler"], "trace.json")
    target = output / name if output is not None and output.is_dir() else output or Path(name)
    client.download(f"/jobs/{job}/results/{found['id']}/trace", target)
    if as_json:
        print_json({"trace": str(target), "simulated": found["simulated"]})
    else:
        console.print(f"wrote {target}{SIMULATED if found['simulated'] else ''}", highlight=False)


@handles_errors
def cancel(job: JobId, as_json: Json = False) -> None:
    """Cancel a job."""
    show_state(service_client().post(f"/jobs/{job}/cancel"), as_json)


@handles_errors
def retry(job: JobId, as_json: Json = False) -> None:
    """Queue a failed or cancelled job again; nothing is measured twice."""
    show_state(service_client().post(f"/jobs/{job}/retry"), as_json)


def show_state(job: dict[str, Any], as_json: bool) -> None:
    """What has just been done with a job."""
    if as_json:
        print_json(job)
    else:
        console.print(f"job {job['id']} is {job['state']}")
