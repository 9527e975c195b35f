"""From what a run raises to the problem that its user reads."""

from __future__ import annotations

import errno

from backend.jobs.schemas import JobProblem
from workers.devices.base import DeviceError
from workers.graph.importers.source import ImportFailure
from workers.measure.noise import NoisyMachineError
from workers.measure.parallel.child import ChildError
from workers.schedulers.base import SchedulerError
from workers.tuning.kernels.pool import BuildError, DiskFullError
from workers.tuning.program import ProgramError
from workers.tuning.session import TuningError
from workers.tuning.targets import TargetError
from workers.tuning.tuners.catalog import UnknownTunerError


class VerificationError(RuntimeError):
    """The imported model does not compute what the original does; names the first output."""


KINDS: tuple[tuple[type[Exception], str], ...] = (
    (SchedulerError, "scheduler"),
    (DeviceError, "device"),
    (NoisyMachineError, "noisy_machine"),
    (VerificationError, "verification"),
    (ProgramError, "program"),
    (UnknownTunerError, "tuner"),
    (TargetError, "device"),
    (TuningError, "tuning"),
    (DiskFullError, "disk_full"),
    (BuildError, "build"),
    (ChildError, "device"),
)
"""The kind of problem that each of these is; its words are the detail."""


def job_problem(error: Exception) -> JobProblem | None:
    """The problem that ``error`` is for a job's user, or None if it is a defect of Plait."""
    if isinstance(error, ImportFailure):
        return JobProblem(kind=error.kind, detail=error.detail, operator=error.operator)
    if isinstance(error, MemoryError):
        detail = "the job ran out of memory; PLAIT_JOB_MEMORY_BYTES sets how much it may use"
        return JobProblem(kind="out_of_memory", detail=detail)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return JobProblem(kind="disk_full", detail=f"the disk of the worker is full: {error}")
    for raised, kind in KINDS:
        if isinstance(error, raised):
            return JobProblem(kind=kind, detail=str(error))
    return None
