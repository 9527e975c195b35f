"""A measuring process: ``python -m workers.measure.parallel.worker SOCKET DEVICE``.

It says that it is ready, and then answers every order ``(token, subject, effort)`` with ``(token,
reading)``, or ``(token, failure, reason)``, until its end of the socket is closed. It never
outlives the process that started it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from multiprocessing.connection import Connection

from workers.measure.effort import Effort
from workers.measure.measurement import Failure
from workers.measure.parallel.subject import Bench, Reading, Subject, SubjectError
from workers.measure.statistics import median

READY = "ready"
_PR_SET_PDEATHSIG = 1
_MEMORY_SIGNS = ("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc")


def main() -> None:
    _die_with_parent()
    connection, device = Connection(int(sys.argv[1])), sys.argv[2]
    connection.send(READY)
    while True:
        try:
            token, subject, effort = connection.recv()
        except EOFError:
            return
        try:
            answer: tuple[object, ...] = (token, measured(subject, device, effort))
        except Exception as error:
            answer = (token, *_failure(error))
        connection.send(answer)


def measured(subject: Subject, device: str, effort: Effort) -> Reading:
    """Load, check, warm up and time one candidate."""
    start = time.perf_counter()
    with subject.open(device) as bench:
        bench.check()
        runs = bench.time(effort.repeats(_warm_up(bench, effort.warm_up_ms)))
    return Reading(tuple(runs), time.perf_counter() - start)


def _warm_up(bench: Bench, limit_ms: float) -> float:
    """As ``serial.warm_up``, by the device's clock, but at most ``limit_ms`` by the host's; the
    latency in ms."""
    start, latencies = time.perf_counter(), list[float]()
    while (time.perf_counter() - start) * 1e3 < limit_ms or not latencies:
        latencies += [run.device_ms for run in bench.time(1)]
        if len(latencies) >= 6 and median(latencies[-3:]) >= 0.97 * median(latencies[-6:-3]):
            break
    return median(latencies[-3:])


def _failure(error: Exception) -> tuple[Failure, str]:
    if isinstance(error, SubjectError):
        return error.kind, str(error)
    words = str(error).strip() or type(error).__name__
    short = isinstance(error, MemoryError) or any(sign in words.lower() for sign in _MEMORY_SIGNS)
    return Failure.OUT_OF_MEMORY if short else Failure.LAUNCH, words.splitlines()[0]


def _die_with_parent() -> None:
    """A candidate may hang, and then nobody would be left to end it."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
