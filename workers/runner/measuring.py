"""How a job's stages are measured: one after the other, or by DOPpler in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from backend.jobs.schemas import JobSpec
from workers.measure.parallel.doppler import DopplerMeasurer
from workers.measure.parallel.plans import ParallelPlanMeasurer
from workers.measure.parallel.pool import WorkerPool
from workers.measure.parallel.react import ReactPolicy
from workers.measure.parallel.timeouts import PublishedTimeout
from workers.runner.workplace import Workplace

MOST_ON_GPU = 16
"""Processes at once: each has a CUDA context, which takes some hundred MiB."""

PATIENT = PublishedTimeout(shortest_s=60.0, longest_s=120.0)
"""To make a Plan ready may compile its Units, which takes longer than a tuner's kernel does."""


@contextmanager
def measuring(spec: JobSpec, place: Workplace) -> Iterator[Workplace]:
    """The workplace with the measurer that the job asks for, whose processes end with the context.
    Simulated devices compute, whatever is asked for."""
    facts = place.device.facts
    if spec.measurer == "serial" or facts.simulated:
        yield place
        return
    folder = place.workdir / "weights"
    folder.mkdir()
    most = facts.parallelism if facts.gpu is None else MOST_ON_GPU
    with closing(WorkerPool([facts.name], "workers.measure.parallel.plans:load")) as pool:
        measurer = DopplerMeasurer(
            pool, policy=ReactPolicy(max_dp=most), timeout=PATIENT, seed=spec.seed
        )
        yield replace(place, measurer=ParallelPlanMeasurer(measurer, folder, spec.seed))
