"""Landlock (Linux 5.13): a process gives up every file that a View does not grant it.

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from workers.graph.importers.isolation import kernel
from workers.graph.importers.isolation.view import View

_VERSION_FLAG = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_TRUNCATE, _CONTROL_DEVICE = 1 << 14, 1 << 15
_READ = _READ_FILE | _READ_DIR
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _CONTROL_DEVICE

# Rights on files by version of the interface: 13 at first, then REFER, TRUNCATE, and IOCTL_DEV.
_KNOWN_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_LATEST_RIGHTS = 16
_TCP = 0b11  # bind, connect; from version 4
_SCOPES = 0b11  # abstract Unix sockets and signals; from version 6

_PROC = ("/proc/cpuinfo", "/proc/meminfo", "/proc/self", "/proc/stat")
_PROC_OF_GPUS = ("/proc/devices", "/proc/driver/nvidia")


def restrict(view: View, programs: bool = False) -> None:
    """Keep to the view from now on, and lose TCP, abstract Unix sockets and signals to others.
    With ``programs``, what can be read there may be started.

    The process must have given up gaining privileges. Raises OSError if there is no Landlock.
    """
    version = kernel.syscall(kernel.LANDLOCK_CREATE_RULESET, None, 0, _VERSION_FLAG)
    handled = (1 << _KNOWN_RIGHTS.get(version, _LATEST_RIGHTS)) - 1
    fields = [handled, *[_TCP] * (version >= 4), *[_SCOPES] * (version >= 6)]
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = kernel.syscall(kernel.LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path in view.readable:
            _allow(ruleset, path, (_READ | _EXECUTE * programs) & handled)
        for name in (*_PROC, *(_PROC_OF_GPUS if view.devices else ())):
            _allow(ruleset, Path(name), _READ & handled)
        _allow(ruleset, view.scratch, _WRITE & handled)
        for path in view.devices:
            _allow(ruleset, path, (_READ_FILE | _WRITE_FILE | _CONTROL_DEVICE) & handled)
        _allow(ruleset, Path(os.devnull), (_READ_FILE | _WRITE_FILE) & handled)
        kernel.syscall(kernel.LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        granted = rights if path.is_dir() else rights & _FILE_RIGHTS
        rule = struct.pack("=Qi", granted, place)
        kernel.syscall(kernel.LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(place)
