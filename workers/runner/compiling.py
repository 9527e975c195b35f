"""Kernels made ready in a process that can be ended, as no compiler asks whether it may go on."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from workers.measure.effort import Effort
from workers.measure.measurement import Failure
from workers.measure.parallel.fixed import FixedMeasurer
from workers.measure.parallel.plans import ParallelPlanMeasurer
from workers.measure.parallel.pool import WorkerPool
from workers.measure.serial import Candidate as Timed
from workers.runner.workplace import Candidate

_ONCE = Effort(target_ms=0.0, limit_ms=0.0, min_repeats=1, max_repeats=1, warm_up_ms=0.0)


class Compiling:
    """Compiles for a ``device`` by its name. What is compiled, the kernel cache keeps for this
    process. ``folder`` takes weights; its process is started when first needed and ends with the
    context."""

    def __init__(self, device: str, folder: Path) -> None:
        self._pool = WorkerPool([device], "workers.measure.parallel.plans:load")
        self._folder = folder
        # One for all candidates, as it writes weights that they share once.
        self._measurer = FixedMeasurer(self._pool, 1, _ONCE)
        self._plans = ParallelPlanMeasurer(self._measurer, folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()

    def missing(self, candidate: Candidate, seconds: float) -> str | None:
        """Compile all that the candidate's Plan launches, in ``seconds`` at most, and run it; why
        it cannot compete, if it cannot."""
        self._folder.mkdir(exist_ok=True)
        self._measurer.timeout_s = seconds
        merged = candidate.merged
        timed = Timed(merged.graph, merged.weights, candidate.plan, candidate.provider)
        (measurement,) = self._plans.measure([timed]).measurements
        if measurement.failure is Failure.TIMEOUT:
            return (
                f"compiling it took more than the {seconds:.0f} s of the budget that were left;"
                " allow more"
            )
        return measurement.reason if measurement.failure is not None else None
