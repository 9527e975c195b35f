"""A seccomp filter: system calls that importing a model never makes fail from now on.

It forbids rather than allows, because what torch calls differs by version and platform. What it
forbids: sockets of every kind (io_uring opens them too), new processes and programs, reaching into
other processes, and parts of the kernel that have been its weak spots.

The filter is classic BPF over ``struct seccomp_data`` (seccomp(2), linux/filter.h).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from workers.graph.importers.isolation import kernel

_MODE_FILTER = 2
_ALLOW, _FAIL_WITH, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _JUMP_IF_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000  # from here on the numbers are those of x86-64's second interface
_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020000  # the flags of clone for namespaces
_FOR_PROGRAMS = frozenset({"fork", "vfork", "execve"})

# pidfd_send_signal, io_uring_setup, pidfd_open, pidfd_getfd, process_madvise: one number everywhere
_FORBIDDEN_EVERYWHERE = (424, 425, 434, 438, 440)
_CLONE3 = 435


@dataclass(frozen=True, slots=True)
class _Machine:
    """An architecture's audit number and its numbers of the system calls in question."""

    audit: int
    clone: int
    tgkill: int
    forbidden: Mapping[str, int]


_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E,
        clone=56,
        tgkill=234,
        forbidden={
            "socket": 41, "socketpair": 53, "fork": 57, "vfork": 58, "execve": 59,
            "execveat": 322, "setpgid": 109, "setsid": 112, "kill": 62, "tkill": 200,
            "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "ptrace": 101,
            "process_vm_readv": 310, "process_vm_writev": 311, "unshare": 272, "setns": 308,
            "shmget": 29, "semget": 64, "msgget": 68, "mq_open": 240, "add_key": 248,
            "request_key": 249, "keyctl": 250, "perf_event_open": 298, "bpf": 321,
            "userfaultfd": 323,
        },
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        clone=220,
        tgkill=131,
        forbidden={
            "socket": 198, "socketpair": 199, "execve": 221,
            "execveat": 281, "setpgid": 154, "setsid": 157, "kill": 129, "tkill": 130,
            "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "ptrace": 117,
            "process_vm_readv": 270, "process_vm_writev": 271, "unshare": 97, "setns": 268,
            "shmget": 194, "semget": 190, "msgget": 186, "mq_open": 180, "add_key": 217,
            "request_key": 218, "keyctl": 219, "perf_event_open": 241, "bpf": 280,
            "userfaultfd": 282,
        },
    ),
}  # fmt: skip


def restrict(programs: bool = False) -> None:
    """Put the filter in force for this process and its threads, for good, and for all that it
    starts, which is nothing without ``programs``.

    The process must have given up gaining privileges. Raises OSError if the kernel has no seccomp
    or this machine's system calls are not in the table.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(errno.ENOSYS, f"no table of system calls for {platform.machine()}")
    program = b"".join(_program(machine, os.getpid(), programs))
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    kernel.prctl(kernel.PR_SET_SECCOMP, _MODE_FILTER, header)


def _program(machine: _Machine, pid: int, programs: bool) -> list[bytes]:
    """Threads may be started and signals sent to ``pid`` itself; every other call that is not
    forbidden is allowed. With ``programs`` so are new processes and programs, in the namespaces
    and the process group of this one."""
    refused = _fail(errno.EPERM)
    allowed = _FOR_PROGRAMS if programs else frozenset()
    numbers = [number for name, number in machine.forbidden.items() if name not in allowed]
    forbidden = (*numbers, *_FORBIDDEN_EVERYWHERE)
    return [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_JUMP_IF_EQUAL, machine.audit, on_true=1),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, _NUMBER),
        _instruction(_JUMP_IF_AT_LEAST, _X32, on_false=1),
        refused,
        *chain.from_iterable(
            (_instruction(_JUMP_IF_EQUAL, number, on_false=1), refused) for number in forbidden
        ),
        # Its flags are in memory, which a filter cannot see; without it, libraries call clone.
        _instruction(_JUMP_IF_EQUAL, _CLONE3, on_false=1),
        _fail(errno.ENOSYS),
        *(
            _unless(machine.clone, _JUMP_IF_BITS, _CLONE_NEW)
            if programs
            else _only_if(machine.clone, _JUMP_IF_BITS, _CLONE_THREAD)
        ),
        *_only_if(machine.tgkill, _JUMP_IF_EQUAL, pid),
        _instruction(_RETURN, _ALLOW),
    ]


def _only_if(number: int, test: int, value: int) -> list[bytes]:
    """Allow the call of that number if its first argument passes the test."""
    return [
        _instruction(_JUMP_IF_EQUAL, number, on_false=4),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(test, value, on_true=1),
        _fail(errno.EPERM),
        _instruction(_RETURN, _ALLOW),
    ]


def _unless(number: int, test: int, value: int) -> list[bytes]:
    """Allow the call of that number if its first argument does not pass the test."""
    return [
        _instruction(_JUMP_IF_EQUAL, number, on_false=4),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(test, value, on_false=1),
        _fail(errno.EPERM),
        _instruction(_RETURN, _ALLOW),
    ]


def _fail(error: int) -> bytes:
    return _instruction(_RETURN, _FAIL_WITH | error)


def _instruction(code: int, value: int, on_true: int = 0, on_false: int = 0) -> bytes:
    """One struct sock_filter; the jumps count the instructions that they skip."""
    return struct.pack("=HBBI", code, on_true, on_false, value)
