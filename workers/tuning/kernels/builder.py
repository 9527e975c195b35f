"""A building process: ``python -m workers.tuning.kernels.builder SOCKET``.

It loads TVM, says that it is ready, and then answers every order with ``(paths of sources,)``, or
``(failure, reason)``, until its end of the socket is closed. A full disk is an answer of its own:
``(DISK_FULL, reason)``. It never outlives the process that started it.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from multiprocessing.connection import Connection

from workers.measure.measurement import Failure
from workers.measure.parallel.child import READY, die_with_parent, lacks_memory
from workers.tuning.kernels.build import build
from workers.tuning.kernels.runtime import without_torch

DISK_FULL = "disk full"
_NICE = 10
"""Who measures goes first."""
_FULL_DISK = os.strerror(errno.ENOSPC).lower()
_MOST_WORDS = 2000


def main() -> None:
    die_with_parent()
    os.nice(_NICE)
    connection = Connection(int(sys.argv[1]))
    with without_torch():
        import_module("workers.tuning.space")  # and TVM with it
    connection.send(READY)
    while True:
        try:
            order = connection.recv()
        except EOFError:
            return
        try:
            answer: tuple[object, ...] = (build(order),)
        except Exception as error:
            answer = failure(error)
        connection.send(answer)


def failure(error: Exception) -> tuple[object, str]:
    """Why it was not built, in a kind and words."""
    words = str(error).strip() or type(error).__name__
    short = words if len(words) <= _MOST_WORDS else f"…{words[-_MOST_WORDS:]}"
    if getattr(error, "errno", None) == errno.ENOSPC or _FULL_DISK in words.lower():
        return DISK_FULL, short
    if lacks_memory(error):
        return Failure.OUT_OF_MEMORY, short
    return Failure.COMPILE, short


if __name__ == "__main__":
    main()
