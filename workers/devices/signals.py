"""Signals between threads: how one stream tells another that a launch has ended.

A signal carries one waiter and alternates: each ``wait`` takes back one ``send``. Two kinds, with
the time from ``send`` to the waiter's next line on the two virtual cores they were measured on:

- ``BlockingSignal``, 25-35 µs: the waiter sleeps in the kernel, and most of that time wakes its
  core up. (``threading.Event`` takes 45-55 µs; polling a lock from Python takes no less than
  sleeping, because every poll competes for the interpreter lock.)
- ``SpinningSignal``, 1.5 µs: the waiter spins outside the interpreter lock. It occupies a core,
  so it fits only where nothing else wants that core until the signal comes.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from threading import Lock

_CACHE_LINE = 64


class Signal(ABC):
    """Sent by one thread, awaited by one other."""

    @abstractmethod
    def send(self) -> None:
        """Let the waiter pass; what happened before is visible to it. At most one unawaited."""

    @abstractmethod
    def wait(self) -> None:
        """Return once ``send`` was called since the last ``wait``."""


class BlockingSignal(Signal):
    """Sleeps while it waits."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def send(self) -> None:
        self._lock.release()

    def wait(self) -> None:
        self._lock.acquire()


class SpinningSignal(Signal):
    """Spins while it waits: a spin lock of the C library, locked by the waiter and unlocked by
    the sender. POSIX leaves unlocking from another thread open; on Linux it is one store with
    release order. ``ctypes`` drops the interpreter lock around the call that spins."""

    def __init__(self) -> None:
        initialise, self._lock, self._unlock = _spin_functions()
        # Alone on its cache line, so that spinning on one signal does not slow another.
        self._memory = ctypes.create_string_buffer(2 * _CACHE_LINE)
        start = ctypes.addressof(self._memory)
        self._address = start + -start % _CACHE_LINE
        initialise(self._address, 0)
        self._lock(self._address)

    def send(self) -> None:
        self._unlock(self._address)

    def wait(self) -> None:
        self._lock(self._address)


@cache
def _spin_functions() -> tuple[
    Callable[[int, int], int], Callable[[int], int], Callable[[int], int]
]:
    """``pthread_spin_init``, ``_lock`` and ``_unlock``; only ``_lock`` drops the interpreter lock,
    for which the others are too short."""
    quick, slow = ctypes.PyDLL(None), ctypes.CDLL(None)
    initialise, lock, unlock = (
        quick.pthread_spin_init,
        slow.pthread_spin_lock,
        quick.pthread_spin_unlock,
    )
    initialise.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lock.argtypes = unlock.argtypes = [ctypes.c_void_p]
    return initialise, lock, unlock
