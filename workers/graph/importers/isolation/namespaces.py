"""Namespaces of one's own: network, processes, IPC, and a file tree with only what is needed."""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Collection
from pathlib import Path

from workers.graph.importers.isolation import kernel, limits
from workers.graph.importers.isolation.view import View

_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
_CLONE_NEWPID, _CLONE_NEWNET = 0x20000000, 0x40000000
_SEPARATE = _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000


def enter() -> None:
    """Leave the network, and start new PID, IPC and mount namespaces; the next fork is process 1.

    Root needs nothing more; anybody else gets the right to do so from a user namespace. Raises
    OSError, with nothing changed, if the kernel or a container's policy refuses.
    """
    trial = os.fork()  # there is no way back from half-way in
    if trial == 0:
        os._exit(_errno_of_entering())
    code = os.waitstatus_to_exitcode(os.waitpid(trial, 0)[1])
    if code != 0:
        raise OSError(code, os.strerror(code))
    _enter()


def _errno_of_entering() -> int:
    try:
        _enter()
    except OSError as error:
        return error.errno or errno.EPERM
    return 0


def _enter() -> None:
    uid, gid = os.geteuid(), os.getegid()
    try:
        kernel.call("unshare", _SEPARATE)
    except PermissionError:
        kernel.call("unshare", _SEPARATE | _CLONE_NEWUSER)
        # A process may map its own ids only, and its group only without the right to drop others.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    limits.end_with_parent()  # a change of credentials can undo it


def enter_tree(view: View, programs: bool = False) -> None:
    """Put the view together on its ``root`` and make that the root of the file system. What is
    written to its scratch can be executed only with ``programs``.

    ``/proc`` shows this PID namespace, where it may be mounted. Raises OSError, with the file
    system as it was, if something else cannot be.
    """
    _mount("none", Path("/"), None, _MS_REC | _MS_PRIVATE)
    _mount("plait", view.root, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    _bind_all((*view.readable, *view.devices), view.root)
    scratch, proc = _inside(view.root, view.scratch), view.root / "proc"
    for folder in (scratch, proc):
        folder.mkdir(parents=True, exist_ok=True)
    _restrict(view.root, _MS_RDONLY | _MS_NOSUID)
    _mount(str(view.scratch), scratch, None, _MS_BIND)
    _restrict(scratch, _MS_NOSUID | _MS_NODEV | (0 if programs else _MS_NOEXEC))
    try:
        _mount("proc", proc, "proc", _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    except PermissionError as error:  # in a container that hides parts of its own /proc
        sys.stderr.write(f"the sandbox does without /proc: {error}\n")
    os.chdir(view.root)
    kernel.call("pivot_root", b".", b".")
    kernel.call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def _bind_all(paths: Collection[Path], root: Path) -> None:
    """Bind each path's real place below ``root``, and link to it from where a symlink stood."""
    bound: list[Path] = []
    for path in sorted({path.resolve() for path in paths}):
        if not _is_within(path, bound):
            target = _inside(root, path)
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
            _mount(str(path), target, None, _MS_BIND | _MS_REC)
            bound.append(path)
    for path in sorted(paths):
        link = _inside(root, path)
        if path != path.resolve() and not _is_within(path, bound) and not os.path.lexists(link):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path.resolve())


def _is_within(path: Path, folders: Collection[Path]) -> bool:
    return any(path == folder or folder in path.parents for folder in folders)


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _mount(source: str, target: Path, kind: str | None, flags: int, data: str = "") -> None:
    names = (os.fsencode(source), os.fsencode(target), kind.encode() if kind else None)
    try:
        kernel.call("mount", *names, flags, data.encode() or None)
    except OSError as error:
        raise OSError(error.errno, f"{os.strerror(error.errno or 0)} (mount)", str(target)) from (
            error
        )


def _restrict(tree: Path, attributes: int) -> None:
    """mount_setattr(2) on every mount of the tree; its flags have the values of mount(2)'s."""
    attr = struct.pack("=4Q", attributes, 0, 0, 0)
    kernel.syscall(
        kernel.MOUNT_SETATTR, _AT_FDCWD, os.fsencode(tree), _AT_RECURSIVE, attr, len(attr)
    )
