"""What a process does to itself before it touches hostile input. Standard library only.

``isolate`` applies every layer that the kernel grants and says which ones are in force:

=============  ===================================================================================
``limits``     resource limits, no new privileges, no capabilities, ends with its parent
``network``    a network namespace with nothing in it, not even loopback
``processes``  PID and IPC namespaces: no other process can be seen, signalled or left behind
``mounts``     a file tree of its own with only what an import needs, read-only but for its scratch
``landlock``   the same rule about files, enforced by Landlock; works without namespaces
``seccomp``    no sockets, no new programs or processes, no debugging; works without namespaces
=============  ===================================================================================

With namespaces, three processes stand in a row. The first waits outside, the second is process 1
of the PID namespace, and the third returns from ``isolate``; the end of one ends all that follow.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

from workers.graph.importers.isolation import landlock, limits, namespaces, seccomp
from workers.graph.importers.isolation.view import View

SIGNAL_EXIT = 128
"""An exit code above this stands for the signal that ended the innermost process."""

_GRACE_SECONDS = 10


def isolate(view: View, bounds: limits.Bounds, programs: bool = False) -> tuple[str, ...]:
    """Shut this process in; returns, in the process that goes on, the layers in force.

    With ``programs`` it may start those that it can read, and load code that it has written, which
    a compiler needs. They are shut in with it: they see no more files, get no network and no
    privileges, cannot leave its process group, and end with it. The limits on memory and time then
    hold for each process, and with namespaces for a plain user the one on their number.

    A layer that the kernel refuses is named on standard error with its reason. Must be called
    while there is only one thread, after ``limits.end_with_parent``.
    """
    layers = ["limits"]
    limits.volunteer_for_oom()
    if _granted("namespaces", namespaces.enter):
        layers += ["network", "processes"]
        _continue_in_fork(bounds.seconds)
        if _granted("mounts", partial(namespaces.enter_tree, view, programs)):
            layers.append("mounts")
        _continue_in_fork(bounds.seconds)
    os.chdir(view.scratch)
    limits.apply(bounds, counts_own_processes="processes" in layers)
    if _granted("landlock", partial(landlock.restrict, view, programs)):
        layers.append("landlock")
    if _granted("seccomp", partial(seccomp.restrict, programs)):
        layers.append("seccomp")
    return tuple(layers)


def _granted(layer: str, enter: Callable[[], None]) -> bool:
    try:
        enter()
    except OSError as error:
        sys.stderr.write(f"the sandbox does without {layer}: {error}\n")
        return False
    return True


def _continue_in_fork(seconds: float) -> None:
    """Return in a new process. The old one waits for its end and then ends in the same way."""
    child = os.fork()
    if child == 0:
        limits.end_with_parent()
        return
    # The starter kills the whole row in time. Should it be gone, and have died in the instant
    # before the fork was tied to its parent, this ends the row a little later.
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(int(seconds) + _GRACE_SECONDS)
    os._exit(_end_of(child))


def _end_of(child: int) -> int:
    while True:
        pid, status = os.wait()  # process 1 also gets to bury orphans
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNAL_EXIT - code


def _give_up(signum: int, frame: FrameType | None) -> None:
    os._exit(SIGNAL_EXIT + signal.SIGKILL)
