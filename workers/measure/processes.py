"""Who uses the CPU, from Linux's ``/proc``: what the noise guard and the environment stamp read.

Elsewhere there is no ``/proc``; everything here then raises OSError.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_IDLE_FIELDS = (3, 4)
"""``idle`` and ``iowait`` in a line of /proc/stat (proc_stat(5)); the rest but the guests' times,
which ``user`` and ``nice`` contain already, is a core at work, also for other virtual machines."""
_COUNTED_FIELDS = 8


@dataclass(frozen=True, slots=True)
class Process:
    """A process as ``/proc/<pid>/stat`` has it. ``cpu_s`` is its own CPU time and ``reaped_s`` that
    of its children that have ended, in seconds."""

    pid: int
    parent: int
    name: str
    cpu_s: float
    reaped_s: float


@dataclass(frozen=True, slots=True)
class CpuSample:
    """The CPU time that has been used up to ``taken_s`` (of ``time.perf_counter``), in seconds:
    ``busy_s`` by everybody on the watched cores, ``own_s`` by this process and its descendants,
    and that of each process."""

    taken_s: float
    busy_s: float
    own_s: float
    own: frozenset[int]
    processes: Mapping[int, Process]


def sample_cpu(cores: Collection[int]) -> CpuSample:
    """The CPU time used so far on ``cores``. Raises OSError where ``/proc`` cannot be read."""
    tick = 1 / os.sysconf("SC_CLK_TCK")
    processes = {process.pid: process for process in _processes(tick)}
    own = family(processes, os.getpid())
    return CpuSample(
        taken_s=time.perf_counter(),
        busy_s=busy_ticks((PROC / "stat").read_text(), cores) * tick,
        own_s=sum(processes[pid].cpu_s + processes[pid].reaped_s for pid in own),
        own=own,
        processes=processes,
    )


def busy_ticks(stat: str, cores: Collection[int]) -> int:
    """The ticks for which ``cores`` have worked, from the text of ``/proc/stat``."""
    wanted = {f"cpu{core}" for core in cores}
    total = 0
    for line in stat.splitlines():
        name, *fields = line.split()
        if name in wanted:
            total += sum(
                int(field)
                for number, field in enumerate(fields[:_COUNTED_FIELDS])
                if number not in _IDLE_FIELDS
            )
    return total


def parse_process(stat: str, tick: float) -> Process:
    """A line of ``/proc/<pid>/stat`` (proc_pid_stat(5)); the name in it may hold anything."""
    pid, _, rest = stat.partition(" (")
    name, _, fields = rest.rpartition(") ")
    _, parent, *numbers = fields.split()
    user, system, reaped_user, reaped_system = (int(number) for number in numbers[9:13])
    return Process(
        pid=int(pid),
        parent=int(parent),
        name=name,
        cpu_s=(user + system) * tick,
        reaped_s=(reaped_user + reaped_system) * tick,
    )


def family(processes: Mapping[int, Process], root: int) -> frozenset[int]:
    """``root`` and its descendants among ``processes``."""
    found = {root} & processes.keys()
    grown = True
    while grown:
        fresh = {p.pid for p in processes.values() if p.parent in found} - found
        found |= fresh
        grown = bool(fresh)
    return frozenset(found)


def _processes(tick: float) -> Iterator[Process]:
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            # It may end while it is read, or belong to somebody who hides it.
            with suppress(OSError, ValueError):
                yield parse_process((entry / "stat").read_text(errors="replace"), tick)
