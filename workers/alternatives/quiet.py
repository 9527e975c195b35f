"""Waiting until this process uses no processor any more.

OpenMP's threads spin for milliseconds after they had work, and would do so on the very cores on
which an alternative in another process is about to be timed.
"""

from __future__ import annotations

import time

_LOOK_SECONDS = 0.001
_IDLE_SHARE = 0.1
_LONGEST_SECONDS = 0.05


def wait_until_quiet() -> bool:
    """Returns as soon as this process has used less than a tenth of a processor for a millisecond;
    False if that took more than 50 ms."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while True:
        began, used = time.monotonic(), time.process_time()
        time.sleep(_LOOK_SECONDS)
        now = time.monotonic()
        if time.process_time() - used < _IDLE_SHARE * (now - began):
            return True
        if now > deadline:
            return False
