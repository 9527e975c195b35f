"""System calls that Python 3.11 has no functions for."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38

# These have one number on every architecture, as all system calls since Linux 5.1.
MOUNT_SETATTR = 442
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446


def call(name: str, *arguments: int | bytes | None) -> int:
    """Call the C library's function of that name. Raises OSError if it returns -1."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_long
    result: int = function(*(_as_c(argument) for argument in arguments))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """Make the system call of that number. Raises OSError if it fails."""
    return call("syscall", number, *arguments)


def prctl(option: int, *arguments: int | bytes) -> None:
    """prctl(2), its unused arguments zero as the kernel demands. Raises OSError."""
    call("prctl", option, *arguments, *([0] * (4 - len(arguments))))


def _as_c(argument: int | bytes | None) -> ctypes.c_long | ctypes.c_char_p:
    """Every integer as wide as a register: a variadic function does not know better."""
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    return ctypes.c_char_p(argument)
