"""What hostile code tries to reach, and what it got hold of."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import workers

FILES = {"overwrite_code", "write_outside", "read_a_secret", "list_the_hidden_folder"}
SOCKETS = {"connect_over_tcp", "connect_to_the_hidden_socket", "connect_to_an_abstract_socket"}
PROCESSES = {"read_the_starters_environment", "signal_the_starter"}
PROGRAMS = {"start_a_process", "start_a_program", "become_root_again"}
EVERYTHING = FILES | SOCKETS | PROCESSES | PROGRAMS


@contextmanager
def attack_targets(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What there is to attack: files, a hidden folder, and servers on three kinds of socket."""
    outside, hidden = tmp_path / "outside", tmp_path / "hidden"
    outside.mkdir()
    hidden.mkdir()
    (outside / "secret").write_text("a secret")
    abstract = f"plait-{os.getpid()}"
    listeners = (
        (socket.AF_INET, ("127.0.0.1", 0)),
        (socket.AF_UNIX, str(hidden / "s")),
        (socket.AF_UNIX, f"\0{abstract}"),
    )
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.socket(family)) for family, _ in listeners]
        for server, (_, address) in zip(servers, listeners, strict=True):
            server.bind(address)
            server.listen()
        starter = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
                env={**os.environ, "PLAIT_PASSWORD": "a secret"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        assert starter.stdout is not None
        starter.stdout.readline()
        yield {
            "code": workers.__file__,
            "outside": str(outside),
            "hidden": str(hidden),
            "socket": str(hidden / "s"),
            "port": servers[0].getsockname()[1],
            "abstract": abstract,
            "starter": starter.pid,
        }
        assert not (outside / "proof").exists()


def reached(findings: dict[str, Any]) -> set[str]:
    """The attacks that succeeded."""
    return {name for name in EVERYTHING if "got" in findings[name]}
