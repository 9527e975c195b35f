"""A process that answers orders over a socket: what measuring and building processes share."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

READY = "ready"
STARTING_S = 120.0
"""How long a process may take to say so."""

_ENDING_S = 5.0
"""How long it may take to end once it closed its end of the socket."""

_PR_SET_PDEATHSIG = 1
_MEMORY_SIGNS = ("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc")


class ChildError(RuntimeError):
    """A process that could not be started; the message says what it left behind."""


class Child:
    """One process, ``python -m module SOCKET ARGUMENT …``, leader of its own process group.

    It says ``READY`` before anything else. The group stays in the session of who started it: if
    that one dies while the group is stopped, the kernel ends what is left of it.
    """

    def __init__(
        self, module: str, arguments: Sequence[str] = (), settings: Mapping[str, str] | None = None
    ) -> None:
        """``settings`` are environment variables that it has besides ours."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno()), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **(settings or {})},
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        self.connection = Connection(ours.detach())
        self.alive = True

    @property
    def pid(self) -> int:
        """Its process and its group."""
        return self._process.pid

    def wait_ready(self) -> None:
        """Raises ChildError if it does not get that far."""
        try:
            if not self.connection.poll(STARTING_S) or self.connection.recv() != READY:
                raise ChildError(f"no process was ready within {STARTING_S:g} s")
        except (EOFError, OSError) as error:
            self.bury()
            raise ChildError(f"a process ended before it was ready ({self.end()})") from error
        except BaseException:
            self.kill()
            raise

    def bury(self) -> None:
        """After it closed its end: let it end by itself first, as how it did is the reason."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        self.kill()

    def kill(self) -> None:
        """With all that it started, also if they are stopped."""
        if not self.alive:
            return
        self.alive = False
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.connection.close()

    def end(self) -> str:
        """How it ended, in words."""
        code = self._process.returncode
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"


def die_with_parent() -> None:
    """Called in the process itself: a candidate may hang, and then nobody would be left to end
    it."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def lacks_memory(error: BaseException) -> bool:
    """Whether memory ran out, by what libraries say of it."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(sign in words for sign in _MEMORY_SIGNS)
