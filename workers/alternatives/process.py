"""Our end of a model's own process: it answers one command at a time, and stands still between.

The process runs a model of somebody else's, so what it says is bounded, and what it does not say in
time ends it.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workers.alternatives.catalog import AlternativeError, out_of_memory
from workers.graph.importers.isolation import SIGNAL_EXIT
from workers.graph.importers.sandbox import (
    MAX_DETAIL,
    OUT_OF_MEMORY_SIGNS,
    SandboxLimits,
    isolation_layers,
    readable,
    start_child,
)

_MODULE = "workers.alternatives.child"
_MAX_ANSWER_BYTES = 1 << 20
_MAX_COMPLAINT_BYTES = 1 << 13
_CHUNK = 1 << 16
_STOPPING_SECONDS = 0.1
_ENDING_SECONDS = 1.0
_DYING_SECONDS = 5.0


class Process:
    """The process of one model, ready when it is made. Every method raises AlternativeError.

    Between commands the whole process group is stopped with SIGSTOP: threads that spin, as those of
    OpenMP and ONNX Runtime do for a while after they had work, would slow down whoever is measured
    next. It cannot leave its group (``seccomp``) and ends with the thread that started it.
    """

    def __init__(
        self,
        order: Mapping[str, Any],
        scratch: Path,
        environment: Mapping[str, str],
        limits: SandboxLimits,
        seconds: float,
    ) -> None:
        self._limits = limits
        self._complaint = b""
        self._said = b""
        self._process = start_child(_MODULE, scratch, environment)
        self._row: tuple[int, ...] = (self._process.pid,)
        try:
            self._write(order)
            deadline = time.monotonic() + seconds
            what = f"the model was not ready within {seconds:g} s"
            self.isolation = self._layers(self._line(deadline, what))
            self._row = _row(self._process.pid)
            _checked(self._line(deadline, what))
            self._stop()
        except BaseException:
            self.kill()
            raise

    def ask(self, command: Mapping[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        """The answer to a command, and how many ms it took from asking to hearing."""
        self.refuse_if_ended()
        try:
            self._signal(signal.SIGCONT)
            start = time.perf_counter()
            self._write(command)
            line = self._line(time.monotonic() + seconds, f"it did not answer within {seconds:g} s")
            elapsed = (time.perf_counter() - start) * 1e3
            self._stop()
            return _checked(line), elapsed
        except BaseException:
            self.kill()
            raise

    def refuse_if_ended(self) -> None:
        if self._process.returncode is not None:
            raise AlternativeError("its process has ended")

    def close(self) -> None:
        """Let it end, or else kill it with all that it started. Safe to call twice.

        Of a row of processes that is killed at once, Linux counts the CPU time for nobody, and the
        noise guard would take it for somebody else's.
        """
        if self._process.returncode is None and self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()
            self._signal(signal.SIGCONT)
            deadline = time.monotonic() + _ENDING_SECONDS
            while time.monotonic() < deadline and not self._has_ended():
                time.sleep(0.002)
        self.kill()

    def kill(self) -> None:
        """Kill it with all that it started. Safe to call twice."""
        if self._process.returncode is not None:
            return
        self._signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_DYING_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                with suppress(OSError):
                    pipe.close()

    def _has_ended(self) -> bool:
        """Without taking note of it: its group keeps its number until then."""
        look = os.WEXITED | os.WNOWAIT | os.WNOHANG
        return os.waitid(os.P_PID, self._process.pid, look) is not None

    def _write(self, what: Mapping[str, Any]) -> None:
        pipe = self._process.stdin
        text = json.dumps(what).encode() + b"\n"
        if pipe is None:
            raise AlternativeError("its process takes no commands")
        os.set_blocking(pipe.fileno(), False)  # it may have stopped reading
        try:
            if os.write(pipe.fileno(), text) != len(text):
                raise AlternativeError("its process does not read its commands")
        except BlockingIOError as error:
            raise AlternativeError("its process does not read its commands") from error
        except BrokenPipeError as error:
            raise self._ended() from error

    def _line(self, deadline: float, late: str) -> bytes:
        """The next line that it says, which must be the only one."""
        with selectors.DefaultSelector() as selector:
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe:
                    selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._said:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AlternativeError(late)
                for key, _ in selector.select(left):
                    chunk = os.read(key.fd, _CHUNK)
                    if key.fileobj is not self._process.stdout:
                        self._complaint = (self._complaint + chunk)[-_MAX_COMPLAINT_BYTES:]
                        if not chunk:
                            selector.unregister(key.fileobj)
                    elif not chunk:
                        raise self._ended()
                    else:
                        self._said += chunk
                if len(self._said) > _MAX_ANSWER_BYTES:
                    raise AlternativeError(f"its answer has over {_MAX_ANSWER_BYTES} bytes")
        line, _, self._said = self._said.partition(b"\n")
        return line

    def _layers(self, line: bytes) -> tuple[str, ...]:
        try:
            return isolation_layers(line)
        except ValueError as error:
            raise self._ended() from error

    def _stop(self) -> None:
        """Returns when it stands still, or after a tenth of a second: what goes on running then
        harms the other alternatives' figures, and is none of ours."""
        if self._said:
            raise AlternativeError("it says more than it was asked")
        self._signal(signal.SIGSTOP)
        deadline = time.monotonic() + _STOPPING_SECONDS
        while time.monotonic() < deadline and not all(map(_stands_still, self._row)):
            time.sleep(0.0001)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _ended(self) -> AlternativeError:
        """Why it has closed its end."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_DYING_SECONDS)
        self._complaint += _rest(self._process)
        complaint = self._complaint.decode(errors="replace").strip()
        code = self._process.returncode or 0
        number = -code if code < 0 else code - SIGNAL_EXIT
        if number == signal.SIGKILL or any(sign in complaint for sign in OUT_OF_MEMORY_SIGNS):
            return AlternativeError(out_of_memory(self._limits.memory_bytes))
        if number == signal.SIGXCPU:
            return AlternativeError("it used up the processor time of its job")
        if number > 0:
            name = signal.strsignal(number) or f"signal {number}"
            return AlternativeError(f"its process crashed ({name})")
        last = readable(complaint.rpartition("\n")[2], MAX_DETAIL) or f"exit code {code}"
        return AlternativeError(f"its process ended ({last})")


def _checked(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise AlternativeError("its answer cannot be read") from error
    if not isinstance(answer, dict):
        raise AlternativeError("its answer is no object")
    if "failure" in answer:
        raise AlternativeError(readable(str(answer["failure"]), MAX_DETAIL))
    return answer


def _rest(process: subprocess.Popen[bytes]) -> bytes:
    """What is left of its complaint, now that it has ended."""
    pipe = process.stderr
    if pipe is None or process.returncode is None:
        return b""
    os.set_blocking(pipe.fileno(), False)
    with suppress(BlockingIOError):
        return os.read(pipe.fileno(), _MAX_COMPLAINT_BYTES)
    return b""


def _row(pid: int) -> tuple[int, ...]:
    """The processes that stand in a row from ``pid`` on (``isolation``)."""
    row = [pid]
    while children := _children(row[-1]):
        row.append(children[0])
    return tuple(row)


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:  # it has ended, or the kernel keeps no such list
        return []


def _stands_still(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZX"
    except OSError:
        return True
