"""``plait up | down | status | login``: the whole service on one machine."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import IO, Annotated

import httpx
import typer
from pydantic import SecretStr
from rich.console import Console
from sqlalchemy.orm import Session, sessionmaker

from backend.auth.service import create_login_link, create_token, token_is_valid
from backend.cli.client import Client
from backend.cli.doctor import port
from backend.cli.exits import ExitCode
from backend.cli.leaderboard import job_verdict, results_table
from backend.cli.local import (
    CLI_TOKEN_FILE,
    RUN_FILE,
    RunningStack,
    announce_stack,
    database_settings,
    running_stack,
    write_private,
)
from backend.cli.output import Json, console, errors, fail, handles_errors, print_json
from backend.cli.stack import parts, serve
from backend.cli.watching import watch_job
from backend.db.session import create_sync_sessions
from backend.settings import Settings, get_settings

READY_SECONDS = 60.0
STOP_SECONDS = 60.0
CLI_SCOPES = ("read", "write", "upload", "upload:trusted")
# A demonstration: it should be done soon, and not wait for a desktop's other programs, which its
# results say.
SAMPLE = {
    "model": "zoo:squeezenet",
    "name": "sample",
    "schedulers": ["sequential", "greedy", "ios"],
    "budget_seconds": 120,
    "allow_noise": True,
}


def up(
    sample: Annotated[bool, typer.Option(help="Run a sample job on the very first start.")] = True,
    as_json: Json = False,
) -> None:
    """Start everything on this machine and serve until Ctrl-C.

    With --json, the one line on standard output is the address, once it serves.
    """
    settings = get_settings()
    out = errors if as_json else console
    settings.home.mkdir(parents=True, exist_ok=True)
    with (settings.home / "up.lock").open("w") as lock:
        if not _lock(lock):
            _already_up(settings, as_json)
            return
        if not (found := port(settings)).ok:
            raise fail(f"cannot listen on {found.detail}; {found.remedy}", ExitCode.JOB_FAILED)
        _stop_on_signal()
        try:
            with ExitStack() as cleanup:
                _start_and_serve(settings, sample, cleanup, out)
        except KeyboardInterrupt:
            out.print("stopped")


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _already_up(settings: Settings, as_json: bool) -> None:
    stack = running_stack(settings.home)
    if stack is None:
        raise fail("Plait is just starting or stopping; try again", ExitCode.UNREACHABLE)
    if not as_json:
        console.print("Plait is up already.")
    _print_address(database_settings(settings), stack.url, as_json)


def _stop_on_signal() -> None:
    """Make the first Ctrl-C or SIGTERM unwind everything, and later ones not disturb that."""

    def stop(signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def _start_and_serve(settings: Settings, sample: bool, cleanup: ExitStack, out: Console) -> None:
    """Start, say where, and watch over the parts. ``out`` is standard error under --json."""
    with out.status("starting PostgreSQL and Valkey"):
        settings = _with_servers(settings, cleanup)
        _migrate(settings)
    url = f"http://{settings.host}:{settings.port}"
    running = parts(settings)
    for part in running:
        part.start()
        cleanup.callback(part.stop)
    with out.status("starting the API, a worker and beat"):
        _wait_until_healthy(url, settings.home / "logs")
    token = _cli_token(settings, create_sync_sessions(settings))
    announce_stack(
        settings.home,
        RunningStack(
            pid=os.getpid(),
            url=url,
            database_url=settings.database_url.get_secret_value(),
            redis_url=settings.redis_url.get_secret_value(),
        ),
    )
    cleanup.callback((settings.home / RUN_FILE).unlink, missing_ok=True)
    client = Client(url, token)
    if sample and not client.get("/jobs", limit=1)["items"]:
        _run_sample(client, out)
    _print_address(settings, url, as_json=out is errors)
    serve(running, out.print)


def _with_servers(settings: Settings, cleanup: ExitStack) -> Settings:
    """Settings with a database and a Redis: the given ones, or embedded ones started here."""
    from backend import embedded  # noqa: PLC0415  # only this command needs it

    fields = settings.model_dump()
    if not settings.database_url.get_secret_value():
        postgres = embedded.start_postgres(settings.home)
        cleanup.callback(postgres.stop)
        fields["database_url"] = SecretStr(postgres.url)
    if not settings.redis_url.get_secret_value():
        valkey = embedded.start_valkey(settings.home)
        cleanup.callback(valkey.stop)
        fields["redis_url"] = SecretStr(valkey.url)
    return Settings(**fields)


def _migrate(settings: Settings) -> None:
    from backend.db import migrate  # noqa: PLC0415  # Alembic is slow to import

    migrate.upgrade(settings.database_url.get_secret_value())


def _wait_until_healthy(url: str, logs: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    answer = "no answer"
    while time.monotonic() < deadline:
        try:
            response = httpx.get(f"{url}/healthz", timeout=2)
            if response.is_success and response.json()["status"] == "ok":
                return
            answer = response.text[:300]
        except httpx.TransportError as error:
            answer = str(error)
        time.sleep(0.1)
    raise fail(f"Plait did not become healthy: {answer}\nlogs: {logs}", ExitCode.UNREACHABLE)


def _cli_token(settings: Settings, sessions: sessionmaker[Session]) -> str:
    """The token that this machine's command line uses; made once, kept in a private file."""
    path = settings.home / CLI_TOKEN_FILE
    with sessions() as session, session.begin():
        if path.exists():
            token = path.read_text().strip()
            if token_is_valid(session, settings, token):
                return token
        token = create_token(session, settings, name="command line", scopes=CLI_SCOPES)
    write_private(path, token)
    return token


def _run_sample(client: Client, out: Console) -> None:
    out.print("First start: scheduling SqueezeNet, batch 1, on this machine's CPU.")
    job = watch_job(client, client.post("/jobs", SAMPLE)["id"], out)
    results = client.get(f"/jobs/{job['id']}/results")
    if results:
        out.print(results_table(results))
    out.print(job_verdict(job), highlight=False)


def _print_address(settings: Settings, url: str, as_json: bool) -> None:
    with create_sync_sessions(settings)() as session, session.begin():
        link = create_login_link(session, settings, url)
    if as_json:
        print_json({"url": url, "login": link})
        return
    console.print(f"\n[bold]Dashboard[/bold]  {link}", highlight=False, soft_wrap=True)
    minutes = settings.login_link_minutes
    console.print(
        f"The link works once, for {minutes} minutes; `plait login` prints another. Ctrl-C stops.",
        style="dim",
    )


@handles_errors
def login(
    url: Annotated[
        str | None, typer.Option(help="The dashboard's address, where it is not this machine's.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a new one-time link to the dashboard."""
    settings = get_settings()
    stack = running_stack(settings.home)
    address = stack.url if stack else f"http://{settings.host}:{settings.port}"
    _print_address(database_settings(settings), (url or address).rstrip("/"), as_json)


def down(as_json: Json = False) -> None:
    """Stop the stack that `plait up` started."""
    stack = running_stack(get_settings().home)
    if stack is None:
        _say_down("Plait is not up.", was_up=False, as_json=as_json)
        return
    os.kill(stack.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(stack.pid, 0)
        except ProcessLookupError:
            _say_down("stopped", was_up=True, as_json=as_json)
            return
        time.sleep(0.1)
    raise fail(f"process {stack.pid} has not ended after {STOP_SECONDS:.0f} s", ExitCode.JOB_FAILED)


def _say_down(words: str, *, was_up: bool, as_json: bool) -> None:
    if as_json:
        print_json({"was_up": was_up})
    else:
        console.print(words)


@handles_errors
def status(as_json: Json = False) -> None:
    """Say whether the service is up and healthy."""
    settings = get_settings()
    client = Client.from_environment(settings)
    try:
        response = httpx.get(f"{client.url}/healthz", timeout=5)
        health = response.json()
    except (httpx.TransportError, ValueError) as error:
        raise fail(f"no Plait service answers at {client.url}", ExitCode.UNREACHABLE) from error
    if as_json:
        print_json({"url": client.url, **health})
    else:
        console.print(f"{client.url}", highlight=False)
        for name, check in health["checks"].items():
            style = "green" if check["ok"] else "red"
            console.print(f"  {name:12} {check['detail']}", style=style, highlight=False)
    if response.is_error:
        raise typer.Exit(ExitCode.JOB_FAILED)
