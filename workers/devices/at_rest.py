"""Waiting until this process's other threads rest.

Those of OpenMP and of ONNX Runtime spin for milliseconds after they had work, and would do so on
the very cores on which the next contender is about to be timed. Linux adds what a thread on another
core uses to the process's CPU time at ticks of up to 10 ms only, so their states are looked at.
"""

from __future__ import annotations

import os
import threading
import time

_LOOK_SECONDS = 0.0002
_LONGEST_SECONDS = 0.1
_TASKS = "/proc/self/task"


def wait_until_at_rest() -> bool:
    """Returns as soon as no thread of this process but the caller's runs or wants to; False if that
    took more than 100 ms, or if this system does not tell."""
    own, deadline = str(threading.get_native_id()), time.monotonic() + _LONGEST_SECONDS
    try:
        # os.listdir and open in place of Path: the looks are many.
        while any(_running(thread) for thread in os.listdir(_TASKS) if thread != own):  # noqa: PTH208
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
    except FileNotFoundError:  # no /proc
        time.sleep(_LONGEST_SECONDS)
        return False
    return True


def _running(thread: str) -> bool:
    """From the line that proc_pid_stat(5) describes: the state follows the name, in which anything
    may stand."""
    try:
        with open(f"{_TASKS}/{thread}/stat", "rb") as file:  # noqa: PTH123
            return file.read().rpartition(b") ")[2].startswith(b"R")
    except (FileNotFoundError, ProcessLookupError):
        return False  # it has ended
