"""How far a job for kernels is."""

from __future__ import annotations

import json
from typing import cast

from sqlalchemy.ext.asyncio import AsyncSession

from backend.db.tables import Job
from backend.jobs.schemas import JobSpec
from backend.problems import NotFoundError
from backend.tuning.repository import TuningRepository
from backend.tuning.schemas import (
    Ended,
    TunedUnit,
    TuningProgramRead,
    TuningRead,
    UncoveredRead,
)


async def overview(session: AsyncSession, job: Job) -> TuningRead:
    """What the job tunes and how far it is. Raises NotFoundError if it is not for kernels."""
    kernels = JobSpec.model_validate(job.spec).kernels
    if kernels is None:
        raise NotFoundError(f"job {job.id} tunes no kernels; it is for {job.purpose}")
    found = TuningRepository(session)
    run = await found.run(job.id)
    rounds, tuned_s = await found.progress(job.id)
    standings = await found.standings(job.id)
    tuned = await found.tuned(job.id)
    programs = []
    for row in await found.programs(job.id):
        trials, best_ms = standings.get(row.program, (0, None))
        programs.append(
            TuningProgramRead(
                program=row.program,
                name=row.name,
                weight=row.weight,
                gflops=row.gflops,
                trials=trials,
                best_ms=best_ms,
                tuned=row.program in tuned,
                units=[TunedUnit.model_validate(unit) for unit in row.units],
            )
        )
    return TuningRead(
        programs=programs,
        rounds=rounds,
        trials=sum(program.trials for program in programs),
        trials_wanted=kernels.trials,
        tuned_s=tuned_s,
        failures=await found.failures(job.id),
        uncovered=[UncoveredRead.model_validate(one) for one in run.uncovered] if run else [],
        covered=run.covered if run else None,
        target=json.loads(run.target) if run else None,
        ended=cast("Ended | None", run.ended) if run else None,
        tuned=bool(programs) and all(program.tuned for program in programs),
    )
