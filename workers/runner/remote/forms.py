"""What travels between hosts, as JSON.

A measuring process is sent pickled candidates, but only by the process that started it. What comes
from a database or a queue is read field by field: unpickling it would run whatever it says, for
whoever can write there, and only between equal versions of the code. A library is machine code all
the same; its digest says that it is the one that was placed.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, astuple
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from workers.measure.effort import Effort
from workers.measure.measurement import Failure
from workers.measure.parallel.hosts import Answer
from workers.measure.parallel.subject import Outcome, Reading, Run, Subject
from workers.tuning.kernels.arguments import ProgramArguments
from workers.tuning.kernels.subject import KernelSubject
from workers.tuning.programs import catalog

ORDERS_VERSION = 1
"""Raised when an older host would misread an order, or measure something else."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_RunForm = Annotated[
    tuple[_Positive, _Positive, float | None, float | None],
    Field(strict=False),  # JSON has lists alone
]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class KernelForm(_Form):
    """A ``KernelSubject`` whose files are named by their SHA-256: the ``library``, and what the
    ``program`` (its key) computes of the random inputs of ``seed``, the ``reference``."""

    program: str
    seed: int
    library: Digest
    reference: Digest
    cold: bool
    memory_bytes: Annotated[int, Field(ge=0)]

    @classmethod
    def of(cls, subject: KernelSubject, library: str, reference: str) -> Self:
        """``subject`` must be ``portable``."""
        arguments = subject.arguments
        assert isinstance(arguments, ProgramArguments)  # noqa: S101  # as it is portable
        return cls(
            program=arguments.program.key,
            seed=arguments.seed,
            library=library,
            reference=reference,
            cold=subject.cold,
            memory_bytes=subject.memory_bytes,
        )

    def subject(self, library: Path, reference: Path) -> KernelSubject:
        """The inverse, with files that have these digests. Raises ProgramError for a program that
        is not known here."""
        arguments = ProgramArguments(catalog.from_key(self.program), self.seed, reference)
        return KernelSubject(library, arguments, self.cold, self.memory_bytes)


class AnswerForm(_Form):
    """What became of an order. ``started_s`` and ``ended_s`` are seconds since it was claimed;
    ``runs`` are [wall_ms, device_ms, cycles, instructions], none where there is a ``failure``."""

    process: int
    started_s: float
    ended_s: float
    duration_s: float | None
    runs: list[_RunForm]
    failure: Annotated[Failure | None, Field(strict=False)]
    reason: str

    @classmethod
    def of(cls, outcome: Outcome, claimed_s: float) -> Self:
        """``claimed_s`` is when the order was claimed, in the outcome's time."""
        reading = outcome.reading
        return cls(
            process=outcome.worker,
            started_s=outcome.started_s - claimed_s,
            ended_s=outcome.ended_s - claimed_s,
            duration_s=None if reading is None else reading.duration_s,
            runs=[] if reading is None else [_of_run(run) for run in reading.runs],
            failure=outcome.failure,
            reason=outcome.reason,
        )

    def answer(self, ticket: int, claimed_s: float) -> Answer:
        """``claimed_s`` is when the order was claimed, by ``time.monotonic`` here."""
        reading = None
        if self.duration_s is not None:
            reading = Reading(tuple(Run(*run) for run in self.runs), self.duration_s)
        return Answer(
            ticket=ticket,
            worker=self.process,
            started_s=claimed_s + self.started_s,
            ended_s=claimed_s + self.ended_s,
            reading=reading,
            failure=self.failure,
            reason=self.reason,
        )


class EffortForm(_Form):
    """``workers.measure.effort.Effort``."""

    target_ms: _Positive
    limit_ms: _Positive
    min_repeats: int
    max_repeats: int
    warm_up_ms: _Positive

    @classmethod
    def of(cls, effort: Effort) -> Self:
        return cls(**asdict(effort))

    def effort(self) -> Effort:
        return Effort(**self.model_dump())


def portable(subject: Subject) -> bool:
    """Whether it can be sent to another host: kernels of tensor programs can."""
    return isinstance(subject, KernelSubject) and isinstance(subject.arguments, ProgramArguments)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def capabilities() -> dict[str, Any]:
    """What a host must have in common with the job's own to measure for it: the form of orders,
    and TVM, whose runtime its libraries are made for. ``tvm`` is None where there is none."""
    try:
        tvm = version("apache-tvm")
    except PackageNotFoundError:
        tvm = None
    return {"orders": ORDERS_VERSION, "tvm": tvm}


def _of_run(run: Run) -> tuple[float, float, float | None, float | None]:
    wall_ms, device_ms, cycles, instructions = astuple(run)
    return wall_ms, device_ms, _finite(cycles), _finite(instructions)


def _finite(count: float | None) -> float | None:
    return count if count is not None and math.isfinite(count) else None
