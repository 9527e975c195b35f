"""The sandbox: one fresh child process per import, and nothing it says is taken on trust."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import site
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import workers
from workers.graph.importers.isolation import SIGNAL_EXIT
from workers.graph.importers.source import FAILURE_KINDS, ImportFailure

RESULT_FILE = "result.json"
MAX_RESULT_BYTES = 1 << 20
MAX_DETAIL = 600
MAX_OPERATOR = 200

OUT_OF_MEMORY_SIGNS = ("MemoryError", "bad_alloc", "allocate memory")
"""How Python, C++ and torch say that there is not enough."""

_CHUNK = 1 << 16
_MAX_REPORT_BYTES = 1 << 12
_MAX_COMPLAINT_BYTES = 1 << 13
_DYING_SECONDS = 5.0
_PASSED_ON = ("LD_LIBRARY_PATH", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TZ")


def outputs_file(index: int) -> str:
    """The file in an answer that has the outputs for the seed at ``index``."""
    return f"outputs-{index}.safetensors"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What a sandboxed process may use, and the folders that it must not see.

    ``seconds`` is time on the wall's clock; ``memory_bytes`` also bounds every file that it writes.
    """

    memory_bytes: int
    seconds: float
    hidden: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sandboxed process left behind: ``scratch`` holds its files, all of them suspect.

    ``isolation`` names the layers that were in force before it touched the model.
    """

    result: Mapping[str, Any]
    scratch: Path
    isolation: tuple[str, ...]

    def file(self, name: str, max_bytes: int) -> Path:
        """The path of a file in the answer, if it is a plain one of bounded size.

        Raises ImportFailure: a link or a pipe is an attempt on whoever reads it.
        """
        path = self.scratch / name
        try:
            status = path.lstat()
        except OSError as error:
            raise _crashed(f"it left no {name}") from error
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise _crashed(f"its {name} is not a plain file")
        if status.st_size > max_bytes:
            raise ImportFailure(
                "too_large", f"the imported model's {name} has {status.st_size} bytes"
            )
        return path


@contextmanager
def sandboxed(
    request: Mapping[str, Any], model: Path | None, workdir: Path, limits: SandboxLimits
) -> Iterator[Answer]:
    """Have a fresh sandboxed process carry out ``request``; ``child`` says what it understands.

    It can read ``model``, and write to a new folder in ``workdir`` that is there until the context
    ends. Raises ImportFailure if the process reports one, is not done in time, crashes, or leaves
    something that is no answer.
    """
    with sandbox_place(workdir) as place:
        order = place.order(request, model, limits)
        ending = _run(json.dumps(order).encode(), place.scratch, limits.seconds)
        if ending.code != 0:
            raise _failure(ending, limits)
        bare = Answer({}, place.scratch, isolation_layers(ending.report))
        result = parse_result(bare.file(RESULT_FILE, MAX_RESULT_BYTES).read_bytes())
        yield replace(bare, result=result)


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one sandboxed process: it can write to ``scratch``, read what is put into
    ``given``, and puts its file tree together on ``root``."""

    scratch: Path
    given: Path
    root: Path

    def order(
        self, request: Mapping[str, Any], model: Path | None, limits: SandboxLimits
    ) -> dict[str, Any]:
        """``request`` with all that the process must know to shut itself in."""
        return {
            **request,
            "model": str(model.resolve()) if model else None,
            "scratch": str(self.scratch),
            "given": str(self.given),
            "root": str(self.root),
            "hidden": [str(path) for path in limits.hidden],
            "memory_bytes": limits.memory_bytes,
            "seconds": limits.seconds,
            "starter": os.getpid(),
        }


@contextmanager
def sandbox_place(workdir: Path) -> Iterator[Place]:
    """New folders in ``workdir``, which is made if it is missing, until the context ends."""
    workdir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="sandbox-", dir=workdir.resolve()))
    try:
        place = Place(folder / "scratch", folder / "given", folder / "root")
        for part in (place.scratch, place.given, place.root):
            part.mkdir()
        yield place
    finally:
        # What the child made impossible to delete goes, or not, with ``workdir``.
        shutil.rmtree(folder, ignore_errors=True)


def start_child(
    module: str, scratch: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start ``module``, which shuts itself in as its order on stdin says, in a session and process
    group of its own, with nothing of our environment but what torch needs and ``environment``."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=scratch,
        env={**_environment(scratch), **(environment or {})},
        start_new_session=True,
    )


@dataclass(slots=True)
class _Ending:
    """How the child ended: its exit code, None if its time was up, and what it said.

    ``report`` is the beginning of its standard output, ``complaint`` the end of its errors.
    """

    code: int | None = None
    report: bytes = b""
    complaint: bytes = b""


def _run(order: bytes, scratch: Path, seconds: float) -> _Ending:
    ending = _Ending()
    with start_child("workers.graph.importers.child", scratch) as process:
        try:
            if process.stdin:
                with suppress(BrokenPipeError), process.stdin:
                    process.stdin.write(order)
            if _listen(process, ending, seconds):
                ending.code = process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _listen(process, ending, _DYING_SECONDS)
    return ending


def _listen(process: subprocess.Popen[bytes], ending: _Ending, seconds: float) -> bool:
    """Follow both pipes until their end, which comes when every process of the sandbox has ended.

    False if that did not happen within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            if pipe and not pipe.closed:
                selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    ending.report = (ending.report + chunk)[:_MAX_REPORT_BYTES]
                else:
                    ending.complaint = (ending.complaint + chunk)[-_MAX_COMPLAINT_BYTES:]
    return True


def _environment(scratch: Path) -> dict[str, str]:
    """Nothing of ours but where Python finds its packages, and what tells torch how to run."""
    code = [str(Path(workers.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "USER": "plait",
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(filter(None, code)),
        "PYTHONUSERBASE": site.getuserbase(),
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    }


def isolation_layers(report: bytes) -> tuple[str, ...]:
    """The first line, which the child writes before it touches the model; the rest is noise."""
    return tuple(str(layer) for layer in json.loads(report.partition(b"\n")[0]))


def parse_result(text: bytes) -> Mapping[str, Any]:
    """The child's result, if it is one. Raises the ImportFailure that it may report."""
    try:
        result = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _crashed(f"its {RESULT_FILE} cannot be read") from error
    if not isinstance(result, dict):
        raise _crashed(f"its {RESULT_FILE} holds no object")
    failure = result.get("failure")
    if failure is None:
        return result
    if not isinstance(failure, dict) or failure.get("kind") not in FAILURE_KINDS:
        raise _crashed(f"its {RESULT_FILE} reports a failure of no known kind")
    operator = failure.get("operator")
    raise ImportFailure(
        failure["kind"],
        readable(str(failure.get("detail")), MAX_DETAIL),
        None if operator is None else readable(str(operator), MAX_OPERATOR),
    )


def _failure(ending: _Ending, limits: SandboxLimits) -> ImportFailure:
    complaint = ending.complaint.decode(errors="replace").strip()
    code = 0 if ending.code is None else ending.code
    number = -code if code < 0 else code - SIGNAL_EXIT
    if ending.code is None or number == signal.SIGXCPU:
        return ImportFailure(
            "timeout",
            f"the model was not read within {limits.seconds:g} s; export a smaller one, or allow "
            "more time (PLAIT_IMPORT_SECONDS)",
        )
    if number == signal.SIGKILL or any(sign in complaint for sign in OUT_OF_MEMORY_SIGNS):
        return out_of_memory(limits.memory_bytes)
    if number > 0:
        return _crashed(f"{signal.strsignal(number) or f'signal {number}'}")
    return _crashed(readable(complaint.rpartition("\n")[2], MAX_DETAIL) or f"exit code {code}")


def out_of_memory(memory_bytes: int) -> ImportFailure:
    """The failure of a model that does not fit into the sandbox's memory."""
    return ImportFailure(
        "out_of_memory",
        f"reading the model takes more than {memory_bytes / 2**30:.1f} GiB of memory; use a "
        "smaller one, or allow more (PLAIT_IMPORT_MEMORY_BYTES)",
    )


def _crashed(what: str) -> ImportFailure:
    return ImportFailure(
        "crashed",
        f"the process that reads the model failed ({what}); export the model again, and check "
        "that torch.export.load and a call of the loaded module work",
    )


def readable(text: str, length: int) -> str:
    """Text from the sandbox, fit for a log and a page: one line, bounded."""
    line = "".join(c if c.isprintable() else " " for c in text[: 4 * length])
    return " ".join(line.split())[:length]
