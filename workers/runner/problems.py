"""From what a run raises to the problem that its user reads."""

from __future__ import annotations

from backend.jobs.schemas import JobProblem
from workers.devices.base import DeviceError
from workers.graph.importers.source import ImportFailure
from workers.schedulers.base import SchedulerError


class VerificationError(RuntimeError):
    """The imported model does not compute what the original does; names the first output."""


def job_problem(error: Exception) -> JobProblem | None:
    """The problem that ``error`` is for a job's user, or None if it is a defect of Plait."""
    if isinstance(error, ImportFailure):
        return JobProblem(kind=error.kind, detail=error.detail, operator=error.operator)
    if isinstance(error, SchedulerError):
        return JobProblem(kind="scheduler", detail=str(error))
    if isinstance(error, DeviceError):
        return JobProblem(kind="device", detail=str(error))
    if isinstance(error, VerificationError):
        return JobProblem(kind="verification", detail=str(error))
    if isinstance(error, MemoryError):
        detail = "the job ran out of memory; PLAIT_JOB_MEMORY_BYTES sets how much it may use"
        return JobProblem(kind="out_of_memory", detail=detail)
    return None
