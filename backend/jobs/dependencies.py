"""The job that a path names."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends

from backend.edge import TransactionDep
from backend.jobs.repository import JobRepository
from backend.problems import NotFoundError


async def _known_job(job_id: UUID, transaction: TransactionDep) -> UUID:
    if not await JobRepository(transaction.session).exists(job_id):
        raise NotFoundError(f"there is no job {job_id}")
    return job_id


KnownJob = Annotated[UUID, Depends(_known_job)]
