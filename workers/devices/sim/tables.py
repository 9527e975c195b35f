"""The tables of ``compiled``: what the engine's objects are there."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workers.devices.sim.kernel import SimKernel
from workers.devices.sim.launch_path import LaunchPath
from workers.devices.sim.sharing import Memory
from workers.hardware.gpu import GpuFacts

Integers = NDArray[np.int64]
Table = Any
"""An array of records, whose fields numba reads as attributes."""


def _fields(integers: str, floats: str) -> np.dtype[np.void]:
    return np.dtype(
        [(name, np.int64) for name in integers.split()]
        + [(name, np.float64) for name in floats.split()]
    )


KERNEL = _fields(
    "grid threads registers shared_memory fit warps",
    "working_set compute_s dram_bytes reused_bytes l2_bytes alone_rate",
)
JOB = _fields(
    "stream records first_row rows first_after afters before missing first_link seen last pending",
    "issued end",
)
ROW = _fields("kernel", "issued")
LINK = _fields("after job following", "")
ARRIVAL = _fields("job position", "time")
LAUNCH = _fields("job position row unplaced running tag", "value partial")
GROUP = _fields(
    "count threads registers shared_memory blocks cohorts key merges space full_for rated"
    " order near fitting",
    "soonest latest dram reused l2",
)
COHORT = _fields(
    "launch row group each before after slowed ended asking", "left rate needed warps asks"
)
STATE = _fields(
    "sm_count threads registers shared_memory blocks"
    " arrivals launched oldest merges cohorts groups cohort_slots first_cohort last_cohort"
    " free_cohort limited all_moved changed resident_changed",
    "dram_bandwidth l2_bandwidth l2_bytes first kernel record wait follow signal working_set",
)


class Machine(NamedTuple):
    """What the engine's objects hold. A number of something is its row in the table of its name.

    - ``state``, one row: the GPU, its memory and the launch path, and what there is one of.
    - ``jobs``: those of all Plans one after the other. Their kernels are ``rows`` from
      ``first_row`` on, and those that they wait for ``after`` in ``links``, counted from the Plan's
      first job. The rest is the engine's: ``before`` is the job before it on its stream,
      ``missing`` how many it still waits for, and the links from ``first_link`` on are to those
      that wait for it.
    - ``cohorts``: ``before`` and ``after`` link all in the order of their making.
    - ``members``: the cohorts of each group, in that order.
    - Some columns are lists that have nothing to do with their row: ``last`` (the last job of each
      stream) and ``pending`` of jobs; ``order`` (the groups that there are), ``near`` and
      ``fitting`` of groups; ``ended`` and ``asking`` of cohorts; ``value`` and ``partial`` of
      launches. A table more would take longer to compile for.
    """

    state: Table
    kernels: Table
    jobs: Table
    rows: Table
    links: Table
    arrivals: Table
    launches: Table
    groups: Table
    cohorts: Table
    members: Integers


class Plans:
    """Collects the jobs of Plans, all of one Plan after each other."""

    def __init__(self) -> None:
        self.starts = [0]
        self._jobs: list[tuple[int, bool, int, int, int, int]] = []
        self._rows: list[int] = []
        self._after: list[int] = []

    def add(
        self, stream: int, rows: tuple[int, ...], after: tuple[int, ...] = (), records: bool = False
    ) -> None:
        """A job of the Plan that is being collected, with the numbers of its kernels."""
        self._jobs.append(
            (stream, records, len(self._rows), len(rows), len(self._after), len(after))
        )
        self._rows += rows
        self._after += after

    def end(self) -> None:
        self.starts.append(len(self._jobs))

    def tables(self) -> tuple[Table, Table, Table]:
        """JOB, ROW and LINK, with what the engine needs of them for its own use."""
        given = np.array(self._jobs, np.int64).reshape(-1, 6)
        streams = int(given[:, 0].max(initial=-1)) + 1
        jobs = np.empty(max(len(given), streams), JOB)
        for column, name in enumerate(
            ("stream", "records", "first_row", "rows", "first_after", "afters")
        ):
            jobs[name][: len(given)] = given[:, column]
        rows, links = np.empty(len(self._rows), ROW), np.empty(len(given) + len(self._after), LINK)
        rows["kernel"], links["after"][: len(self._after)] = self._rows, self._after
        return jobs, rows, links


class Kernels:
    """Numbers kernels: to the engine two are the same if they are one object, and not if they are
    only equal."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[SimKernel] = []  # so that no other gets the id of one of these
        self._table = np.empty(64, KERNEL)

    @property
    def table(self) -> Table:
        return self._table

    def __len__(self) -> int:
        return len(self._kept)

    def numbers(self, kernels: tuple[SimKernel, ...]) -> tuple[int, ...]:
        try:
            return tuple([self._numbers[id(kernel)] for kernel in kernels])
        except KeyError:
            return tuple([self._number(kernel) for kernel in kernels])

    def _number(self, kernel: SimKernel) -> int:
        found = self._numbers.get(id(kernel))
        if found is not None:
            return found
        found = self._numbers[id(kernel)] = len(self._kept)
        self._kept.append(kernel)
        if found == len(self._table):
            self._table = np.concatenate([self._table, np.empty_like(self._table)])
        share, work = kernel.share, kernel.work
        self._table[found] = (
            kernel.grid,
            share.threads,
            share.registers,
            share.shared_memory,
            kernel.fit,
            kernel.warps,
            kernel.working_set,
            work.compute_s,
            work.dram_bytes,
            work.reused_bytes,
            work.l2_bytes,
            1 / work.alone_s,
        )
        return found


def machine(
    gpu: GpuFacts, memory: Memory, path: LaunchPath, kernels: Kernels, plans: Plans
) -> Machine:
    """A machine to run ``plans`` on."""
    jobs, rows, links = plans.tables()
    state = np.zeros(1, STATE)
    for name, value in (
        ("sm_count", gpu.sm_count),
        ("threads", gpu.threads_per_sm),
        ("registers", gpu.registers_per_sm),
        ("shared_memory", gpu.shared_memory_per_sm),
        ("blocks", gpu.blocks_per_sm),
        ("dram_bandwidth", memory.dram_bytes_per_s),
        ("l2_bandwidth", memory.l2_bytes_per_s),
        ("l2_bytes", memory.l2_bytes),
        *asdict(path).items(),
    ):
        state[name] = value
    return Machine(
        state=state,
        kernels=kernels.table,
        jobs=jobs,
        rows=rows,
        links=links,
        arrivals=np.empty(len(jobs), ARRIVAL),
        launches=np.empty(len(rows), LAUNCH),
        groups=np.empty(gpu.sm_count, GROUP),
        cohorts=np.empty(gpu.sm_count * gpu.blocks_per_sm, COHORT),
        members=np.empty((gpu.sm_count, gpu.blocks_per_sm), np.int64),
    )
