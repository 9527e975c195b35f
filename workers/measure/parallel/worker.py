"""A measuring process: ``python -m workers.measure.parallel.worker SOCKET DEVICE PREPARE``.

It calls ``PREPARE`` (``module:function``, or nothing), says that it is ready, and then answers
every order ``(token, subject, effort)`` with ``(token, reading)``, or ``(token, failure, reason)``,
until its end of the socket is closed. It never outlives the process that started it.
"""

from __future__ import annotations

import importlib
import sys
import time
from multiprocessing.connection import Connection

from workers.measure.effort import Effort
from workers.measure.measurement import Failure
from workers.measure.parallel.child import READY, die_with_parent, lacks_memory
from workers.measure.parallel.subject import Bench, Reading, Subject, SubjectError
from workers.measure.statistics import median


def main() -> None:
    die_with_parent()
    connection, device, prepare = Connection(int(sys.argv[1])), sys.argv[2], sys.argv[3]
    if prepare:
        module, _, function = prepare.partition(":")
        getattr(importlib.import_module(module), function)()
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
    kind = Failure.OUT_OF_MEMORY if lacks_memory(error) else Failure.LAUNCH
    return kind, words.splitlines()[0]


if __name__ == "__main__":
    main()
