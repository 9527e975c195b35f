"""``plait tune`` and ``plait resume``: kernels of tensor programs, by the service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from backend.cli.client import Client
from backend.cli.exits import ExitCode
from backend.cli.jobs import (
    AllowNoise,
    Device,
    JobId,
    finish,
    follow,
    model_reference,
    service_client,
    show_state,
)
from backend.cli.output import Json, console, fail, handles_errors, print_json
from backend.jobs.kernel_options import MAX_TRIALS, MeasurerName, MeasuringHosts

MODEL_SUFFIXES = (".onnx", ".pt2", ".pt", ".pth", ".ts", ".zip")

What = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL|PROGRAM...",
        help="A model (a file, or zoo:NAME), whose tensor programs are tuned; or tensor programs: "
        "workloads such as matmul.gpt2_attention, or FAMILY:SIZE=N,SIZE=N.",
    ),
]


@handles_errors
def tune(
    what: What,
    tuner: Annotated[
        str, typer.Option(help="Who proposes candidates; `plait devices --json` lists them.")
    ] = "evolutionary",
    measurer: Annotated[
        MeasurerName,
        typer.Option(
            help="Candidates beside each other with what that does to latencies taken out, "
            "without that, or one after another."
        ),
    ] = "doppler",
    degree: Annotated[
        int, typer.Option(min=0, help="Most candidates at once [default: the worker's cores].")
    ] = 0,
    trials: Annotated[
        int, typer.Option(min=1, max=MAX_TRIALS, help="Candidates, of all programs together.")
    ] = 64,
    batch_size: Annotated[int, typer.Option(min=1, help="Candidates proposed at once.")] = 64,
    hosts: Annotated[
        MeasuringHosts,
        typer.Option(help="Whose devices measure: the worker's, or all measuring hosts' like it."),
    ] = "own",
    device: Device = "cpu",
    budget: Annotated[float, typer.Option(help="Seconds to tune.")] = 3600,
    seed: Annotated[int, typer.Option(help="Of tuners that draw at random.")] = 0,
    cold: Annotated[bool, typer.Option("--cold", help="Flush caches before every run.")] = False,
    allow_noise: AllowNoise = False,
    name: Annotated[str, typer.Option(help="A label for people.")] = "",
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow the job until it is done.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to download kernels to, once done."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tune tensor programs into kernels. `plait cancel` stops a job, `plait resume` goes on."""
    client = service_client()
    model, programs = _undertaking(client, what)
    job = client.post(
        "/jobs",
        {
            "purpose": "kernels",
            "model": model,
            "device": device,
            "budget_seconds": budget,
            "seed": seed,
            "allow_noise": allow_noise,
            "name": name,
            "kernels": {
                "programs": programs,
                "tuner": tuner,
                "measurer": {"kind": measurer, "degree": degree},
                "trials": trials,
                "batch_size": batch_size,
                "cold": cold,
                "hosts": hosts,
            },
        },
    )
    if watch or output is not None:
        finished = follow(client, job["id"], as_json)
        if output is not None:
            download_kernels(client, job["id"], output, quiet=as_json)
        finish(client, finished, as_json)
    elif as_json:
        print_json(job)
    else:
        console.print(f"job {job['id']} queued", soft_wrap=True)


@handles_errors
def resume(job: JobId, as_json: Json = False) -> None:
    """Let a cancelled or failed job for kernels go on where it was."""
    show_state(service_client().post(f"/jobs/{job}/resume"), as_json)


def download_kernels(client: Client, job: str, folder: Path, quiet: bool) -> None:
    """Every kernel's zip into ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for kernel in client.get(f"/jobs/{job}/tuning/kernels"):
        target = folder / kernel["filename"]
        client.download(f"/jobs/{job}/tuning/kernels/{kernel['candidate']}/download", target)
        if not quiet:
            console.print(f"wrote {target}", highlight=False)


def program_of(word: str) -> dict[str, Any]:
    """``FAMILY:SIZE=N,SIZE=N``, or a workload's name, as a KernelProgram. Raises ValueError."""
    family, colon, sizes = word.partition(":")
    if not colon:
        return {"workload": word}
    found: dict[str, int] = {}
    for part in filter(None, sizes.split(",")):
        size, _, number = part.partition("=")
        try:
            found[size.strip()] = int(number)
        except ValueError:
            raise ValueError(
                f"{part!r} in {word!r} is no size; write FAMILY:SIZE=N,SIZE=N with integers, such"
                " as matmul:rows=64,columns=64"
            ) from None
    return {"family": family, "sizes": found}


def _undertaking(client: Client, what: list[str]) -> tuple[str | None, list[dict[str, Any]]]:
    """The model that the words name, or the tensor programs."""
    models = [word for word in what if _names_model(word)]
    if not models:
        try:
            return None, [program_of(word) for word in what]
        except ValueError as error:
            raise fail(str(error), ExitCode.USAGE) from error
    if len(what) > 1:
        message = f"{models[0]} is a model: tune it alone, or name tensor programs only"
        raise fail(message, ExitCode.USAGE)
    return model_reference(client, models[0]), []


def _names_model(word: str) -> bool:
    return word.startswith(("zoo:", "upload:")) or word.endswith(MODEL_SUFFIXES)
